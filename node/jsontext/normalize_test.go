package jsontext

import (
	"errors"
	"strings"
	"testing"
)

func nested(depth int) string {
	return strings.Repeat(`{"a":`, depth-1) + "{}" + strings.Repeat("}", depth-1)
}

func TestNormalizeStoresMessages(t *testing.T) {
	tests := []struct {
		name     string
		body     string
		want     string
		messages int
	}{
		{"row 29: an empty array holds no message", `[]`, "", 0},
		{"row 29: an empty array in whitespace holds no message", " [ \r\n\t] ", "", 0},
		{"row 30: whitespace inside a message goes", `{"a": 1 }`, "{\"a\":1}\n", 1},
		{
			"row 31: order, duplicates, numbers, surrogates and empty containers are kept",
			` [ {"b":1, "a":2,"b":3} , 1.50e3, "\ud800", [ ] ] `,
			"{\"b\":1,\"a\":2,\"b\":3}\n1.50e3\n\"\\ud800\"\n[]\n", 4,
		},
		{"row 54: an array is flattened one level", `[[1,2],[3,4]]`, "[1,2]\n[3,4]\n", 2},
		{"row 55: an array in an array in an array is one message", `[[[1]]]`, "[[1]]\n", 1},
		{"row 56: 127 levels are legal", nested(127), nested(127) + "\n", 1},
		{"row 58: an array body may be one level deeper", "[" + nested(127) + "]", nested(127) + "\n", 1},
		{"row 58: 127 arrays in an array body", strings.Repeat("[", 128) + strings.Repeat("]", 128), strings.Repeat("[", 127) + strings.Repeat("]", 127) + "\n", 1},
		{"row 62: a lone surrogate escape", `"\ud800"`, "\"\\ud800\"\n", 1},
		{"row 62: a number outside the double range", `1e400`, "1e400\n", 1},
		{"row 62: negative zero", `-0.0`, "-0.0\n", 1},
		{"row 62: a duplicate member", `{"a":1,"a":1}`, "{\"a\":1,\"a\":1}\n", 1},
		{"literals", `[true,false,null]`, "true\nfalse\nnull\n", 3},
		{"all escapes", `"\"\\\/\b\f\n\r\t\u00e9\uABCD"`, `"\"\\\/\b\f\n\r\t\u00e9\uABCD"` + "\n", 1},
		{"whitespace inside strings stays", `[" a  b "  ]`, "\" a  b \"\n", 1},
		{"delete and noncharacters are plain text", "\"\x7f\uffff\U0010ffff\"", "\"\x7f\uffff\U0010ffff\"\n", 1},
		{"UTF-8 of every width", `"é日本🙂"`, "\"é日本🙂\"\n", 1},
		{"line separators are text", "\"\u2028\u2029\"", "\"\u2028\u2029\"\n", 1},
		{"numbers of every form", `[0,-1,10.25,1e5,1E+5,1.0e-05]`, "0\n-1\n10.25\n1e5\n1E+5\n1.0e-05\n", 6},
		{"siblings at the depth bound", `{"a":` + nested(126) + `,"b":` + nested(126) + `}`, `{"a":` + nested(126) + `,"b":` + nested(126) + "}\n", 1},
		{"mixed containers", `{"a":[1,{"b":[]},[[],{}]],"c":{}}`, "{\"a\":[1,{\"b\":[]},[[],{}]],\"c\":{}}\n", 1},
		{"every kind of whitespace in every place", "\t[\n{\r\"a\" : [ 1 , 2 ] , \"b\" : { } } , 3 ]\n", "{\"a\":[1,2],\"b\":{}}\n3\n", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, messages, err := Normalize([]byte("kept"), []byte(tt.body))
			if err != nil || string(out) != "kept"+tt.want || messages != tt.messages {
				t.Errorf("got %q, %d messages, error %v; want %q, %d", out, messages, err, "kept"+tt.want, tt.messages)
			}
		})
	}
}

func TestNormalizeRefuses(t *testing.T) {
	tests := []struct {
		name   string
		body   string
		reason Reason
		offset int
	}{
		{"an empty body", "", NothingPresent, 0},
		{"row 61: spaces only", " \n ", NothingPresent, 3},
		{"row 32: not JSON", "{bad", Unexpected, 1},
		{"row 57: 128 levels", nested(128), TooDeep, 127 * 5},
		{"row 59: one message of an array too deep", "[1," + nested(128) + "]", TooDeep, 3 + 127*5},
		{"129 arrays", strings.Repeat("[", 129) + strings.Repeat("]", 129), TooDeep, 128},
		{"a great many open arrays", strings.Repeat("[", 1<<20), TooDeep, 128},
		{"row 60: a byte that is not UTF-8 in a string", "{\"a\":\"\xff\"}", BadUTF8, 6},
		{"an overlong encoding", "\"\xc0\xaf\"", BadUTF8, 1},
		{"an encoded surrogate", "\"\xed\xa0\x80\"", BadUTF8, 1},
		{"beyond U+10FFFF", "\"\xf4\x90\x80\x80\"", BadUTF8, 1},
		{"UTF-8 cut by the quote", "\"\xe6\x97\"", BadUTF8, 1},
		{"UTF-8 cut by the end", "\"\xe6\x97", BadUTF8, 1},
		{"row 61: a byte order mark", "\ufeff{}", Unexpected, 0},
		{"row 61: two values", "1 2", TrailingData, 2},
		{"row 61: a trailing comma in an object", `{"a":1,}`, Unexpected, 7},
		{"a trailing comma in an array", `[1,]`, Unexpected, 3},
		{"a trailing comma in an inner array", `[[1,]]`, Unexpected, 4},
		{"a leading comma", `[,1]`, Unexpected, 1},
		{"row 61: NaN", "NaN", Unexpected, 0},
		{"Infinity", "-Infinity", BadNumber, 1},
		{"row 61: a leading zero", "01", BadNumber, 1},
		{"a negative leading zero", "-01", BadNumber, 2},
		{"a plus sign", "+1", Unexpected, 0},
		{"a bare point", "[.5]", Unexpected, 1},
		{"no digit behind the point", "[1.]", BadNumber, 3},
		{"no digit in the exponent", "[1e]", BadNumber, 3},
		{"two signs in the exponent", "[1e+-1]", BadNumber, 4},
		{"hexadecimal", "0x10", TrailingData, 1},
		{"row 61: a raw LF in a string", "\"a\nb\"", ControlChar, 2},
		{"a raw NUL in a string", "\"\x00\"", ControlChar, 1},
		{"a raw control character behind eight plain bytes", "\"123456789\x1f\"", ControlChar, 10},
		{"an unknown escape", `"\x41"`, BadEscape, 2},
		{"a short unicode escape", `"\u12g4"`, BadEscape, 5},
		{"an escape at the end", `"\`, Truncated, 2},
		{"a string without end", `"abc`, Truncated, 4},
		{"an array without end", `[1`, Truncated, 2},
		{"an object without end", `{"a":1`, Truncated, 6},
		{"an object without a value", `{"a":`, Truncated, 5},
		{"a number without digits", `-`, Truncated, 1},
		{"a literal without end", `tru`, Truncated, 3},
		{"a misspelt literal", `nuLl`, Unexpected, 2},
		{"a literal run into another", `truefalse`, TrailingData, 4},
		{"a member without a colon", `{"a" 1}`, Unexpected, 5},
		{"a member name that is no string", `{1:2}`, Unexpected, 1},
		{"elements without a comma", `[1 2]`, Unexpected, 3},
		{"an array closed by a brace", `[1}`, Unexpected, 2},
		{"an inner array closed by a brace", `[[1}]`, Unexpected, 3},
		{"an object closed by a bracket", `{"a":1]`, Unexpected, 6},
		{"a bracket too many", `[1]]`, TrailingData, 3},
		{"a comment", `[1/**/]`, Unexpected, 2},
		{"a form feed as whitespace", "\f1", Unexpected, 0},
		{"a no-break space as whitespace", "\u00a01", Unexpected, 0},
		{"a NUL behind the value", "1\x00", TrailingData, 1},
		{"single quotes", `'a'`, Unexpected, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dst := make([]byte, 4, 64)
			copy(dst, "kept")
			out, messages, err := Normalize(dst, []byte(tt.body))
			var fault *Error
			if !errors.As(err, &fault) {
				t.Fatalf("accepted as %q", out)
			}
			if fault.Reason != tt.reason || fault.Offset != tt.offset {
				t.Errorf("refused at %d for %v (%v), want at %d for %v", fault.Offset, fault.Reason, fault, tt.offset, tt.reason)
			}
			if string(out) != "kept" || messages != 0 {
				t.Errorf("a refusal left %q and %d messages", out, messages)
			}
		})
	}
}

func TestErrorTextHoldsNothingOfTheBody(t *testing.T) {
	for r := Truncated; r <= NothingPresent; r++ {
		e := &Error{Offset: 7, Reason: r}
		if reasons[r] == "" || e.Error() != reasons[r]+" at byte 7" {
			t.Errorf("reason %d reads %q", r, e)
		}
	}
	_, _, err := Normalize(nil, []byte(`{"password":"hunter2" oops}`))
	if err == nil || strings.Contains(err.Error(), "oops") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error is %v", err)
	}
}

func TestTrapD5MessagesAreCountedWhileNormalizing(t *testing.T) {
	body := "[" + strings.Repeat(`{"n":1}, `, 999) + `{"n":1}]`
	out, messages, err := Normalize(nil, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if ends := strings.Count(string(out), "\n"); messages != 1000 || ends != messages {
		t.Errorf("%d messages with %d boundaries", messages, ends)
	}
}

func TestBoundaryIsTheLineFeedAlone(t *testing.T) {
	for c := range 256 {
		if Boundary(byte(c)) != (c == '\n') {
			t.Errorf("byte %#x", c)
		}
	}
}

func TestPlainStopsAtTheFirstSpecialByteOfAnyAlignment(t *testing.T) {
	for c := range 256 {
		special := c == '"' || c == '\\' || c < ' ' || c >= 0x80
		for at := range 20 {
			b := []byte(strings.Repeat("a!", 12))
			b[at] = byte(c)
			want := len(b)
			if special {
				want = at
			}
			if got := plain(b, 0); got != want {
				t.Fatalf("byte %#x at %d: stopped at %d", c, at, got)
			}
			// A second special byte before or behind must not hide the first.
			b[23] = 0xff
			if !special {
				want = 23
			}
			if got := plain(b, 0); got != want {
				t.Fatalf("byte %#x at %d before 0xff: stopped at %d, want %d", c, at, got, want)
			}
		}
	}
}

func TestNormalizeAllocatesNothingIntoALargeEnoughBuffer(t *testing.T) {
	body := []byte(` [ {"b":1, "a":2,"b":[3,{}]} , "é日本" ] `)
	buf := make([]byte, 0, len(body)+1)
	if n := testing.AllocsPerRun(100, func() {
		if _, _, err := Normalize(buf, body); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
