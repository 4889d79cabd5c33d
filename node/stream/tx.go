package stream

import "fmt"

// Tx applies a run of commands of one group over a Loader. What earlier
// commands of the run changed is seen by later ones through the Tx, so where a
// run begins and ends changes no result and no state. A Tx is not safe for
// concurrent use.
type Tx struct {
	loader Loader
	err    error // of the Loader or of a command: the run is void

	group      *Group
	groupOwned bool // group is a copy made by this run

	names map[Key]*entry
	ids   map[ID]*entry
	// changed are the entries that the run changed, in order of first change.
	changed []*entry

	producers        map[producerKey]*producerEntry
	changedProducers []*producerEntry

	appends []Append
	removed bool // some stream was removed in this run

	entries         pool[entry]
	producerEntries pool[producerEntry]
	out             Mutations
}

// entry is one stream, or the absence of one, as the run sees it.
type entry struct {
	base    *Stream // before the run; nil when there was none
	cur     *Stream // now; nil when there is none
	changed bool
}

type producerKey struct {
	stream ID
	id     string
}

type producerEntry struct {
	key     producerKey
	owner   *entry
	cur     *Producer
	changed bool
}

// keepEntries bounds what a Tx holds on to between runs.
const keepEntries = 4096

// NewTx returns a Tx over l.
func NewTx(l Loader) *Tx {
	return &Tx{
		loader:    l,
		names:     make(map[Key]*entry),
		ids:       make(map[ID]*entry),
		producers: make(map[producerKey]*producerEntry),
	}
}

// Reset makes the Tx ready for a new run over l, re-using its memory. What
// Mutations returned is void from here on.
func (t *Tx) Reset(l Loader) {
	t.loader, t.err = l, nil
	t.group, t.groupOwned = nil, false
	if len(t.names)+len(t.ids)+len(t.producers) > keepEntries {
		// A map never shrinks, and clearing costs what it once held.
		*t = *NewTx(l)
		return
	}
	clear(t.names)
	clear(t.ids)
	clear(t.producers)
	t.changed = reuse(t.changed)
	t.changedProducers = reuse(t.changedProducers)
	t.appends = reuse(t.appends)
	t.removed = false
	t.entries.reset()
	t.producerEntries.reset()
	t.out = Mutations{
		Removed:   reuse(t.out.Removed),
		Put:       reuse(t.out.Put),
		Producers: reuse(t.out.Producers),
	}
}

// Apply applies one command, stamped by its leader in milliseconds since the
// Unix epoch. A refusal is a Result. An error is the Loader's, or
// ErrUnsupported for a kind that this build does not know; it voids the run
// and stops the replica's apply.
func (t *Tx) Apply(c *Command, stampMillis uint64) (Result, error) {
	if t.err != nil {
		return Result{}, t.err
	}
	r, err := t.apply(c, stampMillis)
	if err != nil {
		t.err = err
		return Result{}, err
	}
	return r, nil
}

func (t *Tx) apply(c *Command, stampMillis uint64) (Result, error) {
	if !c.Kind.known() {
		return Result{}, fmt.Errorf("apply: kind %d: %w", c.Kind, ErrUnsupported)
	}
	if t.group == nil {
		g, err := t.loader.Group()
		if err != nil {
			return Result{}, err
		}
		if g == nil {
			return Result{}, errNoGroup
		}
		t.group = g
	}
	// A stamp behind the group's time is a slower clock, not an earlier command.
	if stampMillis > t.group.Time {
		t.ownGroup().Time = stampMillis
	}
	now := t.group.Time
	switch c.Kind {
	case KindAppend:
		return t.append(c, now)
	case KindCreate:
		return t.create(c, now)
	case KindDelete:
		return t.delete(c, now)
	case KindTouch:
		return t.touch(c, now)
	default: // KindExpire
		return t.expireNamed(c, now)
	}
}

// Mutations returns what the run changed and ends it: the next call is Reset.
// The lists belong to the Tx; the records may be kept, unchanged.
func (t *Tx) Mutations() *Mutations {
	m := &t.out
	m.Put, m.Removed, m.Producers = m.Put[:0], m.Removed[:0], m.Producers[:0]
	m.Group = nil
	if t.groupOwned {
		m.Group = t.group
	}
	for _, e := range t.changed {
		switch {
		case e.cur != nil:
			m.Put = append(m.Put, e.cur)
		case e.base != nil:
			m.Removed = append(m.Removed, e.base)
		}
	}
	for _, p := range t.changedProducers {
		if p.owner.cur != nil {
			m.Producers = append(m.Producers, ProducerPut{Stream: p.key.stream, ID: p.key.id, Producer: p.cur})
		}
	}
	if t.removed {
		kept := t.appends[:0]
		for _, a := range t.appends {
			if t.ids[a.Stream].cur != nil {
				kept = append(kept, a)
			}
		}
		clear(t.appends[len(kept):])
		t.appends = kept
	}
	m.Appends = t.appends
	return m
}

// live returns the entry of the stream that has the key at group time now. A
// stream whose lifetime is over is removed first: the answer that follows makes
// its expiry public, so the removal is part of the same command.
func (t *Tx) live(key Key, now uint64) (*entry, error) {
	e, err := t.byName(key)
	if err != nil {
		return nil, err
	}
	if e.cur != nil {
		t.expire(e, now)
	}
	return e, nil
}

func (t *Tx) byName(key Key) (*entry, error) {
	if e := t.names[key]; e != nil {
		return e, nil
	}
	s, err := t.loader.Lookup(key)
	if err != nil {
		return nil, err
	}
	e := t.entries.take()
	e.base, e.cur = s, s
	t.names[key] = e
	if s != nil {
		t.ids[s.ID] = e
	}
	return e, nil
}

func (t *Tx) byID(id ID) (*entry, error) {
	if e := t.ids[id]; e != nil {
		return e, nil
	}
	s, err := t.loader.Stream(id)
	if err != nil {
		return nil, err
	}
	e := t.entries.take()
	e.base, e.cur = s, s
	t.ids[id] = e
	if s != nil {
		t.names[s.Key] = e
	}
	return e, nil
}

// put makes s, a fresh copy, the entry's record. Records already handed out in
// results stay as they were.
func (t *Tx) put(e *entry, s *Stream) {
	e.cur = s
	t.mark(e)
}

// insert adds a stream that did not exist.
func (t *Tx) insert(s *Stream) {
	e := t.entries.take()
	t.names[s.Key] = e
	t.ids[s.ID] = e
	t.put(e, s)
}

func (t *Tx) remove(e *entry) {
	e.cur = nil
	t.removed = true
	t.mark(e)
}

func (t *Tx) mark(e *entry) {
	if !e.changed {
		e.changed = true
		t.changed = append(t.changed, e)
	}
}

func (t *Tx) producer(e *entry, id string) (*producerEntry, error) {
	key := producerKey{stream: e.cur.ID, id: id}
	if p := t.producers[key]; p != nil {
		return p, nil
	}
	var rec *Producer
	// A stream of this run, or one without producers, has none to load.
	if e.base != nil && e.base.Producers > 0 {
		var err error
		if rec, err = t.loader.Producer(key.stream, id); err != nil {
			return nil, err
		}
	}
	p := t.producerEntries.take()
	p.key, p.owner, p.cur = key, e, rec
	t.producers[key] = p
	return p, nil
}

func (t *Tx) putProducer(p *producerEntry, rec *Producer) {
	p.cur = rec
	if !p.changed {
		p.changed = true
		t.changedProducers = append(t.changedProducers, p)
	}
}

func (t *Tx) ownGroup() *Group {
	if !t.groupOwned {
		g := *t.group
		t.group, t.groupOwned = &g, true
	}
	return t.group
}

// history is the index of the group's current history.
func (t *Tx) history() uint32 {
	if len(t.group.Histories) == 0 {
		return 0
	}
	return uint32(len(t.group.Histories) - 1)
}

// reuse empties s and lets go of what it refers to.
func reuse[T any](s []T) []T {
	clear(s)
	return s[:0]
}

// pool hands out zeroed values and takes all of them back at once.
type pool[T any] struct {
	all  []*T
	used int
}

func (p *pool[T]) take() *T {
	if p.used == len(p.all) {
		p.all = append(p.all, new(T))
	}
	v := p.all[p.used]
	p.used++
	return v
}

func (p *pool[T]) reset() {
	var zero T
	for _, v := range p.all[:p.used] {
		*v = zero
	}
	p.used = 0
}
