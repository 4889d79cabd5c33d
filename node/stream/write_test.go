package stream

import (
	"testing"
)

// step is one command of a table and what it must answer.
type step struct {
	name string
	do   Command
	// wait moves the clock before the command, in milliseconds.
	wait  int64
	want  Outcome
	check func(t *testing.T, m *machine, r Result)
}

func runSteps(t *testing.T, steps []step) {
	t.Helper()
	m := newMachine(t)
	for i, s := range steps {
		m.now += uint64(s.wait)
		r := m.do(s.do)
		if r.Outcome != s.want {
			t.Fatalf("step %d (%s): outcome %v, want %v: %+v", i, s.name, r.Outcome, s.want, r)
		}
		if s.check != nil {
			s.check(t, m, r)
		}
	}
}

func tail(want uint64) func(*testing.T, *machine, Result) {
	return func(t *testing.T, _ *machine, r Result) {
		t.Helper()
		if r.Stream == nil || r.Stream.Tail != want {
			t.Fatalf("stream %+v, want tail %d", r.Stream, want)
		}
	}
}

func fault(want Fault) func(*testing.T, *machine, Result) {
	return func(t *testing.T, _ *machine, r Result) {
		t.Helper()
		if r.Fault != want {
			t.Fatalf("fault %v, want %v", r.Fault, want)
		}
	}
}

func typed(c Command, mediaType string) Command { c.MediaType = mediaType; return c }

func seqd(c Command, seq string) Command { c.Seq = seq; return c }

func faulty(c Command, f Fault) Command { c.Fault, c.Payload = f, nil; return c }

func body(c Command, payload string) Command { c.Payload = []byte(payload); return c }

func contentType(c Command, ct string) Command { c.ContentType = ct; return c }

func until(c Command, at uint64, text string) Command {
	c.Expiry = Expiry{At: at, AtText: text}
	return c
}

func TestCreate(t *testing.T) {
	tests := map[string][]step{
		"a create makes an empty stream, and the same again finds it (rows 24, 25)": {
			{do: create("n"), want: Created, check: tail(0)},
			{do: create("n"), want: Exists, check: tail(0)},
		},
		"the body of a repeated create is ignored (row 26)": {
			{do: body(create("n"), "ab"), want: Created, check: tail(2)},
			{do: body(create("n"), "other"), want: Exists, check: tail(2)},
		},
		"another media type conflicts (row 27)": {
			{do: contentType(create("n"), "application/octet-stream"), want: Created},
			{do: create("n"), want: ConfigConflict, check: tail(0)},
		},
		"media types compare without case and parameters (row 28)": {
			{do: contentType(create("n"), "application/json; charset=utf-8"), want: Created},
			{do: contentType(create("n"), "APPLICATION/JSON"), want: Exists, check: func(t *testing.T, _ *machine, r Result) {
				if r.Stream.ContentType != "application/json; charset=utf-8" {
					t.Fatalf("content type %q is not the first one, verbatim", r.Stream.ContentType)
				}
			}},
		},
		"values that name no media type are equal only when they read the same": {
			{do: contentType(create("n"), "junk"), want: Created},
			{do: contentType(create("n"), "junk"), want: Exists},
			{do: contentType(create("n"), "other"), want: ConfigConflict},
		},
		"another TTL, none, or a TTL where there was none conflicts": {
			{do: withTTL(create("n"), 60), want: Created},
			{do: withTTL(create("n"), 60), want: Exists},
			{do: withTTL(create("n"), 61), want: ConfigConflict},
			{do: create("n"), want: ConfigConflict},
			{do: create("m"), want: Created},
			{do: withTTL(create("m"), 0), want: ConfigConflict},
		},
		"deadlines compare as instants": {
			{do: until(create("n"), 9_000_000, "1970-01-01T02:30:00Z"), want: Created},
			{do: until(create("n"), 9_000_000, "1970-01-01T04:30:00+02:00"), want: Exists},
			{do: until(create("n"), 9_000_001, "1970-01-01T02:30:00.001Z"), want: ConfigConflict},
			{do: create("n"), want: ConfigConflict},
		},
		"a closed create holds its body for good (row 36)": {
			{do: body(closing(create("n")), "x"), want: Created, check: tail(1)},
			{do: write("n", "y"), want: StreamClosed, check: tail(1)},
		},
		"the closed flag compared is the current one (rows 38, 39)": {
			{do: create("n"), want: Created},
			{do: closing(create("n")), want: ConfigConflict},
			{do: closeOnly("n"), want: Appended},
			{do: create("n"), want: ConfigConflict},
			{do: closing(create("n")), want: Exists},
		},
		"delete and create make another stream (row 45)": {
			{do: body(create("n"), "old"), want: Created},
			{do: remove("n"), want: Deleted},
			{do: remove("n"), want: NotFound},
			{do: body(create("n"), "fresh"), want: Created, check: func(t *testing.T, m *machine, r Result) {
				if r.Stream.ID != 2 || string(m.base.data[2]) != "fresh" || m.base.data[1] != nil {
					t.Fatalf("stream %+v with bytes %q and leftovers %q", r.Stream, m.base.data[2], m.base.data[1])
				}
			}},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) { runSteps(t, steps) })
	}
}

var plainWrites = map[string][]step{
	"an append gains its bytes (row 46)": {
		{do: create("s"), want: Created},
		{do: write("s", "abc"), want: Appended, check: func(t *testing.T, m *machine, r Result) {
			if r.Start != 0 || r.End != 3 || string(m.base.data[1]) != "abc" {
				t.Fatalf("range [%d,%d) of %q", r.Start, r.End, m.base.data[1])
			}
		}},
		{do: write("s", "de"), want: Appended, check: tail(5)},
	},
	"a body without a content type is a fault (row 47)": {
		{do: create("s"), want: Created},
		{do: typed(write("s", "abc"), ""), want: ContentFault, check: fault(FaultMissingContentType)},
	},
	"an empty body is a fault (rows 48, 53)": {
		{do: create("s"), want: Created},
		{do: write("s", ""), want: ContentFault, check: fault(FaultEmptyBody)},
		{do: typed(write("s", ""), ""), want: ContentFault, check: fault(FaultEmptyBody)},
		{do: faulty(closing(write("s", "")), FaultEmptyBody), want: ContentFault, check: fault(FaultEmptyBody)},
	},
	"another media type conflicts, before any fault but its absence (rows 49, 50)": {
		{do: contentType(create("s"), "text/plain; charset=utf-8"), want: Created},
		{do: write("s", "a"), want: Appended},
		{do: typed(write("s", "{}"), "application/json"), want: TypeMismatch, check: tail(1)},
		{do: faulty(typed(write("s", ""), "application/json"), FaultInvalidJSON), want: TypeMismatch},
		{do: faulty(typed(write("s", ""), ""), FaultMissingContentType), want: ContentFault, check: fault(FaultMissingContentType)},
	},
	"a missing stream is not found, whatever the write (rows 51, 74)": {
		{do: write("s", "a"), want: NotFound},
		{do: closeOnly("s"), want: NotFound},
		{do: faulty(write("s", ""), FaultInvalidJSON), want: NotFound},
	},
	"Stream-Seq must rise, compared as bytes (rows 66, 67)": {
		{do: create("s"), want: Created},
		{do: seqd(write("s", "a"), "5"), want: Appended},
		{do: seqd(write("s", "a"), "5"), want: SeqConflict, check: func(t *testing.T, _ *machine, r Result) {
			if r.Stream.Seq != "5" {
				t.Fatalf("last accepted seq %q", r.Stream.Seq)
			}
		}},
		{do: seqd(write("s", "a"), "10"), want: SeqConflict},
		{do: write("s", "a"), want: Appended, check: tail(2)},
		{do: seqd(write("s", "a"), "50"), want: Appended, check: tail(3)},
	},
	"a refused append does not move Stream-Seq (row 68)": {
		{do: create("s"), want: Created},
		{do: typed(seqd(write("s", "x"), "b"), "application/json"), want: TypeMismatch},
		{do: seqd(write("s", "x"), "a"), want: Appended},
	},
	"closed comes before type and seq (rows 69, 70, 73)": {
		{do: create("s"), want: Created},
		{do: seqd(write("s", "abc"), "5"), want: Appended},
		{do: closeOnly("s"), want: Appended},
		{do: write("s", "d"), want: StreamClosed, check: tail(3)},
		{do: seqd(typed(write("s", "d"), "application/json"), "1"), want: StreamClosed},
		{do: closing(write("s", "d")), want: StreamClosed},
		{do: faulty(closing(write("s", "")), FaultInvalidJSON), want: StreamClosed},
	},
	"type comes before seq": {
		{do: create("s"), want: Created},
		{do: seqd(write("s", "a"), "5"), want: Appended},
		{do: seqd(typed(write("s", "a"), "application/json"), "5"), want: TypeMismatch},
	},
	"a close ignores its content type and can be repeated (rows 71, 72)": {
		{do: create("s"), want: Created},
		{do: write("s", "abc"), want: Appended},
		{do: typed(closeOnly("s"), "image/png"), want: Appended, check: tail(3)},
		{do: closeOnly("s"), want: Appended, check: func(t *testing.T, _ *machine, r Result) {
			if !r.ClosedByWrite || !r.Stream.Closed || r.Start != 3 || r.End != 3 {
				t.Fatalf("result %+v", r)
			}
		}},
	},
	"an append that closes does both": {
		{do: create("s"), want: Created},
		{do: closing(write("s", "abc")), want: Appended, check: func(t *testing.T, _ *machine, r Result) {
			if !r.ClosedByWrite || !r.Stream.Closed || r.End != 3 {
				t.Fatalf("result %+v", r)
			}
		}},
	},
	"a closed stream can be deleted": {
		{do: closing(create("s")), want: Created},
		{do: remove("s"), want: Deleted},
		{do: write("s", "a"), want: NotFound},
	},
}

func TestAppendWithoutProducer(t *testing.T) {
	for name, steps := range plainWrites {
		t.Run(name, func(t *testing.T) { runSteps(t, steps) })
	}
}

func TestOffsetsStayExactInADouble(t *testing.T) {
	m := newMachine(t)
	s := Stream{ID: 1, Key: key("s"), ContentType: "text/plain", Tail: MaxOffset - 2}
	tx := NewTx(loaderOf(t, Group{LastID: 1}, &s))
	c := write("s", "ab")
	if r, err := tx.Apply(&c, m.now); err != nil || r.Outcome != Appended || r.End != MaxOffset {
		t.Fatalf("the last two bytes: %+v, %v", r, err)
	}
	c = write("s", "c")
	if r, err := tx.Apply(&c, m.now); err != nil || r.Outcome != OutOfRange || r.Stream.Tail != MaxOffset {
		t.Fatalf("one byte more: %+v, %v", r, err)
	}
	c = closeOnly("s")
	if r, err := tx.Apply(&c, m.now); err != nil || r.Outcome != Appended {
		t.Fatalf("a full stream can be closed: %+v, %v", r, err)
	}
}

// loaderOf returns a loader of exactly these records.
func loaderOf(t *testing.T, g Group, streams ...*Stream) Loader {
	t.Helper()
	b := newMemBase(g)
	for _, s := range streams {
		b.streams[s.ID] = AppendStream(nil, s)
		b.names[s.Key] = s.ID
	}
	return b
}

func TestResultsKeepTheRecordOfTheirOwnCommand(t *testing.T) {
	m := newMachine(t)
	m.want(m.do(create("s")), Created)
	tx := NewTx(m.base)
	var results []Result
	for _, c := range []Command{by(write("s", "a"), "p", 0, 0), by(write("s", "b"), "p", 0, 1), closeOnly("s")} {
		r, err := tx.Apply(&c, m.now)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, r)
	}
	if s := results[0].Stream; s.Tail != 1 || s.Closed || results[0].Producer.Seq != 0 {
		t.Fatalf("the first result shows what later commands did: %+v %+v", s, results[0].Producer)
	}
	mut := tx.Mutations()
	if len(mut.Put) != 1 || mut.Put[0].Tail != 2 || !mut.Put[0].Closed || len(mut.Producers) != 1 || len(mut.Appends) != 2 {
		t.Fatalf("mutations are not one final record and two appends: %+v", mut)
	}
}

func TestMutationsLeaveOutWhatDidNotOutliveTheRun(t *testing.T) {
	m := newMachine(t)
	m.want(m.do(body(create("old"), "x")), Created)
	tx := NewTx(m.base)
	for _, c := range []Command{
		by(write("old", "y"), "p", 0, 0), remove("old"),
		body(create("brief"), "z"), by(write("brief", "z"), "p", 0, 0), remove("brief"),
		body(create("old"), "new"),
	} {
		if _, err := tx.Apply(&c, m.now); err != nil {
			t.Fatal(err)
		}
	}
	mut := tx.Mutations()
	if len(mut.Removed) != 1 || mut.Removed[0].ID != 1 || mut.Removed[0].Tail != 1 {
		t.Fatalf("removed %+v, want the stream as it was before the run", mut.Removed)
	}
	if len(mut.Put) != 1 || mut.Put[0].ID != 3 || len(mut.Producers) != 0 {
		t.Fatalf("put %+v, producers %+v", mut.Put, mut.Producers)
	}
	if len(mut.Appends) != 1 || string(mut.Appends[0].Data) != "new" {
		t.Fatalf("appends %+v", mut.Appends)
	}
	if err := m.base.apply(mut); err != nil {
		t.Fatal(err)
	}
}

func TestRefusedWritesChangeNothingButTheTime(t *testing.T) {
	m := newMachine(t)
	m.want(m.do(withTTL(create("s"), 100)), Created)
	m.want(m.do(by(seqd(write("s", "a"), "5"), "p", 3, 0)), Appended)
	m.want(m.do(closing(withTTL(create("c"), 100))), Created)
	refused := []Command{
		withTTL(create("s"), 7),
		typed(write("s", "x"), "application/json"),
		typed(write("s", "x"), ""),
		seqd(write("s", "x"), "4"),
		by(write("s", "x"), "p", 3, 5),
		by(write("s", "x"), "p", 2, 0),
		by(write("s", "x"), "p", 4, 1),
		by(write("s", "x"), "q", 0, 1),
		by(seqd(write("s", "x"), "1"), "p", 3, 1),
		by(seqd(write("s", "x"), "1"), "new", 0, 0),
		faulty(by(write("s", ""), "p", 3, 1), FaultInvalidJSON),
		withDigest(by(write("s", "x"), "p", 3, 0), 1),
		write("c", "x"),
		by(write("c", "x"), "p", 0, 0),
		write("missing", "x"),
		remove("missing"),
	}
	for i, c := range refused {
		m.now += 10
		tx := NewTx(m.base)
		r, err := tx.Apply(&c, m.now)
		if err != nil || r.Outcome < NotFound {
			t.Fatalf("command %d was not refused: %+v, %v", i, r, err)
		}
		mut := tx.Mutations()
		if mut.Group == nil || mut.Group.Time != m.now {
			t.Fatalf("command %d: group %+v, want time %d", i, mut.Group, m.now)
		}
		if len(mut.Put)+len(mut.Removed)+len(mut.Producers)+len(mut.Appends) != 0 {
			t.Fatalf("command %d changed %+v", i, mut)
		}
	}
}
