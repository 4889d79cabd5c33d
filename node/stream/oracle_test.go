package stream

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// oracle is the state machine as the specification tells it, on plain maps of
// names, written without the package's code: it has no records, no overlay, no
// copies and no loader.
type oracle struct {
	clock    uint64
	stamps   uint64 // the last creation stamp
	made     uint64 // streams made so far
	rewrites int
	live     map[string]*oracleStream // by "bucket/stream"
}

type oracleStream struct {
	id, created, touched uint64
	contentType          string
	bytes                string
	shut                 bool
	ttl                  *uint64 // seconds
	deadline             *uint64 // milliseconds
	lastSeq              string
	writers              map[string]*oracleWriter
	writtenIn            int
	before               *[2]uint64 // history and tail before the first write after a rewrite
}

// oracleWriter remembers every applied write of a producer.
type oracleWriter struct {
	epoch   uint64
	writes  []oracleWrite // of the current epoch, by seq
	closed  *[2]uint64
	claimed int
	last    uint64
}

type oracleWrite struct {
	from, to uint64
	shut     bool
	digest   string // "" when none was given
}

// answer is what both machines are compared by.
type answer struct {
	Outcome    Outcome
	Fault      Fault
	Start, End uint64
	Receipt    bool
	ClosedBy   bool
	Expected   uint64
	Count      int
	Stream     string
	Producer   string
}

func newOracle() *oracle { return &oracle{live: map[string]*oracleStream{}} }

// over says that a lifetime has ended, in exact arithmetic.
func (o *oracle) over(s *oracleStream) bool {
	now := new(big.Int).SetUint64(o.clock)
	if s.deadline != nil && now.Cmp(new(big.Int).SetUint64(*s.deadline)) >= 0 {
		return true
	}
	if s.ttl == nil {
		return false
	}
	window := new(big.Int).Mul(new(big.Int).SetUint64(*s.ttl), big.NewInt(4000))
	if *s.ttl >= 60 {
		window.Add(window, new(big.Int).Div(window, big.NewInt(4)))
	}
	idle := new(big.Int).Sub(now, new(big.Int).SetUint64(s.touched))
	return idle.Mul(idle, big.NewInt(4)).Cmp(window) >= 0
}

// find drops the stream of that name when its lifetime has ended.
func (o *oracle) find(name string) *oracleStream {
	s := o.live[name]
	if s != nil && o.over(s) {
		delete(o.live, name)
		return nil
	}
	return s
}

func (o *oracle) renewed(s *oracleStream) bool {
	if s.ttl == nil || s.touched == o.clock {
		return false
	}
	s.touched = o.clock
	return true
}

func (o *oracle) apply(c *Command, stamp uint64) answer {
	o.clock = max(o.clock, stamp)
	name := c.Key.Bucket + "/" + c.Key.Stream
	switch c.Kind {
	case KindCreate:
		return o.create(name, c)
	case KindAppend:
		return o.write(name, c)
	case KindDelete:
		if o.find(name) == nil {
			return answer{Outcome: NotFound}
		}
		delete(o.live, name)
		return answer{Outcome: Deleted}
	}
	n := 0
	for _, id := range c.IDs {
		for name, s := range o.live {
			if s.id != uint64(id) {
				continue
			}
			gone := o.find(name) == nil
			if c.Kind == KindExpire && gone || c.Kind == KindTouch && !gone && o.renewed(s) {
				n++
			}
		}
	}
	return answer{Outcome: Touched, Count: n}
}

func base(contentType string) string {
	return strings.ToLower(strings.TrimSpace(strings.Split(contentType, ";")[0]))
}

func (o *oracle) create(name string, c *Command) answer {
	var ttl, deadline *uint64
	if c.Expiry.HasTTL {
		v := c.Expiry.TTL
		ttl = &v
	}
	if c.Expiry.AtText != "" {
		v := c.Expiry.At
		deadline = &v
	}
	if s := o.find(name); s != nil {
		same := func(a, b *uint64) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }
		if base(s.contentType) != base(c.ContentType) || s.shut != c.Close || !same(s.ttl, ttl) || !same(s.deadline, deadline) {
			return answer{Outcome: ConfigConflict, Stream: s.String()}
		}
		o.renewed(s)
		return answer{Outcome: Exists, Stream: s.String()}
	}
	o.stamps = max(o.stamps+1, o.clock)
	o.made++
	s := &oracleStream{
		id: o.made, created: o.stamps, touched: o.clock, contentType: c.ContentType, bytes: string(c.Payload),
		shut: c.Close, ttl: ttl, deadline: deadline, writers: map[string]*oracleWriter{}, writtenIn: o.rewrites,
	}
	o.live[name] = s
	return answer{Outcome: Created, End: uint64(len(s.bytes)), ClosedBy: c.Close, Stream: s.String()}
}

func (o *oracle) write(name string, c *Command) (a answer) {
	s := o.find(name)
	if s == nil {
		return answer{Outcome: NotFound}
	}
	var w *oracleWriter
	defer func() {
		a.Stream = s.String()
		if c.Producer != nil {
			a.Producer = s.writers[c.Producer.ID].String()
		}
	}()
	digest := ""
	if k := c.Producer; k != nil {
		if k.Digest.Given {
			digest = string(k.Digest.Sum[:])
		}
		w = s.writers[k.ID]
		if a, done := o.key(s, w, k.Epoch, k.Seq, digest); done {
			return a
		}
	}
	onlyCloses := c.Close && len(c.Payload) == 0 && c.Fault == FaultNone
	size := uint64(len(s.bytes))
	if s.shut {
		if onlyCloses && c.Producer == nil {
			o.renewed(s)
			return answer{Outcome: Appended, Start: size, End: size, ClosedBy: true}
		}
		return answer{Outcome: StreamClosed}
	}
	if !onlyCloses {
		if c.Fault == FaultMissingContentType || c.Fault == FaultNone && c.MediaType == "" && len(c.Payload) > 0 {
			return answer{Outcome: ContentFault, Fault: FaultMissingContentType}
		}
		if c.MediaType != "" && c.MediaType != base(s.contentType) {
			return answer{Outcome: TypeMismatch}
		}
		if c.Fault != FaultNone {
			return answer{Outcome: ContentFault, Fault: c.Fault}
		}
		if len(c.Payload) == 0 {
			return answer{Outcome: ContentFault, Fault: FaultEmptyBody}
		}
	}
	if c.Seq != "" {
		if s.lastSeq != "" && strings.Compare(c.Seq, s.lastSeq) <= 0 {
			return answer{Outcome: SeqConflict}
		}
		s.lastSeq = c.Seq
	}
	if len(c.Payload) > 0 {
		if s.writtenIn < o.rewrites {
			s.before = &[2]uint64{uint64(s.writtenIn), size}
			s.writtenIn = o.rewrites
		}
		s.bytes += string(c.Payload)
	}
	s.shut = c.Close
	s.touched = o.clock
	end := uint64(len(s.bytes))
	if k := c.Producer; k != nil {
		if w == nil {
			w = &oracleWriter{epoch: k.Epoch, claimed: o.rewrites}
			s.writers[k.ID] = w
		} else if k.Epoch != w.epoch {
			w.closed = &[2]uint64{w.epoch, uint64(len(w.writes) - 1)}
			w.epoch, w.writes, w.claimed = k.Epoch, nil, o.rewrites
		}
		w.writes = append(w.writes, oracleWrite{from: size, to: end, shut: c.Close, digest: digest})
		w.last = o.clock
	}
	return answer{Outcome: Appended, Start: size, End: end, ClosedBy: c.Close}
}

// key decides a producer's key against its remembered writes.
func (o *oracle) key(s *oracleStream, w *oracleWriter, epoch, seq uint64, digest string) (answer, bool) {
	if w == nil {
		return answer{Outcome: ProducerGap}, seq > 0
	}
	if epoch < w.epoch {
		return answer{Outcome: EpochStale}, true
	}
	if epoch > w.epoch {
		return answer{Outcome: EpochNotClaimed}, seq > 0
	}
	n := uint64(len(w.writes))
	if seq >= n {
		return answer{Outcome: ProducerGap, Expected: n}, seq > n
	}
	was := w.writes[seq]
	known := seq == n-1 || seq == 0
	if known && was.digest != digest {
		return answer{Outcome: KeyConflict}, true
	}
	o.renewed(s)
	if seq < n-1 {
		return answer{Outcome: Duplicate}, true
	}
	return answer{Outcome: Duplicate, Receipt: true, Start: was.from, End: was.to, ClosedBy: was.shut}, true
}

func opt(v *uint64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(*v)
}

func pair(v *[2]uint64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(*v)
}

func (s *oracleStream) String() string {
	return fmt.Sprintf("id %d created %d touched %d type %q tail %d closed %v ttl %s at %s seq %q written %d before %s producers %d",
		s.id, s.created, s.touched, s.contentType, len(s.bytes), s.shut, opt(s.ttl), opt(s.deadline), s.lastSeq, s.writtenIn, pair(s.before), len(s.writers))
}

func (w *oracleWriter) String() string {
	if w == nil {
		return ""
	}
	n := len(w.writes)
	newest, claim := w.writes[n-1], w.writes[0]
	return fmt.Sprintf("epoch %d seq %d newest [%d,%d) %v %x claim %x of %d closed %s last %d",
		w.epoch, n-1, newest.from, newest.to, newest.shut, newest.digest, claim.digest, w.claimed, pair(w.closed), w.last)
}

// state is everything the oracle holds, in the form that baseState gives.
func (o *oracle) state() string {
	lines := []string{fmt.Sprintf("time %d stamps %d made %d rewrites %d", o.clock, o.stamps, o.made, o.rewrites)}
	for name, s := range o.live {
		lines = append(lines, fmt.Sprintf("%s: %v bytes %q", name, s, s.bytes))
		for id, w := range s.writers {
			lines = append(lines, fmt.Sprintf("%s by %q: %v", name, id, w))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// The same forms of the package's records.

func streamText(s *Stream) string {
	if s == nil {
		return ""
	}
	var ttl, at *uint64
	if s.Expiry.HasTTL {
		ttl = &s.Expiry.TTL
	}
	if s.Expiry.AtText != "" {
		at = &s.Expiry.At
	}
	var before *[2]uint64
	if s.Predecessor != nil {
		before = &[2]uint64{uint64(s.Predecessor.History), s.Predecessor.Tail}
	}
	return fmt.Sprintf("id %d created %d touched %d type %q tail %d closed %v ttl %s at %s seq %q written %d before %s producers %d",
		s.ID, s.Created, s.Touched, s.ContentType, s.Tail, s.Closed, opt(ttl), opt(at), s.Seq, s.Written, pair(before), s.Producers)
}

func producerText(p *Producer) string {
	if p == nil {
		return ""
	}
	sum := func(d Digest) string {
		if !d.Given {
			return ""
		}
		return string(d.Sum[:])
	}
	var closed *[2]uint64
	if p.HasClosed {
		closed = &[2]uint64{p.ClosedEpoch, p.ClosedSeq}
	}
	return fmt.Sprintf("epoch %d seq %d newest [%d,%d) %v %x claim %x of %d closed %s last %d",
		p.Epoch, p.Seq, p.Newest.Start, p.Newest.End, p.Newest.Closed, sum(p.Newest.Digest), sum(p.Claim), p.ClaimHistory, pair(closed), p.LastWrite)
}

func answerOf(r Result) answer {
	return answer{
		Outcome: r.Outcome, Fault: r.Fault, Start: r.Start, End: r.End, Receipt: r.Receipt,
		ClosedBy: r.ClosedByWrite, Expected: r.ExpectedSeq, Count: r.Count,
		Stream: streamText(r.Stream), Producer: producerText(r.Producer),
	}
}

func baseState(b *memBase) (string, error) {
	g, err := b.Group()
	if err != nil {
		return "", err
	}
	lines := []string{fmt.Sprintf("time %d stamps %d made %d rewrites %d", g.Time, g.LastCreated, g.LastID, len(g.Histories)-1)}
	for name, id := range b.names {
		s, err := DecodeStream(b.streams[id])
		if err != nil {
			return "", err
		}
		lines = append(lines, fmt.Sprintf("%s/%s: %s bytes %q", name.Bucket, name.Stream, streamText(s), b.data[id]))
		for k, enc := range b.producers {
			if k.stream != id {
				continue
			}
			p, err := DecodeProducer(enc)
			if err != nil {
				return "", err
			}
			lines = append(lines, fmt.Sprintf("%s/%s by %q: %s", name.Bucket, name.Stream, k.id, producerText(p)))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}
