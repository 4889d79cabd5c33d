package streamhttp

import (
	"errors"
	"io"

	"runnel.dev/runnel/node/http1"
	"runnel.dev/runnel/node/protocol"
	"runnel.dev/runnel/node/raftgroup"
	"runnel.dev/runnel/node/stream"
)

// Refusals with the code's own message.
var (
	faultApplyStopped   = &protocol.Error{Code: protocol.CodeApplyStopped}
	faultInternal       = &protocol.Error{Code: protocol.CodeInternal}
	faultNotFound       = &protocol.Error{Code: protocol.CodeStreamNotFound}
	faultOutcomeUnknown = &protocol.Error{Code: protocol.CodeOutcomeUnknown}
	faultIngress        = &protocol.Error{Code: protocol.CodeIngressBodyBytesLimitReached}
	faultLiveReaders    = &protocol.Error{Code: protocol.CodeLiveReadBackpressure}
	faultDiskPressure   = &protocol.Error{Code: protocol.CodeWALDiskPressure}
	faultBusy           = &protocol.Error{Code: protocol.CodeRaftUncommittedBackpressure}
	faultOutOfRange     = &protocol.Error{Code: protocol.CodeInvalidRequest, Message: "the stream's offsets are used up"}
	faultCreateProducer = &protocol.Error{Code: protocol.CodeInvalidProducer, Message: "a create carries no producer headers"}
	faultFork           = &protocol.Error{Code: protocol.CodeUnsupported, Message: "this server does not fork streams"}
)

// refuse answers an error: one that names its code as it is, anything else as
// INTERNAL without its text.
func (h *Handler) refuse(x http1.Exchange, err error) {
	fault, ok := err.(*protocol.Error)
	if !ok && !errors.As(err, &fault) {
		fault = faultInternal
	}
	h.refuseAs(x, fault.Code.Status(), fault)
}

func (h *Handler) refuseAs(x http1.Exchange, status int, fault *protocol.Error) {
	if status == 503 {
		x.SetHeader(protocol.HeaderRetryAfter, "1")
	}
	x.SetHeader(protocol.HeaderContentType, protocol.TypeJSON)
	h.answer(x, status, protocol.AppendErrorBody(nil, fault.Code, fault.Message))
}

func (h *Handler) noLeader(x http1.Exchange, group uint32) {
	x.SetHeaderInt(protocol.HeaderRaftGroup, int64(group))
	h.refuse(x, &protocol.Error{Code: protocol.CodeNoLeader})
}

func (h *Handler) tooLarge(x http1.Exchange) {
	x.SetHeaderInt(protocol.HeaderMaxRequestBytes, protocol.MaxRequestBytes)
	h.refuse(x, &protocol.Error{Code: protocol.CodeRequestTooLarge})
}

func (h *Handler) methodNotAllowed(x http1.Exchange, methods string) {
	x.SetHeader(protocol.HeaderAllow, methods)
	h.refuse(x, &protocol.Error{Code: protocol.CodeMethodNotAllowed})
}

// refuseBody answers a body that could not be taken.
func (h *Handler) refuseBody(x http1.Exchange, err error) {
	switch {
	case errors.Is(err, http1.ErrBodyTooLarge):
		h.tooLarge(x)
	case errors.Is(err, http1.ErrBodyTooSlow), errors.Is(err, http1.ErrBodyMalformed), errors.Is(err, io.ErrUnexpectedEOF):
		h.refuse(x, &protocol.Error{Code: protocol.CodeBodyUnreadable})
	default:
		var fault *protocol.Error
		if !errors.As(err, &fault) {
			fault = &protocol.Error{Code: protocol.CodeBodyUnreadable}
		}
		h.refuse(x, fault)
	}
}

// refuseWrite answers a proposal that returned no result. Only the refusals
// that the engine names prove that nothing was proposed; the body is read by
// now, so none of them redirects.
func (h *Handler) refuseWrite(x http1.Exchange, group uint32, err error) {
	switch {
	case errors.Is(err, raftgroup.ErrNotLeader), errors.Is(err, raftgroup.ErrNoReplica):
		h.noLeader(x, group)
	case errors.Is(err, raftgroup.ErrBusy):
		h.refuse(x, faultBusy)
	case errors.Is(err, raftgroup.ErrApplyStopped):
		h.refuse(x, faultApplyStopped)
	case errors.Is(err, ErrDiskPressure):
		h.refuse(x, faultDiskPressure)
	default:
		h.refuse(x, faultOutcomeUnknown)
	}
}

// refused says that an error of Engine.Propose proves that the command was
// never proposed.
func refused(err error) bool {
	return errors.Is(err, raftgroup.ErrNotLeader) || errors.Is(err, raftgroup.ErrNoReplica) ||
		errors.Is(err, raftgroup.ErrBusy) || errors.Is(err, raftgroup.ErrApplyStopped) || errors.Is(err, ErrDiskPressure)
}

// contentFault is the answer to a content fault (extensions 5.3, step 5).
func contentFault(f stream.Fault) *protocol.Error {
	switch f {
	case stream.FaultMissingContentType:
		return &protocol.Error{Code: protocol.CodeMissingContentType}
	case stream.FaultEmptyBody:
		return &protocol.Error{Code: protocol.CodeEmptyAppend}
	case stream.FaultInvalidJSON:
		return &protocol.Error{Code: protocol.CodeInvalidRequest, Message: "the body is not valid JSON message text"}
	case stream.FaultDigestMismatch:
		return &protocol.Error{Code: protocol.CodeProducerDigestMismatch}
	}
	return &protocol.Error{Code: protocol.CodeInvalidRequest}
}

// writeRefusals are the answers to what the apply of a write refused; the
// headers that go with them are set by refuseApplied.
var writeRefusals = map[stream.Outcome]*protocol.Error{
	stream.NotFound:        faultNotFound,
	stream.ConfigConflict:  {Code: protocol.CodeStreamAlreadyExistsConflict},
	stream.StreamClosed:    {Code: protocol.CodeStreamClosed},
	stream.TypeMismatch:    {Code: protocol.CodeContentTypeMismatch},
	stream.SeqConflict:     {Code: protocol.CodeStreamSeqConflict},
	stream.ProducerGap:     {Code: protocol.CodeProducerSeqConflict},
	stream.EpochNotClaimed: {Code: protocol.CodeInvalidProducer, Message: "a new producer epoch starts at sequence number 0"},
	stream.EpochStale:      {Code: protocol.CodeProducerEpochStale},
	stream.KeyConflict:     {Code: protocol.CodeProducerKeyConflict},
	stream.OutOfRange:      faultOutOfRange,
}

// refuseApplied answers a write that its apply refused.
func (h *Handler) refuseApplied(x http1.Exchange, w *write, r *stream.Result) {
	switch r.Outcome {
	case stream.StreamClosed:
		setTrue(x, protocol.HeaderStreamClosed)
		w.setOffset(x, protocol.HeaderStreamNextOffset, r.Stream.Tail)
	case stream.SeqConflict:
		x.SetHeader(protocol.HeaderStreamLastSeq, r.Stream.Seq)
	case stream.ProducerGap:
		x.SetHeaderInt(protocol.HeaderProducerExpectedSeq, int64(r.ExpectedSeq))
		x.SetHeaderInt(protocol.HeaderProducerReceivedSeq, int64(w.producer.Seq))
	case stream.EpochNotClaimed:
		x.SetHeaderInt(protocol.HeaderProducerExpectedSeq, int64(r.ExpectedSeq))
	case stream.EpochStale, stream.KeyConflict:
		x.SetHeaderInt(protocol.HeaderProducerEpoch, int64(r.Producer.Epoch))
	case stream.ContentFault:
		h.refuse(x, contentFault(r.Fault))
		return
	}
	if fault := writeRefusals[r.Outcome]; fault != nil {
		h.refuse(x, fault)
		return
	}
	h.refuse(x, faultInternal)
}
