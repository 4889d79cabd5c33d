package stream

import (
	"fmt"
	"testing"
)

// runLength is how many commands of a group one shard turn applies when the
// group is busy.
const runLength = 32

// benchmarkApply decodes and applies the same commands over and over, each in
// runs over committed state, as a shard does.
func benchmarkApply(b *testing.B, streams int, edit func(c *Command, stream, n int)) {
	base := newMemBase(Group{Histories: []uint64{testHistory}})
	for i := range streams {
		c := create(fmt.Sprint("stream-", i))
		tx := NewTx(base)
		if _, err := tx.Apply(&c, 1); err != nil {
			b.Fatal(err)
		}
		if err := base.apply(tx.Mutations()); err != nil {
			b.Fatal(err)
		}
	}
	payload := make([]byte, 256)
	encoded := make([][]byte, runLength)
	l := cachedLoader{base, &Group{Histories: []uint64{testHistory}, Time: 1}}
	tx := NewTx(l)
	var c Command
	for i := range encoded {
		w := write(fmt.Sprint("stream-", i%streams), "")
		w.Payload = payload
		edit(&w, i%streams, i/streams)
		encoded[i] = encode(&w)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; {
		tx.Reset(l)
		for i := 0; i < runLength && n < b.N; i++ {
			if err := Decode(encoded[i], &c); err != nil {
				b.Fatal(err)
			}
			r, err := tx.Apply(&c, 2)
			if err != nil || r.Outcome != Appended {
				b.Fatalf("%+v, %v", r, err)
			}
			n++
		}
		tx.Mutations()
	}
}

// cachedLoader has every record decoded already.
type cachedLoader struct {
	*memBase
	group *Group
}

func (l cachedLoader) Group() (*Group, error) { return l.group, nil }

func BenchmarkAppendManyStreams(b *testing.B) {
	benchmarkApply(b, runLength, func(*Command, int, int) {})
}

func BenchmarkAppendOneStream(b *testing.B) {
	benchmarkApply(b, 1, func(*Command, int, int) {})
}

func BenchmarkAppendByProducer(b *testing.B) {
	benchmarkApply(b, runLength, func(c *Command, stream, n int) {
		c.Producer = &ProducerKey{ID: fmt.Sprint("producer-", stream), Epoch: 1, Seq: uint64(n)}
	})
}

func BenchmarkCommandHeader(b *testing.B) {
	c := by(write("stream-1", "x"), "producer-1", 1, 77)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendHeader(buf[:0], &c)
	}
}

func BenchmarkStreamRecord(b *testing.B) {
	s := streamSamples()["stream"]
	buf := AppendStream(nil, &s)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = AppendStream(buf[:0], &s)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeStream(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}
