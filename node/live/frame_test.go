package live

import (
	"encoding/base64"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDataEvents(t *testing.T) {
	cases := []struct {
		name   string
		format Format
		data   string
		want   string
	}{
		{"one line", Text, "hello", "data:hello"},
		{"a closing LF is kept by an empty line", Text, "{\"a\":1}\n", "data:{\"a\":1}\ndata:"},
		{"LF, CR and CRLF start lines", Text, "a\nb\rc\r\nd", "data:a\ndata:b\ndata:c\ndata:d"},
		{"LF CR are two ends", Text, "a\n\rb", "data:a\ndata:\ndata:b"},
		{"a payload can't end the event", Text, "x\r\n\r\nevent: control\n\ndata:{}", "data:x\ndata:\ndata:event: control\ndata:\ndata:data:{}"},
		{"a CR at the end", Text, "a\r", "data:a\ndata:"},
		{"no bytes", Text, "", "data:"},
		{"base64", Base64, "\x01\x02\x03", "data:AQID"},
		{"base64 is padded", Base64, "\xff", "data:/w=="},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := string(AppendData([]byte("before "), c.format, []byte(c.data)))
			if want := "before event: data\n" + c.want + "\n\n"; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

func TestControlAndErrorEvents(t *testing.T) {
	cases := map[string]Control{
		`{"streamNextOffset":"00000000000000000007","streamCursor":"5"}`:                  {Next: 7, Cursor: 5},
		`{"streamNextOffset":"00000000000000000007","streamCursor":"5","upToDate":true}`:  {Next: 7, Cursor: 5, UpToDate: true},
		`{"streamNextOffset":"09007199254740991000","upToDate":true,"streamClosed":true}`: {Next: 9007199254740991000, Cursor: 5, Closed: true},
	}
	for want, c := range cases {
		if got := string(AppendControl(nil, c)); got != "event: control\ndata:"+want+"\n\n" {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := string(AppendError(nil, []byte(`{"error":{}}`))); got != "event: error\ndata:{\"error\":{}}\n\n" {
		t.Errorf("error event %q", got)
	}
}

func TestTextBoundary(t *testing.T) {
	cases := []struct {
		data string
		want int
	}{
		{"", 0}, {"abc", 3}, {"é", 2}, {"a\xc3", 1}, {"€", 3}, {"a\xe2\x82", 1}, {"a\xe2", 1}, {"😀", 4}, {"a\xf0\x9f\x98", 1}, {"\xf0", 0},
		{"a\x80", 2}, {"\x80\x80\x80\x80", 4}, {"a\xff", 2}, {"\xe2\x28", 2}, {"é\x82", 3},
	}
	for _, c := range cases {
		if got := TextBoundary([]byte(c.data)); got != c.want {
			t.Errorf("%q: %d, want %d", c.data, got, c.want)
		}
	}
}

// lines is what an SSE parser makes of one data event: the data lines joined
// by LF. It is written apart from the encoder.
func lines(t *testing.T, event string) string {
	body, ok := strings.CutPrefix(event, "event: data\n")
	body, end := strings.CutSuffix(body, "\n\n")
	if !ok || !end || strings.Contains(body, "\n\n") || strings.Contains(body, "\r") {
		t.Fatalf("not one event: %q", event)
	}
	var out []string
	for _, l := range strings.Split(body, "\n") {
		v, ok := strings.CutPrefix(l, "data:")
		if !ok {
			t.Fatalf("line %q of %q", l, event)
		}
		out = append(out, v)
	}
	return strings.Join(out, "\n")
}

func FuzzDataEvent(f *testing.F) {
	for _, s := range []string{"", "a", "a\nb", "a\r\nb\r\r\n", "\r\n\r\nevent: control\r\rdata:{}\n\n", "é€😀", "\xf0\x9f", "\xff\xfe\r"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text := AppendData(nil, Text, data)
		if n := DataSize(Text, data); len(text) > n {
			t.Fatalf("%d bytes, size said %d", len(text), n)
		}
		want := strings.ReplaceAll(strings.ReplaceAll(string(data), "\r\n", "\n"), "\r", "\n")
		if got := lines(t, string(text)); got != want {
			t.Fatalf("%q reads as %q, want %q", data, got, want)
		}
		b64 := AppendData(nil, Base64, data)
		if n := DataSize(Base64, data); len(b64) > n {
			t.Fatalf("%d bytes, size said %d", len(b64), n)
		}
		back, err := base64.StdEncoding.DecodeString(lines(t, string(b64)))
		if err != nil || string(back) != string(data) {
			t.Fatalf("base64 %q: %v", back, err)
		}
		n := TextBoundary(data)
		if n < len(data)-utf8.UTFMax+1 || n > len(data) || n < len(data) && utf8.FullRune(data[n:]) {
			t.Fatalf("boundary %d of %q", n, data)
		}
		if utf8.Valid(data) && n != len(data) {
			t.Fatalf("whole text %q cut at %d", data, n)
		}
	})
}
