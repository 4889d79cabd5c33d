package protocol

// Version is the value of Ursula-Protocol: the contract of sections 2.4, 5, 10
// and 11 (section 10).
const Version = "2"

// Limits of requests and answers, in bytes.
const (
	// MaxRequestBytes is the request limit: a body up to it is accepted on every
	// route, a larger one is refused (section 10).
	MaxRequestBytes = 32 << 20
	// ReadCap bounds every read answer and every SSE data event (section 9.3).
	ReadCap = 8 << 20

	MinBucketBytes = 4
	MaxBucketBytes = 64
	// MaxKeyBytes bounds a stream id and also bucket, slash and stream id
	// together (section 1.1).
	MaxKeyBytes         = 122
	MaxClusterIDBytes   = 64
	MaxProducerIDBytes  = 256
	MaxSeqBytes         = 256
	MaxContentTypeBytes = 256
)

// MaxInteger is the largest integer of the protocol's headers, 2^53 - 1: exact
// as a JavaScript Number.
const MaxInteger = 1<<53 - 1

// Header names of the base protocol.
const (
	HeaderStreamTTL             = "Stream-TTL"
	HeaderStreamExpiresAt       = "Stream-Expires-At"
	HeaderStreamClosed          = "Stream-Closed"
	HeaderStreamSeq             = "Stream-Seq"
	HeaderStreamNextOffset      = "Stream-Next-Offset"
	HeaderStreamUpToDate        = "Stream-Up-To-Date"
	HeaderStreamCursor          = "Stream-Cursor"
	HeaderStreamSSEDataEncoding = "Stream-Sse-Data-Encoding"
	HeaderStreamForkedFrom      = "Stream-Forked-From"
	HeaderStreamForkOffset      = "Stream-Fork-Offset"
	HeaderStreamForkSubOffset   = "Stream-Fork-Sub-Offset"
	HeaderProducerID            = "Producer-Id"
	HeaderProducerEpoch         = "Producer-Epoch"
	HeaderProducerSeq           = "Producer-Seq"
	HeaderProducerExpectedSeq   = "Producer-Expected-Seq"
	HeaderProducerReceivedSeq   = "Producer-Received-Seq"
)

// Header names of the extensions.
const (
	HeaderStreamIncarnation         = "Stream-Incarnation"
	HeaderStreamPreviousIncarnation = "Stream-Previous-Incarnation"
	HeaderStreamInheritedOffset     = "Stream-Inherited-Offset"
	HeaderStreamOffset              = "Stream-Offset"
	HeaderStreamLastSeq             = "Stream-Last-Seq"
	HeaderStreamRetainedOffset      = "Stream-Retained-Offset"
	HeaderStreamSnapshotOffset      = "Stream-Snapshot-Offset"
	HeaderStreamSnapshotDigest      = "Stream-Snapshot-Digest"
	HeaderStreamSnapshotPart        = "Stream-Snapshot-Part"
	HeaderStreamSnapshotParts       = "Stream-Snapshot-Parts"
	HeaderStreamDataContentType     = "Stream-Data-Content-Type"
	HeaderStreamImmutable           = "Stream-Immutable"
	HeaderStreamReadOrigin          = "Stream-Read-Origin"
	HeaderProducerDigest            = "Producer-Digest"
	HeaderProducerOutcome           = "Producer-Outcome"
	HeaderProducerClosedEpoch       = "Producer-Closed-Epoch"
	HeaderProducerClosedSeq         = "Producer-Closed-Seq"
	HeaderProtocol                  = "Ursula-Protocol"
	HeaderClusterID                 = "Ursula-Cluster-Id"
	HeaderMaxRequestBytes           = "Ursula-Max-Request-Bytes"
	HeaderMaxSnapshotBytes          = "Ursula-Max-Snapshot-Bytes"
	HeaderMaxStagedParts            = "Ursula-Max-Staged-Parts"
)

// Header names of routing answers (section 5.7).
const (
	HeaderRaftLeaderID = "X-Ursula-Raft-Leader-Id"
	HeaderRaftGroup    = "X-Ursula-Raft-Group"
	HeaderRaftTerm     = "X-Ursula-Raft-Term"
)

// Header names of HTTP that answers and requests of the protocol use.
const (
	HeaderContentType        = "Content-Type"
	HeaderContentLength      = "Content-Length"
	HeaderCacheControl       = "Cache-Control"
	HeaderETag               = "ETag"
	HeaderIfNoneMatch        = "If-None-Match"
	HeaderLocation           = "Location"
	HeaderRetryAfter         = "Retry-After"
	HeaderAllow              = "Allow"
	HeaderExpect             = "Expect"
	HeaderContentTypeOptions = "X-Content-Type-Options"
	HeaderResourcePolicy     = "Cross-Origin-Resource-Policy"
	HeaderAllowOrigin        = "Access-Control-Allow-Origin"
	HeaderAllowMethods       = "Access-Control-Allow-Methods"
	HeaderAllowHeaders       = "Access-Control-Allow-Headers"
	HeaderExposeHeaders      = "Access-Control-Expose-Headers"
)

// Fixed header values.
const (
	ValueTrue        = "true"
	ValueBase64      = "base64"
	ValueNoStore     = "no-store"
	ValueNoSniff     = "nosniff"
	ValueCrossOrigin = "cross-origin"
)

// Query parameters of a read.
const (
	ParamOffset      = "offset"
	ParamLive        = "live"
	ParamCursor      = "cursor"
	ParamConsistency = "consistency"
	ParamMaxBytes    = "max_bytes"
	ParamTimeoutMS   = "timeout_ms"
)
