package raftgroup

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func encodeEntry(e envelope, cmds ...[]byte) []byte {
	data := appendEnvelope(nil, e, len(cmds))
	for _, c := range cmds {
		data = appendCommand(data, c[:len(c)/2], c[len(c)/2:])
	}
	return data
}

func TestEntryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := envelope{rapid.Uint64().Draw(t, "replica"), rapid.Uint64().Draw(t, "nonce"), rapid.Uint64().Draw(t, "seq"), rapid.Uint64().Draw(t, "stamp")}
		cmds := rapid.SliceOfN(rapid.SliceOf(rapid.Byte()), 1, 20).Draw(t, "commands")
		got, decoded, err := decodeEntry(encodeEntry(e, cmds...), nil)
		if err != nil || got != e || len(decoded) != len(cmds) {
			t.Fatalf("%+v, %d commands, %v", got, len(decoded), err)
		}
		for i := range cmds {
			if !bytes.Equal(cmds[i], decoded[i]) {
				t.Fatalf("command %d differs", i)
			}
		}
	})
}

func TestDecodeEntryRefuses(t *testing.T) {
	good := encodeEntry(envelope{1, 2, 3, 4}, []byte("ab"), []byte("cde"))
	edit := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(good)) }
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"nothing", nil, "empty"},
		{"a newer version", edit(func(b []byte) []byte { b[0] = 2; return b }), "version 2"},
		{"a short header", good[:20], "20 bytes"},
		{"no commands", edit(func(b []byte) []byte { b[33] = 0; return b[:envelopeHeader] }), "0 commands"},
		{"an absurd count", edit(func(b []byte) []byte { b[36] = 0xff; return b }), "commands in"},
		{"a command beyond the end", good[:len(good)-1], "1 "},
		{"bytes after the end", append(bytes.Clone(good), 0), "after the last"},
		{"a count that is too high", edit(func(b []byte) []byte { b[33] = 3; return b }), "truncated"},
	} {
		if _, _, err := decodeEntry(c.data, nil); err == nil || (c.want != "1 " && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add(encodeEntry(envelope{1, 2, 3, 4}, []byte("ab"), nil, []byte("cde")))
	f.Add([]byte{1})
	f.Add([]byte{2, 0, 0})
	f.Add(append(appendEnvelope(nil, envelope{}, 1<<31), 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, cmds, err := decodeEntry(data, nil)
		if err != nil {
			return
		}
		if again := encodeEntry(e, cmds...); !bytes.Equal(again, data) {
			t.Fatalf("accepted %x, which is %x", data, again)
		}
	})
}
