package basestore

import (
	"bytes"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"runnel.dev/runnel/node/stream"
)

// TestKeysAreThoseOfTheFormat pins every key and head value to the byte, as
// docs/formats/basestore.md gives them.
func TestKeysAreThoseOfTheFormat(t *testing.T) {
	for _, tc := range []struct {
		name string
		got  []byte
		want string
	}{
		{"format number", formatKey(), "0101"},
		{"local fact", factKey("id"), "0102" + "6964"},
		{"born record", bornKey(Replica{5, 9}), "0103" + "00000005" + "0000000000000009"},
		{"tombstone", tombstoneKey(5), "0104" + "00000005"},
		{"applied index", headKey(5, headApplied), "02" + "00000005" + "00000000" + "01"},
		{"configuration", headKey(5, headConf), "02" + "00000005" + "00000000" + "02"},
		{"generation pointer", headKey(5, headPointer), "02" + "00000005" + "00000000" + "03"},
		{"group record", appendKind(nil, 5, 1, kindGroup), "02" + "00000005" + "00000001" + "01"},
		{"name", appendName(nil, 5, 1, stream.Key{Bucket: "bu", Stream: "st"}), "02" + "00000005" + "00000001" + "10" + "6275" + "00" + "7374"},
		{"stream record", appendStreamKind(nil, 5, 1, kindStream, 7), "02" + "00000005" + "00000001" + "11" + "0000000000000007"},
		{"producer", appendProducerKey(nil, 5, 1, 7, "p"), "02" + "00000005" + "00000001" + "12" + "0000000000000007" + "70"},
		{"block", appendBlockKey(nil, 5, 1, 7, 3), "02" + "00000005" + "00000001" + "13" + "0000000000000007" + "0000000000000003"},
		{"blob", appendBlobKey(nil, 5, 1, []byte("k")), "02" + "00000005" + "00000001" + "14" + "6b"},
		{"applied value", appendApplied(nil, 9, 100, 3), "0000000000000009" + "0000000000000064" + "0000000000000003"},
	} {
		if got := hex.EncodeToString(tc.got); got != tc.want {
			t.Errorf("%s is %s, want %s", tc.name, got, tc.want)
		}
	}
	if formatVersion != 1 || mergerName != "runnel.concat.v1" || blockBytes != 65536 || pebbleFormat != 21 {
		t.Error("a constant of the format changed: raise the format number and say how old data is read")
	}
}

func TestEverythingOfAGroupLiesInItsSpan(t *testing.T) {
	for _, id := range []uint32{0, 5, 0xff, 0xffffffff} {
		start, end := groupSpan(id)
		keys := newWorldGroup(1).keys(id)
		keys = append(keys, string(appendBlockKey(nil, id, 0xffffffff, 1<<63, 1<<63)))
		for _, k := range keys {
			if bytes.Compare([]byte(k), start) < 0 || bytes.Compare([]byte(k), end) >= 0 {
				t.Errorf("group %d: key %x is outside of [%x, %x)", id, k, start, end)
			}
		}
		if k := tombstoneKey(id); bytes.Compare(k, start) >= 0 {
			t.Errorf("group %d: its tombstone is inside of its span", id)
		}
	}
}

func TestPrefixEnd(t *testing.T) {
	for _, tc := range []struct{ in, want []byte }{
		{[]byte{1, 2}, []byte{1, 3}},
		{[]byte{1, 0xff}, []byte{2}},
		{[]byte{0xff, 0xff}, nil},
	} {
		if got := prefixEnd(tc.in); !slices.Equal(got, tc.want) {
			t.Errorf("after %x comes %x, want %x", tc.in, got, tc.want)
		}
	}
}

func TestANameThatWouldBeAmbiguousIsRefused(t *testing.T) {
	s := openTest(t, testOptions(vfs.NewMem()))
	newWorld(1).create(t, s)
	b := s.NewBatch()
	defer b.Discard()
	err := b.Apply(1, &stream.Mutations{Put: []*stream.Stream{{ID: 1, Key: stream.Key{Bucket: "a\x00b", Stream: "c"}}}})
	if err == nil {
		t.Fatal("a bucket with a zero byte was taken")
	}
}
