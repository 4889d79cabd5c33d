package stream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"
)

func encode(c *Command) []byte { return append(AppendHeader(nil, c), c.Payload...) }

func TestCommandsDecodeToWhatWasEncoded(t *testing.T) {
	var reused Command
	for name, c := range commandSamples() {
		var fresh Command
		if err := Decode(encode(&c), &fresh); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c, fresh); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if err := Decode(encode(&c), &reused); err != nil {
			t.Fatalf("%s, re-using memory: %v", name, err)
		}
		if len(reused.IDs) == 0 {
			reused.IDs = nil
		}
		if diff := cmp.Diff(c, reused); diff != "" {
			t.Errorf("%s, re-using memory (-want +got):\n%s", name, diff)
		}
	}
}

func TestGeneratedCommandsDecodeToWhatWasEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := genCommand(t)
		var got Command
		if err := Decode(encode(&c), &got); err != nil {
			t.Fatal(err)
		}
		if len(c.Payload) == 0 {
			c.Payload = nil
		}
		if len(c.IDs) == 0 {
			c.IDs = nil
		}
		if diff := cmp.Diff(c, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestHeadersAreAppendedAfterWhatIsThere(t *testing.T) {
	for name, c := range commandSamples() {
		got := AppendHeader([]byte("before"), &c)
		if want := append([]byte("before"), AppendHeader(nil, &c)...); !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", name, got, want)
		}
	}
}

func TestFieldsOfOtherKindsAreNotStored(t *testing.T) {
	full := Command{
		Key: key("s"), IDs: []ID{1}, ContentType: "a/b", Expiry: Expiry{TTL: 1, HasTTL: true, At: 2, AtText: "t"}, MediaType: "a/b",
		Close: true, Seq: "1", Producer: &ProducerKey{ID: "p"}, Fault: FaultEmptyBody, Messages: 3,
	}
	for k := KindCreate; k <= KindExpire; k++ {
		c := full
		c.Kind = k
		var got Command
		if err := Decode(AppendHeader(nil, &c), &got); err != nil {
			t.Errorf("kind %d: %v", k, err)
		}
	}
}

// header builds a stored command by hand.
func header(fields ...[]byte) []byte {
	h := bytes.Join(fields, nil)
	b := binary.AppendUvarint([]byte{CommandVersion}, uint64(len(h)))
	return append(b, h...)
}

func varint(n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), v)
}

func text(n protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), s)
}

type refusedCommand struct {
	b    []byte
	want error
}

func refusedCommands() map[string]refusedCommand {
	appendKind := varint(fieldKind, uint64(KindAppend))
	return map[string]refusedCommand{
		"nothing":                     {nil, ErrMalformed},
		"a newer version":             {append([]byte{CommandVersion + 1}, header(appendKind)[1:]...), ErrUnsupported},
		"version 0":                   {append([]byte{0}, header(appendKind)[1:]...), ErrUnsupported},
		"no header length":            {[]byte{CommandVersion}, ErrMalformed},
		"a header longer than it is":  {[]byte{CommandVersion, 200, 1}, ErrMalformed},
		"a header length past uint64": {append([]byte{CommandVersion}, bytes.Repeat([]byte{0xff}, 11)...), ErrMalformed},
		"no kind":                     {header(), ErrMalformed},
		"kind 0":                      {header(varint(fieldKind, 0)), ErrUnsupported},
		"a newer kind":                {header(varint(fieldKind, uint64(KindExpire)+1)), ErrUnsupported},
		"a kind past a byte":          {header(varint(fieldKind, 256+uint64(KindDelete))), ErrUnsupported},
		"the kind after another":      {header(text(fieldBucket, "demo"), appendKind), ErrMalformed},
		"a newer field":               {header(appendKind, varint(lastField+1, 1)), ErrUnsupported},
		"a field of another kind":     {header(appendKind, text(fieldContentType, "a/b")), ErrMalformed},
		"a field twice":               {header(appendKind, text(fieldBucket, "a"), text(fieldBucket, "b")), ErrMalformed},
		"fields out of order":         {header(appendKind, text(fieldStream, "a"), text(fieldBucket, "b")), ErrMalformed},
		"a wrong wire type":           {header(appendKind, varint(fieldBucket, 1)), ErrMalformed},
		"a fixed-size wire type":      {header(appendKind, protowire.AppendFixed32(protowire.AppendTag(nil, fieldBucket, protowire.Fixed32Type), 1)), ErrMalformed},
		"a cut tag":                   {header(appendKind, []byte{0x80}), ErrMalformed},
		"a cut string":                {header(appendKind, []byte{0x12, 9, 'a'}), ErrMalformed},
		"a flag that is no bool":      {header(appendKind, varint(fieldClose, 2)), ErrMalformed},
		"a newer fault":               {header(appendKind, varint(fieldFault, uint64(FaultDigestMismatch)+1)), ErrUnsupported},
		"a message count past uint32": {header(appendKind, varint(fieldMessages, 1<<32)), ErrMalformed},
		"a deadline without its text": {header(varint(fieldKind, uint64(KindCreate)), varint(fieldExpiresAt, 5)), ErrMalformed},
		"a cut id":                    {header(varint(fieldKind, uint64(KindTouch)), text(fieldIDs, "\x80")), ErrMalformed},
		"a payload of a delete":       {append(header(varint(fieldKind, uint64(KindDelete))), 'x'), ErrMalformed},
		"a newer producer field":      {header(appendKind, text(fieldProducer, string(varint(producerFieldDigest+1, 1)))), ErrUnsupported},
		"a producer field twice":      {header(appendKind, text(fieldProducer, string(append(varint(producerFieldSeq, 1), varint(producerFieldSeq, 2)...)))), ErrMalformed},
		"a producer's wrong type":     {header(appendKind, text(fieldProducer, string(text(producerFieldSeq, "1")))), ErrMalformed},
		"a cut producer":              {header(appendKind, text(fieldProducer, "\x0a\x05p")), ErrMalformed},
		"a digest of 31 bytes":        {header(appendKind, text(fieldProducer, string(text(producerFieldDigest, string(make([]byte, 31)))))), ErrMalformed},
	}
}

func TestCommandsThatAreNotWhollyUnderstoodAreRefused(t *testing.T) {
	for name, tt := range refusedCommands() {
		t.Run(name, func(t *testing.T) {
			var c Command
			if err := Decode(tt.b, &c); !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestADecodedCommandKeepsOnlyItsPayloadOfTheInput(t *testing.T) {
	c := commandSamples()["append, all"]
	b := encode(&c)
	var got Command
	if err := Decode(b, &got); err != nil {
		t.Fatal(err)
	}
	n := len(b) - len(c.Payload)
	for i := range b[:n] {
		b[i] = 0xee
	}
	if diff := cmp.Diff(c, got); diff != "" {
		t.Fatalf("a header field aliases the input:\n%s", diff)
	}
	b[n] = '!'
	if got.Payload[0] != '!' {
		t.Fatal("the payload was copied")
	}
}

func FuzzDecodeCommand(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Command
		if err := Decode(b, &c); err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		once := encode(&c)
		var again Command
		if err := Decode(once, &again); err != nil {
			t.Fatalf("what was encoded does not decode: %v", err)
		}
		if diff := cmp.Diff(c, again); diff != "" {
			t.Fatalf("decode(encode(c)) is not c:\n%s", diff)
		}
		if twice := encode(&again); !bytes.Equal(once, twice) {
			t.Fatalf("encoding is not stable: %x, %x", once, twice)
		}
		if len(once) > len(b) {
			t.Fatalf("%d bytes became %d", len(b), len(once))
		}
	})
}
