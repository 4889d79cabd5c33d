package jsontext

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// oracle decides with encoding/json what Normalize must return. encoding/json
// differs from the rule in two ways, both made up for here: it accepts strings
// that are not UTF-8, and nesting down to 10,000.
func oracle(body []byte) (want []byte, messages int, ok bool) {
	if !json.Valid(body) || !utf8.Valid(body) {
		return nil, 0, false
	}
	parts := []json.RawMessage{body}
	if bytes.TrimLeft(body, " \t\r\n")[0] == '[' {
		parts = nil
		if json.Unmarshal(body, &parts) != nil {
			return nil, 0, false
		}
	}
	var out bytes.Buffer
	for _, p := range parts {
		if depthOf(p) > MaxDepth || json.Compact(&out, p) != nil {
			return nil, 0, false
		}
		out.WriteByte('\n')
	}
	return out.Bytes(), len(parts), true
}

// depthOf is the nesting of valid JSON text.
func depthOf(text []byte) (deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

func check(t *testing.T, body []byte) {
	t.Helper()
	want, wantMessages, wantOK := oracle(body)
	before := bytes.Clone(body)
	out, messages, err := Normalize([]byte("kept"), body)
	if !bytes.Equal(body, before) {
		t.Fatalf("the body was changed: %q", before)
	}
	if (err == nil) != wantOK {
		t.Fatalf("%q: error %v, the oracle accepts: %v", body, err, wantOK)
	}
	if string(out) != "kept"+string(want) || messages != wantMessages {
		t.Fatalf("%q: got %q, %d; want %q, %d", body, out[4:], messages, want, wantMessages)
	}
	for line := range bytes.Lines(out[4:]) {
		again, n, err := Normalize(nil, append(append([]byte("["), line...), ']'))
		if err != nil || n != 1 || !bytes.Equal(again, line) {
			t.Fatalf("%q: stored message %q becomes %q, %d, %v", body, line, again, n, err)
		}
	}
}

func FuzzNormalize(f *testing.F) {
	for _, seed := range []string{
		`[]`, `{"a": 1 }`, ` [ {"b":1, "a":2,"b":3} , 1.50e3, "\ud800", [ ] ] `,
		`[[1,2],[3,4]]`, nested(128), "[" + nested(127) + "]", "{\"a\":\"\xff\"}", "\ufeff{}",
		`-0.0e+10`, `"\u12zz"`, "\"\xe6\x97\"", `[1,]`, `{"a":1}x`, "\"12345678\x01\"",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) { check(t, body) })
}

func TestNormalizeAgreesWithAnOracleOnMutatedText(t *testing.T) {
	// Every single-byte change, cut and doubling of a text that has one of
	// everything: what a fuzzer finds first, held without one.
	text := []byte(` [ {"k\n\u00e9é":[-0.5e+1,{}] , "" : null},true ,[ ],"x" ] `)
	for i := range text {
		check(t, text[:i])
		check(t, append(bytes.Clone(text[:i]), text[i:]...))
		check(t, append(append(bytes.Clone(text[:i]), text[i]), text[i:]...))
		check(t, append(bytes.Clone(text[:i]), text[i+1:]...))
		for c := range 256 {
			changed := bytes.Clone(text)
			changed[i] = byte(c)
			check(t, changed)
		}
	}
}
