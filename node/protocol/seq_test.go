package protocol

import (
	"strings"
	"testing"
)

func TestParseStreamSeq(t *testing.T) {
	checkValues(t, ParseStreamSeq, []valueTest{
		{"absent", nil, "", ""},
		{"empty counts as absent", []string{""}, "", ""},
		{"kept as it is", []string{"09 aB~"}, "09 aB~", ""},
		{"256 bytes", []string{strings.Repeat("9", 256)}, strings.Repeat("9", 256), ""},
		{"257 bytes", []string{strings.Repeat("9", 257)}, "", CodeInvalidHeader},
		{"repeated", []string{"1", "2"}, "", CodeInvalidHeader},
		{"a control character", []string{"1\t"}, "", CodeInvalidHeader},
		{"a byte that no header carries back safely", []string{"1\xff"}, "", CodeInvalidHeader},
	})
}

func TestParseClosed(t *testing.T) {
	for _, v := range []string{"true", "TRUE", "True"} {
		if !ParseClosed([]string{v}) {
			t.Errorf("%q does not close", v)
		}
	}
	for _, v := range [][]string{nil, {""}, {"false"}, {"1"}, {"yes"}, {"true, true"}, {"true", "true"}, {"ｔrue"}} {
		if ParseClosed(v) {
			t.Errorf("%q closes", v)
		}
	}
}
