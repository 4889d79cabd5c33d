package protocol

var (
	errProducerPartial  = refusal(CodeInvalidProducer, "Producer-Id, Producer-Epoch and Producer-Seq come together")
	errProducerRepeated = refusal(CodeInvalidProducer, "a producer header is given more than once")
	errProducerID       = refusal(CodeInvalidProducer, "Producer-Id is 1 to 256 printable ASCII characters")
	errProducerEpoch    = refusal(CodeInvalidProducer, "Producer-Epoch is a decimal integer, at most 2^53 - 1")
	errProducerSeq      = refusal(CodeInvalidProducer, "Producer-Seq is a decimal integer, at most 2^53 - 1")
)

// ParseProducer reads the values of the three producer headers of a write. They
// come together, each once, or not at all: then present is false. Epoch and seq
// are decimal digits, at most MaxInteger; leading zeros are allowed.
func ParseProducer(ids, epochs, seqs []string) (id string, epoch, seq uint64, present bool, err error) {
	if len(ids)+len(epochs)+len(seqs) == 0 {
		return "", 0, 0, false, nil
	}
	if len(ids) == 0 || len(epochs) == 0 || len(seqs) == 0 {
		return "", 0, 0, false, errProducerPartial
	}
	if len(ids)+len(epochs)+len(seqs) > 3 {
		return "", 0, 0, false, errProducerRepeated
	}
	id = ids[0]
	if id == "" || len(id) > MaxProducerIDBytes || !isPrintable(id) {
		return "", 0, 0, false, errProducerID
	}
	var ok bool
	if epoch, ok = parseInteger(epochs[0], MaxInteger); !ok {
		return "", 0, 0, false, errProducerEpoch
	}
	if seq, ok = parseInteger(seqs[0], MaxInteger); !ok {
		return "", 0, 0, false, errProducerSeq
	}
	return id, epoch, seq, true, nil
}
