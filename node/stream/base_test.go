package stream

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// memBase is a base store for tests: it holds records in stored form and
// decoded ones in a cache that evict empties at will.
type memBase struct {
	group     []byte
	streams   map[ID][]byte
	names     map[Key]ID
	producers map[producerKey][]byte
	data      map[ID][]byte

	cachedStreams   map[ID]*Stream
	cachedProducers map[producerKey]*Producer
	loads           int // how many times records were decoded
}

func newMemBase(g Group) *memBase {
	b := &memBase{
		group:     AppendGroup(nil, &g),
		streams:   map[ID][]byte{},
		names:     map[Key]ID{},
		producers: map[producerKey][]byte{},
		data:      map[ID][]byte{},
	}
	b.evict(func() bool { return true })
	return b
}

// restore returns a base made of a copy of what b has stored, with nothing
// cached: a snapshot moved elsewhere, or a restart.
func (b *memBase) restore() *memBase {
	c := &memBase{
		group:     bytes.Clone(b.group),
		streams:   maps.Clone(b.streams),
		names:     maps.Clone(b.names),
		producers: maps.Clone(b.producers),
		data:      map[ID][]byte{},
	}
	for id, d := range b.data {
		c.data[id] = bytes.Clone(d)
	}
	c.evict(func() bool { return true })
	return c
}

// evict forgets each cached record that pick chooses.
func (b *memBase) evict(pick func() bool) {
	if b.cachedStreams == nil {
		b.cachedStreams, b.cachedProducers = map[ID]*Stream{}, map[producerKey]*Producer{}
	}
	for _, id := range slices.Sorted(maps.Keys(b.cachedStreams)) {
		if pick() {
			delete(b.cachedStreams, id)
		}
	}
	for _, k := range b.producerKeys() {
		if pick() {
			delete(b.cachedProducers, k)
		}
	}
}

func (b *memBase) producerKeys() []producerKey {
	return slices.SortedFunc(maps.Keys(b.producers), func(x, y producerKey) int {
		if x.stream != y.stream {
			return int(x.stream) - int(y.stream)
		}
		return bytes.Compare([]byte(x.id), []byte(y.id))
	})
}

func (b *memBase) Group() (*Group, error) { return DecodeGroup(b.group) }

func (b *memBase) Lookup(key Key) (*Stream, error) {
	id, ok := b.names[key]
	if !ok {
		return nil, nil
	}
	return b.Stream(id)
}

func (b *memBase) Stream(id ID) (*Stream, error) {
	if s := b.cachedStreams[id]; s != nil {
		return s, nil
	}
	enc, ok := b.streams[id]
	if !ok {
		return nil, nil
	}
	b.loads++
	s, err := DecodeStream(enc)
	b.cachedStreams[id] = s
	return s, err
}

func (b *memBase) Producer(id ID, producer string) (*Producer, error) {
	k := producerKey{id, producer}
	if p := b.cachedProducers[k]; p != nil {
		return p, nil
	}
	enc, ok := b.producers[k]
	if !ok {
		return nil, nil
	}
	b.loads++
	p, err := DecodeProducer(enc)
	b.cachedProducers[k] = p
	return p, err
}

// apply writes one run's mutations, as the base store does.
func (b *memBase) apply(m *Mutations) error {
	if m.Group != nil {
		b.group = AppendGroup(nil, m.Group)
	}
	for _, s := range m.Removed {
		if _, ok := b.streams[s.ID]; !ok {
			return fmt.Errorf("removed stream %d did not exist", s.ID)
		}
		delete(b.streams, s.ID)
		delete(b.names, s.Key)
		delete(b.cachedStreams, s.ID)
		delete(b.data, s.ID)
		for _, k := range b.producerKeys() {
			if k.stream == s.ID {
				delete(b.producers, k)
				delete(b.cachedProducers, k)
			}
		}
	}
	put := map[ID]bool{}
	for _, s := range m.Put {
		if put[s.ID] {
			return fmt.Errorf("stream %d put twice", s.ID)
		}
		put[s.ID] = true
		b.streams[s.ID] = AppendStream(nil, s)
		b.names[s.Key] = s.ID
		b.cachedStreams[s.ID] = s
	}
	written := map[producerKey]bool{}
	for _, p := range m.Producers {
		k := producerKey{p.Stream, p.ID}
		if _, ok := b.streams[p.Stream]; !ok || written[k] {
			return fmt.Errorf("producer %v put twice or without its stream", k)
		}
		written[k] = true
		b.producers[k] = AppendProducer(nil, p.Producer)
		b.cachedProducers[k] = p.Producer
	}
	for _, a := range m.Appends {
		if _, ok := b.streams[a.Stream]; !ok {
			return fmt.Errorf("append to stream %d that is gone", a.Stream)
		}
		if uint64(len(b.data[a.Stream])) != a.Offset {
			return fmt.Errorf("append to stream %d at %d, its bytes end at %d", a.Stream, a.Offset, len(b.data[a.Stream]))
		}
		b.data[a.Stream] = append(b.data[a.Stream], a.Data...)
	}
	return b.check()
}

// check verifies that no cached record was changed behind the store's back,
// that tails match the bytes and that producer counts match the records.
func (b *memBase) check() error {
	count := map[ID]uint32{}
	for k := range b.producers {
		count[k.stream]++
	}
	for id, s := range b.cachedStreams {
		if !bytes.Equal(AppendStream(nil, s), b.streams[id]) {
			return fmt.Errorf("shared record of stream %d was changed", id)
		}
	}
	for k, p := range b.cachedProducers {
		if !bytes.Equal(AppendProducer(nil, p), b.producers[k]) {
			return fmt.Errorf("shared record of producer %v was changed", k)
		}
	}
	for id, enc := range b.streams {
		s, err := DecodeStream(enc)
		if err != nil {
			return err
		}
		if s.Tail != uint64(len(b.data[id])) || s.Producers != count[id] {
			return fmt.Errorf("stream %d: tail %d of %d bytes, %d of %d producers", id, s.Tail, len(b.data[id]), s.Producers, count[id])
		}
	}
	return nil
}

// dump is everything stored, comparable.
func (b *memBase) dump() string {
	var w bytes.Buffer
	fmt.Fprintf(&w, "group %x\n", b.group)
	for _, id := range slices.Sorted(maps.Keys(b.streams)) {
		fmt.Fprintf(&w, "stream %d %x data %q\n", id, b.streams[id], b.data[id])
	}
	for _, k := range b.producerKeys() {
		fmt.Fprintf(&w, "producer %v %x\n", k, b.producers[k])
	}
	return w.String()
}

// machine applies commands one run each, for table tests.
type machine struct {
	t    *testing.T
	base *memBase
	now  uint64
}

const testHistory = 0x1122334455667788

func newMachine(t *testing.T) *machine {
	return &machine{t: t, base: newMemBase(Group{Histories: []uint64{testHistory}}), now: 1_000_000}
}

// do applies c, through its stored form, at the machine's clock.
func (m *machine) do(c Command) Result {
	m.t.Helper()
	var stored Command
	if err := Decode(append(AppendHeader(nil, &c), c.Payload...), &stored); err != nil {
		m.t.Fatalf("decode: %v", err)
	}
	tx := NewTx(m.base)
	r, err := tx.Apply(&stored, m.now)
	if err != nil {
		m.t.Fatalf("apply: %v", err)
	}
	if err := m.base.apply(tx.Mutations()); err != nil {
		m.t.Fatalf("mutations: %v", err)
	}
	return r
}

func (m *machine) stream(name string) *Stream {
	m.t.Helper()
	s, err := m.base.Lookup(key(name))
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

func (m *machine) group() *Group {
	m.t.Helper()
	g, err := m.base.Group()
	if err != nil {
		m.t.Fatal(err)
	}
	return g
}

func (m *machine) rewriteHistory(id uint64) {
	g := m.group()
	g.Histories = append(g.Histories, id)
	m.base.group = AppendGroup(nil, g)
}

func (m *machine) want(r Result, o Outcome) Result {
	m.t.Helper()
	if r.Outcome != o {
		m.t.Fatalf("outcome %v, want %v (result %+v)", r.Outcome, o, r)
	}
	return r
}

func key(name string) Key { return Key{Bucket: "demo", Stream: name} }

func create(name string) Command {
	return Command{Kind: KindCreate, Key: key(name), ContentType: "text/plain"}
}

func write(name, payload string) Command {
	return Command{Kind: KindAppend, Key: key(name), MediaType: "text/plain", Payload: []byte(payload)}
}

func closing(c Command) Command { c.Close = true; return c }

func closeOnly(name string) Command {
	return Command{Kind: KindAppend, Key: key(name), Close: true}
}

func remove(name string) Command { return Command{Kind: KindDelete, Key: key(name)} }

func by(c Command, producer string, epoch, seq uint64) Command {
	c.Producer = &ProducerKey{ID: producer, Epoch: epoch, Seq: seq}
	return c
}

func withDigest(c Command, fill byte) Command {
	p := *c.Producer
	p.Digest = Digest{Given: true}
	for i := range p.Digest.Sum {
		p.Digest.Sum[i] = fill
	}
	c.Producer = &p
	return c
}

func withTTL(c Command, seconds uint64) Command {
	c.Expiry = Expiry{TTL: seconds, HasTTL: true}
	return c
}
