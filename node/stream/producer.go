package stream

// checkProducer applies the producer rules to a key. decided is false when the
// write would apply: whether it does is up to the stream and the content. The
// content itself is never looked at, so a repeat gets its receipt whatever its
// body holds.
func checkProducer(p *Producer, k *ProducerKey) (r Result, decided bool) {
	switch {
	case p == nil:
		if k.Seq != 0 {
			return Result{Outcome: ProducerGap}, true
		}
		return Result{}, false
	case k.Epoch < p.Epoch:
		return Result{Outcome: EpochStale}, true
	case k.Epoch > p.Epoch:
		if k.Seq != 0 {
			return Result{Outcome: EpochNotClaimed}, true
		}
		return Result{}, false
	case k.Seq <= p.Seq:
		return repeat(p, k), true
	case k.Seq != p.Seq+1:
		return Result{Outcome: ProducerGap, ExpectedSeq: p.Seq + 1}, true
	default:
		return Result{}, false
	}
}

// repeat answers a key that has applied. Identities are held for the newest
// write and for the epoch's claim; of any other write only the fact is known.
func repeat(p *Producer, k *ProducerKey) Result {
	newest := k.Seq == p.Seq
	if newest && !k.Digest.same(p.Newest.Digest) || k.Seq == 0 && !k.Digest.same(p.Claim) {
		return Result{Outcome: KeyConflict}
	}
	r := Result{Outcome: Duplicate}
	if newest {
		r.Receipt = true
		r.Start, r.End, r.ClosedByWrite = p.Newest.Start, p.Newest.End, p.Newest.Closed
	}
	return r
}

// advance returns the record after the key's write applied at group time now.
// A claim records the epoch it closes and how far that epoch got.
func (t *Tx) advance(p *Producer, k *ProducerKey, newest Receipt, now uint64) *Producer {
	next := &Producer{Epoch: k.Epoch, Claim: k.Digest, ClaimHistory: t.history()}
	switch {
	case p == nil:
	case k.Epoch == p.Epoch:
		*next = *p
	default:
		next.HasClosed, next.ClosedEpoch, next.ClosedSeq = true, p.Epoch, p.Seq
	}
	next.Seq = k.Seq
	next.Newest = newest
	next.LastWrite = now
	return next
}

// same says that two writes have one identity: both carry the same digest, or
// neither carries one.
func (d Digest) same(o Digest) bool {
	return d.Given == o.Given && (!d.Given || d.Sum == o.Sum)
}
