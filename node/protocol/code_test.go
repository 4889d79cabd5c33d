package protocol

import (
	"bufio"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCodesAreThoseOfTheSpecification(t *testing.T) {
	f, err := os.Open("testdata/codes.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := map[Code]bool{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		fields := strings.Fields(lines.Text())
		status, err := strconv.Atoi(fields[0])
		if err != nil {
			t.Fatal(err)
		}
		code := Code(fields[1])
		if _, known := codes[code]; !known {
			t.Errorf("%s is missing", code)
			continue
		}
		// The one code with two statuses is listed twice; the other is 405.
		if code.Status() != status && !(code == CodeUnsupported && status == 405) {
			t.Errorf("%s comes with %d, want %d", code, code.Status(), status)
		}
		refuses := len(fields) > 2 || status/100 == 4 && status != 408
		if code.ProvesRefusal() != refuses {
			t.Errorf("%s proves a refusal: %v, want %v", code, code.ProvesRefusal(), refuses)
		}
		seen[code] = true
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	for code := range codes {
		if !seen[code] {
			t.Errorf("%s is not in the specification", code)
		}
	}
	if len(seen) != 84 {
		t.Errorf("the specification has %d codes here, want 84", len(seen))
	}
}

func TestCodeTextIsStable(t *testing.T) {
	for code, facts := range codes {
		if strings.Trim(string(code), "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" {
			t.Errorf("%q is not uppercase letters and underscores", code)
		}
		if facts.message == "" || facts.message != code.Message() {
			t.Errorf("%s has the message %q", code, code.Message())
		}
		if !isPrintable(facts.message) || strings.ContainsAny(facts.message, `"\<>&`) {
			t.Errorf("%s: message %q needs escaping", code, facts.message)
		}
	}
}

func TestAnUnknownCodeProvesNothing(t *testing.T) {
	c := Code("WHAT_IS_THIS")
	if c.Status() != 500 || c.ProvesRefusal() || c.Message() != CodeInternal.Message() {
		t.Errorf("%d, %v, %q", c.Status(), c.ProvesRefusal(), c.Message())
	}
}

func TestErrorBody(t *testing.T) {
	tests := []struct {
		name    string
		code    Code
		message string
		want    string
	}{
		{"the code's own message", CodeStreamNotFound, "", `{"error":{"code":"STREAM_NOT_FOUND","message":"the stream does not exist"}}`},
		{"another message", CodeInvalidOffset, "bad offset", `{"error":{"code":"INVALID_OFFSET","message":"bad offset"}}`},
		{"what would break JSON", CodeInternal, "a\"b\\c\nd\x00", `{"error":{"code":"INTERNAL","message":"a\"b\\c\u000ad\u0000"}}`},
		{"what would break a page", CodeInternal, "<b>&", `{"error":{"code":"INTERNAL","message":"\u003cb\u003e\u0026"}}`},
		{"bytes outside ASCII", CodeInternal, "é\xff\x7f", `{"error":{"code":"INTERNAL","message":"????"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(AppendErrorBody([]byte("x"), tt.code, tt.message)); got != "x"+tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func FuzzErrorBody(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\\n", "\x00\x1f\x7f\xff", "</script>", "日本"} {
		f.Add("INTERNAL", s)
	}
	f.Fuzz(func(t *testing.T, code, message string) {
		b := AppendErrorBody(nil, Code(code), message)
		var body struct {
			Error struct{ Code, Message string }
		}
		if err := json.Unmarshal(b, &body); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		if strings.ContainsAny(string(b), "\n\r<>&") || !utf8.Valid(b) {
			t.Fatalf("%q is not one plain line", b)
		}
		if isPrintable(message) && message != "" && body.Error.Message != message {
			t.Fatalf("%q became %q", message, body.Error.Message)
		}
	})
}
