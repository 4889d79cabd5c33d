package node

import (
	"sync"
	"testing"

	"runnel.dev/runnel/node/protocol"
	"runnel.dev/runnel/node/stream"
)

// P2: however many readers renew, a group has one touch command for all that
// came while the one before it was on its way.
func TestTrapP2_ReadersOfAGroupShareOneTouch(t *testing.T) {
	n := startAlone(t)
	m := n.member.Load()
	var ids []stream.ID
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		key := stream.Key{Bucket: "bucket", Stream: name}
		if protocol.GroupOf(key.Bucket, key.Stream, 2) != 0 {
			continue
		}
		r, err := m.Propose(t.Context(), 1, &stream.Command{
			Kind: stream.KindCreate, Key: key, ContentType: "text/plain", Expiry: stream.Expiry{HasTTL: true, TTL: 30},
		})
		if err != nil || r.Outcome != stream.Created {
			t.Fatalf("create: %+v, %v", r, err)
		}
		ids = append(ids, r.Stream.ID)
	}
	if len(ids) == 0 {
		t.Fatal("no stream is in the first group")
	}
	// The group's touch before this one is on its way.
	batch := newTouchBatch()
	m.touch.next[1] = batch
	var readers sync.WaitGroup
	var failed sync.Map
	for i := range 100 {
		readers.Go(func() {
			if err := m.touch.renew(t.Context(), 1, ids[i%len(ids)]); err != nil {
				failed.Store(i, err)
			}
		})
	}
	joined := func() int {
		m.touch.mu.Lock()
		defer m.touch.mu.Unlock()
		return len(batch.ids)
	}
	for joined() < len(ids) {
		if t.Context().Err() != nil {
			t.Fatal("readers do not join")
		}
	}
	before := m.host.Stats().Proposals
	m.touch.run(1)
	// Who came after the batch was taken has a run of its own.
	readers.Wait()
	failed.Range(func(k, v any) bool { t.Errorf("reader %v: %v", k, v); return true })
	if made := m.host.Stats().Proposals - before; made < 1 || made > 20 {
		t.Errorf("100 readers of %d streams made %d commands", len(ids), made)
	}
}
