package transport

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func all(*Message) bool { return true }

func takeAll(q *queue, busy bool, group uint32, room int) (ids []string, large string, cost int) {
	batch, next, found := q.take(nil, busy, group, room)
	for _, it := range batch {
		ids = append(ids, id(it))
		cost += it.cost()
	}
	if found {
		large = id(next)
		cost += next.cost()
	}
	return ids, large, cost
}

func id(it item) string { return fmt.Sprintf("%d/%d", it.msg.Group, it.msg.Raft.Index+1) }

func TestQueueHandsMessagesOutInOrderAndAroundLargeOnes(t *testing.T) {
	const big = maxWhole + 1
	const room = wholeHead + maxWhole
	msg := appendOf
	for _, c := range []struct {
		name  string
		msgs  []Message
		busy  bool
		group uint32
		batch []string
		large string
	}{
		{"small ones all at once", []Message{msg(1, 1, 9), msg(2, 1, 9), msg(1, 2, 9)}, false, 0, []string{"1/1", "2/1", "1/2"}, ""},
		{"no more than the room allows", []Message{msg(1, 1, 600<<10), msg(1, 2, 600<<10), msg(1, 3, 9)}, false, 0, []string{"1/1"}, ""},
		{"a large one leaves with what precedes it", []Message{msg(1, 1, 9), msg(1, 2, big)}, false, 0, []string{"1/1"}, "1/2"},
		{"its own group waits behind it, others pass", []Message{msg(1, 1, big), msg(1, 2, 9), msg(2, 1, 9)}, false, 0, []string{"2/1"}, "1/1"},
		{"a second large one waits with its group", []Message{msg(1, 1, big), msg(2, 1, big), msg(2, 2, 9), msg(3, 1, 9)}, false, 0, []string{"3/1"}, "1/1"},
		{"while one is under way its group stays", []Message{msg(1, 2, 9), msg(2, 1, 9)}, true, 1, []string{"2/1"}, ""},
		{"and no other large one begins", []Message{msg(2, 1, big), msg(2, 2, 9), msg(3, 1, 9)}, true, 1, []string{"3/1"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := newQueue(1<<30, 1<<30)
			q.push(c.msgs, time.Now(), all)
			batch, large, _ := takeAll(q, c.busy, c.group, room)
			if fmt.Sprint(batch) != fmt.Sprint(c.batch) || large != c.large {
				t.Errorf("took %v and large %q, want %v and %q", batch, large, c.batch, c.large)
			}
			if left, _ := q.queued(); left != len(c.msgs)-len(batch)-min(len(large), 1) {
				t.Errorf("%d messages left", left)
			}
		})
	}
}

func TestQueueIsBoundedInBytes(t *testing.T) {
	q := newQueue(10*(1000+itemOverhead+40), 1<<20)
	total := 0
	for i := range 50 {
		dropped, _, _ := q.push([]Message{appendOf(1, uint64(i+1), 1000)}, time.Now(), all)
		total += dropped
	}
	messages, bytes := q.queued()
	if messages+total != 50 || messages < 9 || bytes > q.limit {
		t.Fatalf("%d messages of %d bytes queued, %d dropped", messages, bytes, total)
	}
	if !q.overflow() || q.overflow() {
		t.Error("a loss must be told once")
	}
	batch, _, cost := takeAll(q, false, 0, 1<<20)
	if batch[0] != "1/1" || len(batch) != messages {
		t.Errorf("what was queued first was dropped: %v", batch)
	}
	if dropped, _, _ := q.push([]Message{appendOf(1, 99, 1000)}, time.Now(), all); dropped != 1 {
		t.Error("what is being written must count until it is written")
	}
	q.done(cost)
	if dropped, _, _ := q.push([]Message{appendOf(1, 99, 1000)}, time.Now(), all); dropped != 0 {
		t.Error("room that came back was not used")
	}
}

func TestQueueRefusesAMessageThatThePeerWouldRefuse(t *testing.T) {
	q := newQueue(1<<30, 1000)
	dropped, bytes, oversized := q.push([]Message{appendOf(1, 1, 2000), appendOf(1, 2, 20)}, time.Now(), all)
	if dropped != 1 || oversized != 1 || bytes < 2000 {
		t.Errorf("dropped %d of %d bytes, oversized %d", dropped, bytes, oversized)
	}
}

func TestQueueDropsOnlyWhatIsStale(t *testing.T) {
	q := newQueue(1<<20, 1<<20)
	now := time.Now()
	q.push([]Message{heartbeat(1, 1), heartbeat(2, 1)}, now.Add(-2*time.Second), all)
	q.push([]Message{heartbeat(3, 1)}, now, all)
	if n, _ := q.dropBefore(now.Add(-time.Second)); n != 2 {
		t.Errorf("dropped %d", n)
	}
	if n, _ := q.queued(); n != 1 {
		t.Errorf("%d left", n)
	}
}

// U41, U42: a burst leaves no memory behind.
func TestABurstLeavesNoMemoryBehind(t *testing.T) {
	q := newQueue(1<<30, 1<<30)
	for i := range 100_000 {
		q.push([]Message{heartbeat(1, uint64(i))}, time.Now(), all)
	}
	_, _, cost := takeAll(q, false, 0, 1<<30)
	q.done(cost)
	if cap(q.items) > 1024 {
		t.Errorf("an empty queue keeps room for %d messages", cap(q.items))
	}
	if _, bytes := q.queued(); bytes != 0 {
		t.Errorf("an empty queue accounts for %d bytes", bytes)
	}
	var b frameBuffer
	b.get(maxBody)
	b.release()
	if b.big != nil || cap(b.small) > keptBuffer {
		t.Error("a connection keeps the buffer of its largest frame")
	}
}

func TestQueueKeepsTheOrderOfEachGroup(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := newQueue(1<<30, 1<<30)
		next := map[uint32]uint64{}
		seen := map[uint32]uint64{}
		busy, group := false, uint32(0)
		sent, taken := 0, 0
		take := func() {
			batch, large, found := q.take(nil, busy, group, rapid.IntRange(3000, 10_000).Draw(rt, "room"))
			for _, it := range batch {
				if busy && it.msg.Group == group {
					rt.Fatalf("%s overtook the large message of its group", id(it))
				}
				if want := seen[it.msg.Group] + 1; it.msg.Raft.Index+1 != want {
					rt.Fatalf("took %s, want index %d", id(it), want)
				}
				seen[it.msg.Group]++
				q.done(it.cost())
			}
			taken += len(batch)
			if found {
				if busy {
					rt.Fatal("two large messages under way")
				}
				if large.msg.Raft.Index+1 != seen[large.msg.Group]+1 {
					rt.Fatalf("large %s out of order", id(large))
				}
				seen[large.msg.Group]++
				q.done(large.cost())
				taken++
				busy, group = true, large.msg.Group
			}
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0, 1:
				g := rapid.Uint32Range(1, 3).Draw(rt, "group")
				next[g]++
				size := rapid.SampledFrom([]int{1, 2000, maxWhole + 1}).Draw(rt, "size")
				q.push([]Message{appendOf(g, next[g], size)}, time.Now(), all)
				sent++
			case 2:
				take()
			case 3:
				busy = false
			}
		}
		for i := 0; taken < sent; i++ {
			if i > 1000 {
				rt.Fatalf("%d of %d messages stuck", sent-taken, sent)
			}
			take()
			busy = false
		}
		if messages, bytes := q.queued(); messages != 0 || bytes != 0 {
			rt.Fatalf("%d messages, %d bytes left", messages, bytes)
		}
	})
}
