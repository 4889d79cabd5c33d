package raftgroup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"go.etcd.io/etcd/raft/v3/raftpb"
)

// toyMachine is a list of ids per group. Like the real base store it keeps what
// it committed in memory and can lose the newest commits in a crash, but never
// what was synced.
type toyMachine struct {
	mu       sync.Mutex
	groups   map[GroupID]*toyGroup
	versions []map[GroupID]toyMark // after each commit since the last sync; [0] is synced
	poisoned bool                  // commands that begin with poison fail
	begun    int
	largest  int // bytes applied in one batch
	applies  int
}

type toyGroup struct {
	list    []uint64
	applied Applied
}

type toyMark struct {
	n       int
	applied Applied
}

// poison is a command that fails on a poisoned machine.
const poison = 1 << 63

func newToyMachine() *toyMachine {
	return &toyMachine{groups: map[GroupID]*toyGroup{}, versions: []map[GroupID]toyMark{{}}}
}

func (m *toyMachine) group(id GroupID) *toyGroup {
	g := m.groups[id]
	if g == nil {
		g = &toyGroup{}
		m.groups[id] = g
	}
	return g
}

func (m *toyMachine) Recover(id GroupID, _ uint64) (Applied, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.group(id).applied, nil
}

func (m *toyMachine) list(id GroupID) []uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.group(id).list
}

// sync makes everything committed durable and returns it.
func (m *toyMachine) sync() map[GroupID]toyMark {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.versions = m.versions[len(m.versions)-1:]
	return m.versions[0]
}

// crash falls back to the state after one of the commits since the last sync.
func (m *toyMachine) crash(pick func(n int) int) *toyMachine {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.versions[pick(len(m.versions))]
	next := newToyMachine()
	for id, mark := range at {
		next.groups[id] = &toyGroup{list: slices.Clone(m.groups[id].list[:mark.n]), applied: mark.applied}
	}
	next.versions = []map[GroupID]toyMark{at}
	next.poisoned = m.poisoned
	return next
}

type toyBatch struct {
	m     *toyMachine
	bytes int
	added map[GroupID][]uint64
	marks map[GroupID]Applied
}

func (m *toyMachine) Begin() Batch {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun++
	return &toyBatch{m: m, added: map[GroupID][]uint64{}, marks: map[GroupID]Applied{}}
}

func (b *toyBatch) Apply(id GroupID, index, _, _ uint64, cmds [][]byte) ([]any, error) {
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	b.m.applies++
	g := b.m.group(id)
	if index <= max(g.applied.Index, b.marks[id].Index) {
		return nil, fmt.Errorf("entry %d applied twice", index)
	}
	results := make([]any, len(cmds))
	for i, c := range cmds {
		b.bytes += len(c)
		b.m.largest = max(b.m.largest, b.bytes)
		v := binary.LittleEndian.Uint64(c)
		if v&poison != 0 && b.m.poisoned {
			return nil, errors.New("poison")
		}
		b.added[id] = append(b.added[id], v)
		results[i] = len(g.list) + len(b.added[id]) - 1
	}
	return results, nil
}

func (b *toyBatch) Mark(id GroupID, _, index, term uint64, conf *raftpb.ConfState) error {
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	a := Applied{Index: index, Term: term, Conf: b.m.group(id).applied.Conf}
	if index <= b.m.group(id).applied.Index {
		return fmt.Errorf("mark %d is not above %d", index, b.m.group(id).applied.Index)
	}
	if conf != nil {
		a.Conf = *conf
	}
	b.marks[id] = a
	return nil
}

func (b *toyBatch) Commit() error {
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	next := map[GroupID]toyMark{}
	for id, mark := range b.m.versions[len(b.m.versions)-1] {
		next[id] = mark
	}
	for id, a := range b.marks {
		g := b.m.group(id)
		g.list = append(g.list, b.added[id]...)
		g.applied = a
		next[id] = toyMark{len(g.list), a}
	}
	b.m.versions = append(b.m.versions, next)
	if len(b.m.versions) > 256 {
		b.m.versions = b.m.versions[128:] // as if an old part had been synced
	}
	return nil
}

func (b *toyBatch) Publish() {}
func (b *toyBatch) Discard() {}

// command is an id and padding.
func command(id uint64, size int) []byte {
	return binary.LittleEndian.AppendUint64(make([]byte, 0, 8+size), id)[:8+size]
}

var discard = slog.New(slog.DiscardHandler)
