package protocol

import (
	"strconv"
	"strings"
	"testing"
)

func TestParseProducer(t *testing.T) {
	type out struct {
		id         string
		epoch, seq uint64
		present    bool
	}
	one := func(s string) []string { return []string{s} }
	tests := []struct {
		name              string
		ids, epochs, seqs []string
		want              out
		code              Code
	}{
		{"none", nil, nil, nil, out{}, ""},
		{"all three", one("p-1"), one("3"), one("7"), out{"p-1", 3, 7, true}, ""},
		{"zeros", one("p"), one("0"), one("0"), out{"p", 0, 0, true}, ""},
		{"leading zeros", one("p"), one("00"), one("007"), out{"p", 0, 7, true}, ""},
		{"the largest", one("p"), one("9007199254740991"), one("9007199254740991"), out{"p", MaxInteger, MaxInteger, true}, ""},
		{"an id of 256 bytes", one(strings.Repeat("p", 256)), one("0"), one("0"), out{strings.Repeat("p", 256), 0, 0, true}, ""},
		{"an id with punctuation and a space", one(`a "b"/c`), one("0"), one("0"), out{`a "b"/c`, 0, 0, true}, ""},
		{"row 88: no id", nil, one("0"), one("0"), out{}, CodeInvalidProducer},
		{"row 88: no epoch", one("p"), nil, one("0"), out{}, CodeInvalidProducer},
		{"row 88: no seq", one("p"), one("0"), nil, out{}, CodeInvalidProducer},
		{"row 88: seq alone", nil, nil, one("0"), out{}, CodeInvalidProducer},
		{"row 89: exponent", one("p"), one("1e3"), one("0"), out{}, CodeInvalidProducer},
		{"row 89: negative epoch", one("p"), one("-1"), one("0"), out{}, CodeInvalidProducer},
		{"row 89: negative seq", one("p"), one("0"), one("-1"), out{}, CodeInvalidProducer},
		{"row 89: hexadecimal", one("p"), one("0x1"), one("0"), out{}, CodeInvalidProducer},
		{"row 89: 2^53 as epoch", one("p"), one("9007199254740992"), one("0"), out{}, CodeInvalidProducer},
		{"row 89: 2^53 as seq", one("p"), one("0"), one("9007199254740992"), out{}, CodeInvalidProducer},
		{"row 89: empty id", one(""), one("0"), one("0"), out{}, CodeInvalidProducer},
		{"digits and letters", one("p"), one("1abc"), one("0"), out{}, CodeInvalidProducer},
		{"an empty epoch", one("p"), one(""), one("0"), out{}, CodeInvalidProducer},
		{"beyond 64 bits", one("p"), one("18446744073709551616"), one("0"), out{}, CodeInvalidProducer},
		{"an id of 257 bytes", one(strings.Repeat("p", 257)), one("0"), one("0"), out{}, CodeInvalidProducer},
		{"a control character in the id", one("p\x7f"), one("0"), one("0"), out{}, CodeInvalidProducer},
		{"an id outside ASCII", one("é"), one("0"), one("0"), out{}, CodeInvalidProducer},
		{"an id that ends with a space", one("p "), one("0"), one("0"), out{}, CodeInvalidProducer},
		{"two ids", []string{"p", "q"}, one("0"), one("0"), out{}, CodeInvalidProducer},
		{"two epochs", one("p"), []string{"0", "0"}, one("0"), out{}, CodeInvalidProducer},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got out
			var err error
			got.id, got.epoch, got.seq, got.present, err = ParseProducer(tt.ids, tt.epochs, tt.seqs)
			if got != tt.want || codeOf(t, err) != tt.code {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestParseProducerAllocatesNothing(t *testing.T) {
	ids, epochs, seqs := []string{"p"}, []string{"12"}, []string{"34567"}
	if n := testing.AllocsPerRun(100, func() { _, _, _, _, _ = ParseProducer(ids, epochs, seqs) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParseProducer(f *testing.F) {
	f.Add("p", "0", "0")
	f.Add("", "9007199254740991", "9007199254740992")
	f.Add("\x00", "1e3", "-1")
	f.Fuzz(func(t *testing.T, id, epoch, seq string) {
		gotID, gotEpoch, gotSeq, present, err := ParseProducer([]string{id}, []string{epoch}, []string{seq})
		if err != nil {
			if present {
				t.Fatal("present in spite of an error")
			}
			return
		}
		wantEpoch, err1 := strconv.ParseUint(epoch, 10, 53)
		wantSeq, err2 := strconv.ParseUint(seq, 10, 53)
		if err1 != nil || err2 != nil || gotEpoch != wantEpoch || gotSeq != wantSeq {
			t.Fatalf("%q and %q read as %d and %d", epoch, seq, gotEpoch, gotSeq)
		}
		if gotID != id || len(id) < 1 || len(id) > 256 || !present {
			t.Fatalf("id %q reads as %q", id, gotID)
		}
	})
}
