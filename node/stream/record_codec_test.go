package stream

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func roundTrip[T any](t *testing.T, samples map[string]T, enc func([]byte, *T) []byte, dec func([]byte) (*T, error)) {
	t.Helper()
	for name, v := range samples {
		b := enc([]byte("before"), &v)[len("before"):]
		got, err := dec(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(v, *got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for i := range b {
			if _, err := dec(b[:i]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s cut to %d of %d bytes: %v", name, i, len(b), err)
			}
		}
		if _, err := dec(append(bytes.Clone(b), 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s and a byte more: %v", name, err)
		}
		for _, version := range []byte{0, recordVersion + 1} {
			if _, err := dec(append([]byte{version}, b[1:]...)); !errors.Is(err, ErrUnsupported) {
				t.Errorf("%s as version %d: %v", name, version, err)
			}
		}
		for i := range b {
			b[i] = 0xee
		}
		if diff := cmp.Diff(v, *got); diff != "" {
			t.Errorf("%s aliases its input:\n%s", name, diff)
		}
	}
}

func TestRecordsDecodeToWhatWasEncoded(t *testing.T) {
	roundTrip(t, groupSamples(), AppendGroup, DecodeGroup)
	roundTrip(t, streamSamples(), AppendStream, DecodeStream)
	roundTrip(t, producerSamples(), AppendProducer, DecodeProducer)
}

func TestRecordsWithUnknownFlagsAreRefused(t *testing.T) {
	if _, err := DecodeStream(append([]byte{recordVersion, streamFlags + 1}, make([]byte, 12)...)); !errors.Is(err, ErrUnsupported) {
		t.Errorf("stream: %v", err)
	}
	if _, err := DecodeProducer(append([]byte{recordVersion, producerFlags + 1}, make([]byte, 6)...)); !errors.Is(err, ErrUnsupported) {
		t.Errorf("producer: %v", err)
	}
}

func TestAStreamWithADeadlineButNoTextIsMalformed(t *testing.T) {
	b := AppendStream(nil, &Stream{})
	b[1] |= streamHasAt
	b = append(b[:9], append([]byte{5}, b[9:]...)...)
	if _, err := DecodeStream(b); !errors.Is(err, ErrMalformed) {
		t.Fatalf("got %v", err)
	}
}

func TestLengthsBeyondTheInputAllocateNothing(t *testing.T) {
	long := append([]byte{recordVersion, 0, 0, 0, 0, 0, 0, 0, 0}, bytes.Repeat([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, 5)...)
	if _, err := DecodeStream(long); !errors.Is(err, ErrMalformed) {
		t.Errorf("stream: %v", err)
	}
	many := append([]byte{recordVersion, 0, 0, 0}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1)
	if _, err := DecodeGroup(many); !errors.Is(err, ErrMalformed) {
		t.Errorf("group: %v", err)
	}
}

func fuzzRecord[T any](f *testing.F, enc func([]byte, *T) []byte, dec func([]byte) (*T, error)) {
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := dec(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		once := enc(nil, v)
		again, err := dec(once)
		if err != nil {
			t.Fatalf("what was encoded does not decode: %v", err)
		}
		if diff := cmp.Diff(v, again); diff != "" {
			t.Fatalf("decode(encode(v)) is not v:\n%s", diff)
		}
		if twice := enc(nil, again); !bytes.Equal(once, twice) {
			t.Fatalf("encoding is not stable: %x, %x", once, twice)
		}
	})
}

func FuzzDecodeGroup(f *testing.F)    { fuzzRecord(f, AppendGroup, DecodeGroup) }
func FuzzDecodeStream(f *testing.F)   { fuzzRecord(f, AppendStream, DecodeStream) }
func FuzzDecodeProducer(f *testing.F) { fuzzRecord(f, AppendProducer, DecodeProducer) }
