package basestore

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"go.etcd.io/etcd/raft/v3/raftpb"

	"runnel.dev/runnel/node/stream"
)

// Batch collects what one turn changed, of any number of groups. It is used by
// one goroutine. The mutations given to it are the store's from then on: their
// records are cached and served, and their bytes must stay unchanged until
// Commit or Discard.
type Batch struct {
	s *Store        // nil when done
	b *pebble.Batch // nil until the first write
	*scratch
}

// scratch is a batch's memory, taken over by a later batch.
type scratch struct {
	groups []*batchGroup
	key    []byte
	val    []byte
	// appends and records go to the caches after the commit.
	appends []batchAppend
	records []batchRecord
	// repeats says that records may hold a key more than once.
	repeats bool
}

var scratchPool = sync.Pool{New: func() any { return new(scratch) }}

// reset lets go of everything but the memory, and of that too after a batch
// that was far larger than they usually are.
func (c *scratch) reset() {
	const keep = 4096
	if cap(c.appends) > keep || cap(c.records) > keep || cap(c.val) > keep*16 {
		*c = scratch{}
		return
	}
	clear(c.groups)
	clear(c.appends)
	clear(c.records)
	*c = scratch{groups: c.groups[:0], key: c.key[:0], val: c.val[:0], appends: c.appends[:0], records: c.records[:0]}
}

// batchGroup is a group's share of a batch.
type batchGroup struct {
	g       *group
	lastID  stream.ID
	record  *stream.Group
	changed bool // by an earlier Apply of this batch
	marked  bool
	applied Applied // when marked; Conf only with conf
	conf    bool
}

type batchAppend struct {
	key    tailKey
	offset uint64
	data   []byte // nil: drop the tail
}

type batchRecord struct {
	key recordKey
	val record
}

// NewBatch returns an empty batch. It must be committed or discarded.
func (s *Store) NewBatch() *Batch {
	return &Batch{s: s, scratch: scratchPool.Get().(*scratch)}
}

// group returns the share of a group whose replica is live.
func (b *Batch) group(id uint32) (*batchGroup, error) {
	for _, bg := range b.groups {
		if bg.g.replica.Group == id {
			return bg, nil
		}
	}
	g, err := b.s.group(id)
	if err != nil {
		return nil, err
	}
	bg := &batchGroup{g: g, lastID: g.record.Load().LastID}
	b.groups = append(b.groups, bg)
	return bg, nil
}

// start opens the Pebble batch with the first write.
func (b *Batch) start() error {
	if b.s == nil {
		return errBatchDone
	}
	if b.b != nil {
		return nil
	}
	if err := b.s.rlock(); err != nil {
		return err
	}
	defer b.s.life.RUnlock()
	b.b = b.s.db.NewBatch()
	return nil
}

// Apply adds the mutations of a run of commands of one group. Errors:
// ErrNoReplica; the batch is then to be discarded.
func (b *Batch) Apply(group uint32, m *stream.Mutations) error {
	if err := b.start(); err != nil {
		return err
	}
	bg, err := b.group(group)
	if err != nil {
		return err
	}
	b.repeats = b.repeats || bg.changed || len(m.Removed) > 0
	bg.changed = true
	for _, rec := range m.Removed {
		b.remove(bg, rec)
	}
	for _, rec := range m.Put {
		if err := b.put(bg, rec, m.Group); err != nil {
			return err
		}
	}
	for i := range m.Producers {
		b.putProducer(bg, &m.Producers[i])
	}
	for _, a := range m.Appends {
		if len(a.Data) == 0 {
			continue
		}
		b.key = appendBlocks(b.b, b.key, bg.g, a)
		b.appends = append(b.appends, batchAppend{tailKey{group, a.Stream}, a.Offset, a.Data})
	}
	if m.Group != nil {
		b.key = appendKind(b.key[:0], group, bg.g.generation, kindGroup)
		b.val = stream.AppendGroup(b.val[:0], m.Group)
		set(b.b, b.key, b.val)
		bg.record, bg.lastID = m.Group, m.Group.LastID
	}
	return nil
}

// remove deletes a stream: its name, record, producers and bytes.
func (b *Batch) remove(bg *batchGroup, rec *stream.Stream) {
	group, generation := bg.g.replica.Group, bg.g.generation
	b.key = appendName(b.key[:0], group, generation, rec.Key)
	must(b.b.Delete(b.key, nil))
	b.key = appendStreamKind(b.key[:0], group, generation, kindStream, rec.ID)
	must(b.b.Delete(b.key, nil))
	if rec.Producers > 0 {
		removeStreamKind(b.b, bg.g, kindProducer, rec.ID)
	}
	removeBlocks(b.b, bg.g, rec)
	b.records = append(b.records, batchRecord{key: nameKey(group, rec.Key)})
	b.appends = append(b.appends, batchAppend{key: tailKey{group, rec.ID}})
}

// put writes a stream's record, and its name when the stream is new.
func (b *Batch) put(bg *batchGroup, rec *stream.Stream, after *stream.Group) error {
	if err := checkKey(rec.Key); err != nil {
		return fmt.Errorf("put stream %d: %w", rec.ID, err)
	}
	group, generation := bg.g.replica.Group, bg.g.generation
	b.key = appendStreamKind(b.key[:0], group, generation, kindStream, rec.ID)
	b.val = stream.AppendStream(b.val[:0], rec)
	set(b.b, b.key, b.val)
	// Ids only rise, so one above the last committed one is new.
	if rec.ID > bg.lastID {
		b.key = appendName(b.key[:0], group, generation, rec.Key)
		b.val = binary.BigEndian.AppendUint64(b.val[:0], uint64(rec.ID))
		set(b.b, b.key, b.val)
	}
	b.records = append(b.records, batchRecord{nameKey(group, rec.Key), record{stream: rec}})
	return nil
}

func (b *Batch) putProducer(bg *batchGroup, p *stream.ProducerPut) {
	group := bg.g.replica.Group
	b.key = appendProducerKey(b.key[:0], group, bg.g.generation, p.Stream, p.ID)
	b.val = stream.AppendProducer(b.val[:0], p.Producer)
	set(b.b, b.key, b.val)
	b.records = append(b.records, batchRecord{producerKey(group, p.Stream, p.ID), record{producer: p.Producer}})
}

// PutBlob sets a value of a group's own state, under a key of the caller's.
func (b *Batch) PutBlob(group uint32, key, value []byte) error {
	if err := b.blob(group, key); err != nil {
		return err
	}
	set(b.b, b.key, value)
	return nil
}

// DeleteBlob removes a value that PutBlob set.
func (b *Batch) DeleteBlob(group uint32, key []byte) error {
	if err := b.blob(group, key); err != nil {
		return err
	}
	must(b.b.Delete(b.key, nil))
	return nil
}

// blob leaves the blob's key in b.key.
func (b *Batch) blob(group uint32, key []byte) error {
	if err := b.start(); err != nil {
		return err
	}
	bg, err := b.group(group)
	if err != nil {
		return err
	}
	b.key = appendBlobKey(b.key[:0], group, bg.g.generation, key)
	return nil
}

// Mark says that with this batch the group's replica has applied its log up to
// index; conf is the configuration there when it changed, else nil. Errors:
// ErrNoReplica when the node holds another replica of the group.
func (b *Batch) Mark(group uint32, replica uint64, index, term uint64, conf *raftpb.ConfState) error {
	if err := b.start(); err != nil {
		return err
	}
	bg, err := b.group(group)
	if err != nil {
		return err
	}
	if bg.g.replica.ID != replica {
		return fmt.Errorf("group %d: %w: replica %d, the node holds %d", group, ErrNoReplica, replica, bg.g.replica.ID)
	}
	if last := bg.lastIndex(); index < last {
		return fmt.Errorf("group %d: applied index goes back from %d to %d", group, last, index)
	}
	b.key = appendKind(b.key[:0], group, headGeneration, headApplied)
	b.val = appendApplied(b.val[:0], replica, index, term)
	set(b.b, b.key, b.val)
	bg.marked, bg.applied.Index, bg.applied.Term = true, index, term
	if conf != nil {
		v, err := conf.Marshal()
		if err != nil {
			return fmt.Errorf("group %d: configuration: %w", group, err)
		}
		set(b.b, headKey(group, headConf), v)
		// A copy that shares nothing with the caller's.
		bg.applied.Conf, bg.conf = raftpb.ConfState{}, true
		must(bg.applied.Conf.Unmarshal(v))
	}
	return nil
}

func (bg *batchGroup) lastIndex() uint64 {
	if bg.marked {
		return bg.applied.Index
	}
	return bg.g.state().Applied.Index
}

// Commit writes everything at once, without a sync, and makes it visible to
// readers. It never commits in part. Errors: ErrNoReplica when a group's
// replica was destroyed meanwhile, ErrFailed, ErrClosed.
func (b *Batch) Commit() error {
	if b.s == nil {
		return errBatchDone
	}
	s := b.s
	defer b.Discard()
	if b.b == nil {
		return s.failed()
	}
	if err := s.rlock(); err != nil {
		return err
	}
	defer s.life.RUnlock()
	for _, bg := range b.groups {
		if bg.g.gone.Load() {
			return fmt.Errorf("group %d: %w", bg.g.replica.Group, ErrNoReplica)
		}
	}
	var touched stripeSet
	for i := range b.records {
		touched.add(s.records.index(b.records[i].key))
	}
	s.records.begin(&touched)
	defer s.records.end(&touched)
	if err := s.commit(b.b); err != nil {
		return fmt.Errorf("commit to base store: %w", err)
	}
	// Counted before it is published: a Sync that sees this batch's C must not
	// take it for one that an earlier sync covered.
	s.written.Add(1)
	b.publish()
	return nil
}

// publish brings memory to what Pebble now holds.
func (b *Batch) publish() {
	s := b.s
	if b.repeats {
		b.records = lastOfEach(b.records)
	}
	for i := range b.records {
		s.records.put(b.records[i].key, b.records[i].val)
	}
	for i := range b.appends {
		if a := &b.appends[i]; a.data == nil {
			s.tails.drop(a.key)
		} else {
			s.tails.extend(a.key, a.offset, a.data)
		}
	}
	for _, bg := range b.groups {
		if bg.record != nil {
			bg.g.record.Store(bg.record)
		}
		if !bg.marked {
			continue
		}
		bg.g.mu.Lock()
		bg.g.applied.Index, bg.g.applied.Term = bg.applied.Index, bg.applied.Term
		if bg.conf {
			bg.g.applied.Conf = bg.applied.Conf
		}
		bg.g.mu.Unlock()
	}
}

// lastOfEach leaves of every key what was set last: a stream that the batch
// removed and created again must never be seen absent.
func lastOfEach(records []batchRecord) []batchRecord {
	last := make(map[recordKey]int, len(records))
	for i := range records {
		last[records[i].key] = i
	}
	kept := records[:0]
	for i, r := range records {
		if last[r.key] == i {
			kept = append(kept, r)
		}
	}
	return kept
}

// Discard drops the batch; after Commit it does nothing.
func (b *Batch) Discard() {
	if b.s == nil {
		return
	}
	if b.b != nil && b.s.failed() == nil {
		// The batch is in memory: closing it can't fail. After a failure its commit
		// may still be under way.
		must(b.b.Close())
	}
	b.reset()
	scratchPool.Put(b.scratch)
	*b = Batch{}
}
