package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestOffsetText(t *testing.T) {
	for o, want := range map[Offset]string{
		0:         "00000000000000000000",
		8:         "00000000000000000008",
		8388608:   "00000000000008388608",
		MaxOffset: "00009007199254740991",
	} {
		if got := o.String(); got != want {
			t.Errorf("%d is %q, want %q", uint64(o), got, want)
		}
		if got := string(AppendOffset([]byte("x"), o)); got != "x"+want {
			t.Errorf("appended %q", got)
		}
		if back, err := ParseOffset(want); err != nil || back != o {
			t.Errorf("%q reads back as %d, %v", want, back, err)
		}
	}
}

func TestOffsetsSortAsText(t *testing.T) {
	offsets := []Offset{0, 1, 9, 10, 99, 100, 1 << 31, 1 << 52, MaxOffset}
	texts := make([]string, len(offsets))
	for i, o := range offsets {
		texts[i] = o.String()
	}
	if !slices.IsSorted(texts) {
		t.Errorf("not in stream order: %q", texts)
	}
}

func TestParseOffset(t *testing.T) {
	tests := []struct {
		name string
		in   string
		want Offset
		code Code
	}{
		{"row 117: unpadded", "8", 8, ""},
		{"padded", "00000000000000000008", 8, ""},
		{"the largest", "9007199254740991", MaxOffset, ""},
		{"above the largest", "9007199254740992", 0, CodeInvalidOffset},
		{"20 nines", "99999999999999999999", 0, CodeInvalidOffset},
		{"21 digits", "000000000000000000008", 0, CodeInvalidOffset},
		{"above 64 bits", "18446744073709551624", 0, CodeInvalidOffset},
		{"empty", "", 0, CodeInvalidOffset},
		{"signed", "+8", 0, CodeInvalidOffset},
		{"a sentinel", "-1", 0, CodeInvalidOffset},
		{"hexadecimal", "0x8", 0, CodeInvalidOffset},
		{"full-width digits", "８", 0, CodeInvalidOffset},
		{"an underscore", "1_0", 0, CodeInvalidOffset},
		{"a character below the digits", "1/", 0, CodeInvalidOffset},
		{"a character above the digits", "1:", 0, CodeInvalidOffset},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseOffset(tt.in)
			if got != tt.want || codeOf(t, err) != tt.code {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
}

func TestParseReadOffset(t *testing.T) {
	tests := []struct {
		name   string
		values []string
		want   Position
		code   Code
	}{
		{"absent is the start", nil, Position{}, ""},
		{"-1 is the start", []string{"-1"}, Position{Given: true}, ""},
		{"now", []string{"now"}, Position{Anchor: FromNow, Given: true}, ""},
		{"a token", []string{"00000000000000000042"}, Position{FromOffset, 42, true}, ""},
		{"the token of the first byte", []string{"00000000000000000000"}, Position{FromOffset, 0, true}, ""},
		{"row 116: empty", []string{""}, Position{}, CodeInvalidOffset},
		{"row 116: repeated", []string{"a", "b"}, Position{}, CodeInvalidOffset},
		{"row 116: repeated and equal", []string{"-1", "-1"}, Position{}, CodeInvalidOffset},
		{"row 116: a comma", []string{"0,1"}, Position{}, CodeInvalidOffset},
		{"row 116: a path", []string{"../x"}, Position{}, CodeInvalidOffset},
		{"row 116: -2", []string{"-2"}, Position{}, CodeInvalidOffset},
		{"a space", []string{"0 1"}, Position{}, CodeInvalidOffset},
		{"a control character", []string{"0\x00"}, Position{}, CodeInvalidOffset},
		{"another case", []string{"NOW"}, Position{}, CodeInvalidOffset},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseReadOffset(tt.values)
			if got != tt.want || codeOf(t, err) != tt.code {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func FuzzParseOffset(f *testing.F) {
	for _, s := range []string{"0", "-1", "now", "00000000000000000042", "9007199254740992", "99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		o, err := ParseOffset(s)
		if err != nil {
			return
		}
		// What was accepted is digits of that value, and the canonical form.
		want := strings.TrimLeft(s, "0")
		if got := strings.TrimLeft(fmt.Sprint(uint64(o)), "0"); got != want || o > MaxOffset {
			t.Fatalf("%q reads as %d", s, o)
		}
		if back, err := ParseOffset(o.String()); err != nil || back != o {
			t.Fatalf("%d does not read back: %d, %v", o, back, err)
		}
	})
}
