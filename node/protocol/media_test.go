package protocol

import (
	"strings"
	"testing"
)

func TestMediaType(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"as it is", "text/plain", "text/plain"},
		{"row 28: upper case", "APPLICATION/JSON", "application/json"},
		{"row 28: a parameter", "application/json; charset=utf-8", "application/json"},
		{"a parameter without a space", "application/json;charset=utf-8", "application/json"},
		{"row 50: space before the parameter", "text/plain ; charset=utf-8", "text/plain"},
		{"a malformed parameter", "text/plain; charset", "text/plain"},
		{"a suffix", "application/vnd.api+json", "application/vnd.api+json"},
		{"surrounding whitespace", "\t text/plain ", "text/plain"},
		{"empty", "", ""},
		{"no slash", "text", ""},
		{"no type", "/plain", ""},
		{"no subtype", "text/", ""},
		{"no subtype but a parameter", "text/;a=b", ""},
		{"two slashes", "text/plain/x", ""},
		{"a space inside", "text/ plain", ""},
		{"two types", "text/plain, text/html", ""},
		{"a control character", "text/pl\x00ain", ""},
		{"outside ASCII", "text/plaïn", ""},
		{"a quote", `text/"plain"`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := MediaType(tt.in); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestJSONAndTextAreToldByMediaType(t *testing.T) {
	for in, want := range map[string]struct {
		json, text bool
		read       string
	}{
		"application/json":              {true, false, TypeNDJSON},
		"Application/JSON; charset=x":   {true, false, TypeNDJSON},
		"text/plain; charset=UTF-8":     {false, true, "text/plain; charset=UTF-8"},
		"TEXT/html":                     {false, true, "TEXT/html"},
		"application/json-seq":          {false, false, "application/json-seq"},
		"application/vnd.api+json":      {false, false, "application/vnd.api+json"},
		"application/octet-stream":      {false, false, "application/octet-stream"},
		"image/text/plain":              {false, false, "image/text/plain"},
		"application/x-ndjson":          {false, false, "application/x-ndjson"},
		"application/x-www-form; q=a/b": {false, false, "application/x-www-form; q=a/b"},
	} {
		mt := MediaType(in)
		if IsJSON(mt) != want.json || IsText(mt) != want.text || ReadType(in) != want.read {
			t.Errorf("%q: JSON %v, text %v, reads as %q", in, IsJSON(mt), IsText(mt), ReadType(in))
		}
	}
}

func TestParseContentType(t *testing.T) {
	checkValues(t, ParseContentType, []valueTest{
		{"absent", nil, "", ""},
		{"kept verbatim", []string{"Text/Plain; Charset=UTF-8"}, "Text/Plain; Charset=UTF-8", ""},
		{"not a media type", []string{"nonsense"}, "nonsense", ""},
		{"256 bytes", []string{strings.Repeat("x", 256)}, strings.Repeat("x", 256), ""},
		{"257 bytes", []string{strings.Repeat("x", 257)}, "", CodeInvalidHeader},
		{"repeated", []string{"text/plain", "text/plain"}, "", CodeInvalidHeader},
		{"a line break", []string{"text/plain\r\nx: y"}, "", CodeInvalidHeader},
		{"outside ASCII", []string{"text/é"}, "", CodeInvalidHeader},
	})
}

func FuzzMediaType(f *testing.F) {
	for _, s := range []string{"text/plain", "APPLICATION/JSON;x", "a/b/c", " /", "text/\xff", "a//"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		mt := MediaType(s)
		if mt == "" {
			return
		}
		if MediaType(mt) != mt || MediaType(mt+"; p=1") != mt || MediaType(strings.ToUpper(mt)) != mt {
			t.Fatalf("%q gives %q, which is not stable", s, mt)
		}
		if mt != strings.ToLower(mt) || strings.ContainsAny(mt, "; \t\",") || strings.Count(mt, "/") != 1 {
			t.Fatalf("%q gives %q", s, mt)
		}
	})
}

func TestMediaTypeAllocatesNothingForLowerCase(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { MediaType("application/json; charset=utf-8") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
