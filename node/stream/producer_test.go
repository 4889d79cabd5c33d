package stream

import "testing"

func TestProducerRules(t *testing.T) {
	// Every row of the base protocol's table starts from this state: epoch 2 of
	// p, claimed over epoch 1 (highest 3), with highest 4.
	state := []Command{
		create("s"),
		by(write("s", "a"), "p", 1, 0), by(write("s", "b"), "p", 1, 1), by(write("s", "c"), "p", 1, 2), by(write("s", "d"), "p", 1, 3),
		by(write("s", "e"), "p", 2, 0), by(write("s", "f"), "p", 2, 1), by(write("s", "g"), "p", 2, 2), by(write("s", "h"), "p", 2, 3), by(write("s", "ij"), "p", 2, 4),
	}
	tests := []struct {
		name     string
		producer string
		epoch    uint64
		seq      uint64
		want     Outcome
		expected uint64
		receipt  bool
		highest  uint64 // of the record after it
	}{
		{name: "none, seq 0 is accepted at epoch 0", producer: "new", want: Appended},
		{name: "none, seq 0 is accepted at any epoch", producer: "new", epoch: 7, want: Appended},
		{name: "none, seq above 0 is a gap from 0", producer: "new", epoch: 7, seq: 3, want: ProducerGap},
		{name: "an older epoch is stale at seq 0", producer: "p", epoch: 1, want: EpochStale, highest: 4},
		{name: "an older epoch is stale at any seq", producer: "p", epoch: 0, seq: 9, want: EpochStale, highest: 4},
		{name: "a newer epoch must start at 0", producer: "p", epoch: 3, seq: 4, want: EpochNotClaimed, highest: 4},
		{name: "a newer epoch at 0 is a claim", producer: "p", epoch: 9, want: Appended},
		{name: "the newest key again is a duplicate with its receipt", producer: "p", epoch: 2, seq: 4, want: Duplicate, receipt: true, highest: 4},
		{name: "an older key again is a duplicate without", producer: "p", epoch: 2, seq: 2, want: Duplicate, highest: 4},
		{name: "the claim again is a duplicate without", producer: "p", epoch: 2, seq: 0, want: Duplicate, highest: 4},
		{name: "the next key is accepted", producer: "p", epoch: 2, seq: 5, want: Appended, highest: 5},
		{name: "a key past the next is a gap", producer: "p", epoch: 2, seq: 6, want: ProducerGap, expected: 5, highest: 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t)
			for _, c := range state {
				m.do(c)
			}
			before := m.base.dump()
			r := m.want(m.do(by(write("s", "zz"), tt.producer, tt.epoch, tt.seq)), tt.want)
			if r.ExpectedSeq != tt.expected || r.Receipt != tt.receipt {
				t.Fatalf("result %+v, want expected seq %d, receipt %v", r, tt.expected, tt.receipt)
			}
			if tt.receipt && (r.Start != 8 || r.End != 10) {
				t.Fatalf("receipt [%d,%d), want that of the write itself, [8,10)", r.Start, r.End)
			}
			if r.Producer != nil && r.Producer.Seq != tt.highest {
				t.Fatalf("highest seq %d, want %d", r.Producer.Seq, tt.highest)
			}
			if r.Producer == nil && (tt.producer == "p" || tt.want == Appended) {
				t.Fatal("no producer record in the result")
			}
			if tt.want != Appended && m.base.dump() != before {
				t.Fatal("a write that did not apply changed the state")
			}
		})
	}
}

func receipt(start, end uint64, closed bool) func(*testing.T, *machine, Result) {
	return func(t *testing.T, _ *machine, r Result) {
		t.Helper()
		if !r.Receipt || r.Start != start || r.End != end || r.ClosedByWrite != closed {
			t.Fatalf("result %+v, want receipt [%d,%d) closed %v", r, start, end, closed)
		}
	}
}

var producerAnswers = map[string][]step{
	"a repeat gets the end of its own write, not the tail (rows 78, 79, 81)": {
		{do: create("s"), want: Created},
		{do: by(write("s", "ab"), "p", 0, 0), want: Appended, check: tail(2)},
		{do: write("s", "other"), want: Appended, check: tail(7)},
		{do: by(write("s", "ab"), "p", 0, 0), want: Duplicate, check: receipt(0, 2, false)},
	},
	"a claim tells which epoch it closed and how far it got (rows 85, 86, 87)": {
		{do: create("s"), want: Created},
		{do: by(write("s", "a"), "p", 0, 0), want: Appended},
		{do: by(write("s", "b"), "p", 0, 1), want: Appended},
		{do: by(write("s", "c"), "p", 1, 0), want: Appended, check: closedEpoch(0, 1)},
		{do: by(write("s", "c"), "p", 1, 0), want: Duplicate, check: closedEpoch(0, 1)},
		{do: by(write("s", "d"), "p", 0, 2), want: EpochStale, check: closedEpoch(0, 1)},
		{do: by(write("s", "d"), "p", 1, 1), want: Appended, check: closedEpoch(0, 1)},
		{do: by(write("s", "e"), "p", 5, 0), want: Appended, check: closedEpoch(1, 1)},
	},
	"the first claim of a producer closes nothing": {
		{do: create("s"), want: Created},
		{do: by(write("s", "a"), "p", 3, 0), want: Appended, check: func(t *testing.T, _ *machine, r Result) {
			if r.Producer.HasClosed {
				t.Fatalf("producer %+v", r.Producer)
			}
		}},
	},
	"another identity of the newest key conflicts, both ways (row 93)": {
		{do: create("s"), want: Created},
		{do: withDigest(by(write("s", "a"), "p", 0, 0), 1), want: Appended},
		{do: withDigest(by(write("s", "a"), "p", 0, 0), 2), want: KeyConflict},
		{do: by(write("s", "a"), "p", 0, 0), want: KeyConflict},
		{do: withDigest(by(write("s", "other"), "p", 0, 0), 1), want: Duplicate, check: receipt(0, 1, false)},
		{do: by(write("s", "b"), "p", 0, 1), want: Appended},
		{do: withDigest(by(write("s", "b"), "p", 0, 1), 2), want: KeyConflict},
	},
	"a claim's identity is held for its epoch (row 94), an older key's is not (row 95)": {
		{do: create("s"), want: Created},
		{do: withDigest(by(write("s", "a"), "p", 3, 0), 1), want: Appended},
		{do: withDigest(by(write("s", "b"), "p", 3, 1), 2), want: Appended},
		{do: withDigest(by(write("s", "c"), "p", 3, 2), 3), want: Appended},
		{do: withDigest(by(write("s", "a"), "p", 3, 0), 9), want: KeyConflict},
		{do: withDigest(by(write("s", "a"), "p", 3, 0), 1), want: Duplicate},
		{do: withDigest(by(write("s", "b"), "p", 3, 1), 9), want: Duplicate},
	},
	"a close-only write applies with an empty range and repeats with its receipt (row 98)": {
		{do: create("s"), want: Created},
		{do: write("s", "abc"), want: Appended},
		{do: by(closeOnly("s"), "p", 0, 0), want: Appended, check: func(t *testing.T, _ *machine, r Result) {
			if r.Start != 3 || r.End != 3 || !r.ClosedByWrite || !r.Stream.Closed {
				t.Fatalf("result %+v", r)
			}
		}},
		{do: by(closeOnly("s"), "p", 0, 0), want: Duplicate, check: receipt(3, 3, true)},
	},
	"on a closed stream the producer rules come first (rows 99 to 103)": {
		{do: create("s"), want: Created},
		{do: by(write("s", "a"), "q", 1, 0), want: Appended},
		{do: by(closing(write("s", "b")), "p", 0, 0), want: Appended},
		{do: by(closing(write("s", "b")), "p", 0, 0), want: Duplicate, check: receipt(1, 2, true)},
		{do: by(write("s", "a"), "q", 1, 0), want: Duplicate, check: receipt(0, 1, false)},
		{do: by(write("s", "c"), "q", 1, 1), want: StreamClosed, check: tail(2)},
		{do: by(write("s", "c"), "q", 1, 5), want: ProducerGap},
		{do: by(write("s", "c"), "q", 0, 0), want: EpochStale},
		{do: by(write("s", "c"), "q", 2, 0), want: StreamClosed},
		{do: by(write("s", "c"), "new", 0, 0), want: StreamClosed},
		{do: by(closeOnly("s"), "q", 1, 1), want: StreamClosed},
	},
	"a repeat wins over a Stream-Seq that now conflicts; a fresh write does not (rows 104, 105)": {
		{do: create("s"), want: Created},
		{do: by(seqd(write("s", "a"), "5"), "p", 0, 0), want: Appended},
		{do: by(seqd(write("s", "a"), "5"), "p", 0, 0), want: Duplicate},
		{do: by(seqd(write("s", "b"), "5"), "p", 0, 1), want: SeqConflict},
		{do: by(seqd(write("s", "b"), "6"), "p", 0, 1), want: Appended},
	},
	"a missing stream comes before every producer rule and fault (row 106)": {
		{do: faulty(by(write("s", ""), "p", 0, 5), FaultInvalidJSON), want: NotFound},
	},
	"content faults leave the producer untouched": {
		{do: create("s"), want: Created},
		{do: faulty(by(write("s", ""), "p", 0, 0), FaultInvalidJSON), want: ContentFault, check: fault(FaultInvalidJSON)},
		{do: typed(by(write("s", "x"), "p", 0, 0), "image/png"), want: TypeMismatch},
		{do: by(write("s", ""), "p", 0, 0), want: ContentFault, check: fault(FaultEmptyBody)},
		{do: faulty(by(write("s", ""), "p", 0, 0), FaultDigestMismatch), want: ContentFault, check: fault(FaultDigestMismatch)},
		{do: by(write("s", "x"), "p", 0, 0), want: Appended, check: tail(1)},
	},
	"producers of one stream, and of a stream made again, know nothing of each other": {
		{do: create("s"), want: Created},
		{do: by(write("s", "a"), "p", 5, 0), want: Appended},
		{do: by(write("s", "b"), "q", 0, 0), want: Appended, check: func(t *testing.T, _ *machine, r Result) {
			if r.Stream.Producers != 2 {
				t.Fatalf("%d producers", r.Stream.Producers)
			}
		}},
		{do: remove("s"), want: Deleted},
		{do: create("s"), want: Created},
		{do: by(write("s", "a"), "p", 0, 1), want: ProducerGap},
		{do: by(write("s", "a"), "p", 0, 0), want: Appended},
	},
}

func TestProducerAnswers(t *testing.T) {
	for name, steps := range producerAnswers {
		t.Run(name, func(t *testing.T) { runSteps(t, steps) })
	}
}

func closedEpoch(epoch, seq uint64) func(*testing.T, *machine, Result) {
	return func(t *testing.T, _ *machine, r Result) {
		t.Helper()
		if p := r.Producer; p == nil || !p.HasClosed || p.ClosedEpoch != epoch || p.ClosedSeq != seq {
			t.Fatalf("producer %+v, want epoch %d closed at %d", p, epoch, seq)
		}
	}
}
