package protocol

// The codes of error bodies (section 11). Those marked are sent by
// intermediaries in front of a node, never by a node.
const (
	CodeInvalidRequest               Code = "INVALID_REQUEST"
	CodeInvalidHeader                Code = "INVALID_HEADER"
	CodeInvalidQuery                 Code = "INVALID_QUERY"
	CodeInvalidOffset                Code = "INVALID_OFFSET"
	CodeQueryNotAccepted             Code = "QUERY_NOT_ACCEPTED"
	CodeInvalidResource              Code = "INVALID_RESOURCE"
	CodeInvalidBucketID              Code = "INVALID_BUCKET_ID"
	CodeInvalidStreamID              Code = "INVALID_STREAM_ID"
	CodeInvalidProducer              Code = "INVALID_PRODUCER"
	CodeProducerDigestMismatch       Code = "PRODUCER_DIGEST_MISMATCH"
	CodeMissingContentType           Code = "MISSING_CONTENT_TYPE"
	CodeEmptyAppend                  Code = "EMPTY_APPEND"
	CodeInvalidRecordBoundaries      Code = "INVALID_RECORD_BOUNDARIES"
	CodeNotJSONBoundary              Code = "NOT_JSON_BOUNDARY"
	CodeInvalidRetention             Code = "INVALID_RETENTION"
	CodeInvalidSnapshot              Code = "INVALID_SNAPSHOT"
	CodeInvalidColdFlush             Code = "INVALID_COLD_FLUSH"
	CodeImportInvalid                Code = "IMPORT_INVALID"
	CodeInvalidPartsCommit           Code = "INVALID_PARTS_COMMIT"
	CodeUnknownPart                  Code = "UNKNOWN_PART"
	CodeSnapshotDigestMismatch       Code = "SNAPSHOT_DIGEST_MISMATCH"
	CodeBodyUnreadable               Code = "BODY_UNREADABLE"
	CodeUnsupported                  Code = "UNSUPPORTED"
	CodeInvalidCredential            Code = "INVALID_CREDENTIAL" // intermediary
	CodeCredentialExpired            Code = "CREDENTIAL_EXPIRED" // intermediary
	CodePaymentRequired              Code = "PAYMENT_REQUIRED"   // intermediary
	CodeProducerEpochClosed          Code = "PRODUCER_EPOCH_CLOSED"
	CodeProducerEpochStale           Code = "PRODUCER_EPOCH_STALE"
	CodeProducerExpired              Code = "PRODUCER_EXPIRED"
	CodeProducerKeyConflict          Code = "PRODUCER_KEY_CONFLICT"
	CodeForbidden                    Code = "FORBIDDEN"       // intermediary
	CodeAccountRevoked               Code = "ACCOUNT_REVOKED" // intermediary
	CodeStreamNotFound               Code = "STREAM_NOT_FOUND"
	CodeBucketNotFound               Code = "BUCKET_NOT_FOUND"
	CodeBucketErased                 Code = "BUCKET_ERASED"
	CodeSnapshotNotFound             Code = "SNAPSHOT_NOT_FOUND"
	CodeNotFound                     Code = "NOT_FOUND"
	CodeMethodNotAllowed             Code = "METHOD_NOT_ALLOWED"
	CodeBodyTooSlow                  Code = "BODY_TOO_SLOW" // intermediary
	CodeStreamClosed                 Code = "STREAM_CLOSED"
	CodeStreamSeqConflict            Code = "STREAM_SEQ_CONFLICT"
	CodeContentTypeMismatch          Code = "CONTENT_TYPE_MISMATCH"
	CodeStreamAlreadyExistsConflict  Code = "STREAM_ALREADY_EXISTS_CONFLICT"
	CodeProducerSeqConflict          Code = "PRODUCER_SEQ_CONFLICT"
	CodeSnapshotConflict             Code = "SNAPSHOT_CONFLICT"
	CodeImportConflict               Code = "IMPORT_CONFLICT"
	CodeStreamGone                   Code = "STREAM_GONE"
	CodeIncarnationMismatch          Code = "INCARNATION_MISMATCH"
	CodeRequestTooLarge              Code = "REQUEST_TOO_LARGE"
	CodeSnapshotTooLarge             Code = "SNAPSHOT_TOO_LARGE"
	CodeOffsetOutOfRange             Code = "OFFSET_OUT_OF_RANGE"
	CodeRangeNotSatisfiable          Code = "RANGE_NOT_SATISFIABLE"
	CodeProducerLimit                Code = "PRODUCER_LIMIT"
	CodeStagedPartsLimit             Code = "STAGED_PARTS_LIMIT"
	CodeRateLimited                  Code = "RATE_LIMITED"           // intermediary
	CodeLiveReadsExhausted           Code = "LIVE_READS_EXHAUSTED"   // intermediary
	CodeUploadsExhausted             Code = "UPLOADS_EXHAUSTED"      // intermediary
	CodeUploadBytesExhausted         Code = "UPLOAD_BYTES_EXHAUSTED" // intermediary
	CodeInternal                     Code = "INTERNAL"
	CodeCreatedAtOutOfRange          Code = "CREATED_AT_OUT_OF_RANGE"
	CodeHistoryMismatch              Code = "HISTORY_MISMATCH"
	CodeNoColdStore                  Code = "NO_COLD_STORE"
	CodeColdStoreFailed              Code = "COLD_STORE_FAILED"
	CodeUpstreamFailed               Code = "UPSTREAM_FAILED" // intermediary
	CodeNoLeader                     Code = "NO_LEADER"
	CodeWALDiskPressure              Code = "WAL_DISK_PRESSURE"
	CodeRaftLogPressure              Code = "RAFT_LOG_PRESSURE"
	CodeIngressBodyBytesLimitReached Code = "INGRESS_BODY_BYTES_LIMIT_REACHED"
	CodeColdBackpressure             Code = "COLD_BACKPRESSURE"
	CodeRaftUncommittedBackpressure  Code = "RAFT_UNCOMMITTED_BACKPRESSURE"
	CodeLiveReadBackpressure         Code = "LIVE_READ_BACKPRESSURE"
	CodeHistoryPending               Code = "HISTORY_PENDING"
	CodeApplyStopped                 Code = "APPLY_STOPPED"
	CodeGroupRestarting              Code = "GROUP_RESTARTING"
	CodeOutcomeUnknown               Code = "OUTCOME_UNKNOWN"
	CodeJSONBoundaryUnverified       Code = "JSON_BOUNDARY_UNVERIFIED"
	CodeSnapshotCommitsBusy          Code = "SNAPSHOT_COMMITS_BUSY"
	CodeSnapshotCommitInProgress     Code = "SNAPSHOT_COMMIT_IN_PROGRESS"
	CodeAuthenticationUnavailable    Code = "AUTHENTICATION_UNAVAILABLE" // intermediary
	CodeAuthorizationUnavailable     Code = "AUTHORIZATION_UNAVAILABLE"  // intermediary
	CodeNoUpstream                   Code = "NO_UPSTREAM"                // intermediary
	CodeUpstreamUnreachable          Code = "UPSTREAM_UNREACHABLE"       // intermediary
	CodeUploadBudgetExhausted        Code = "UPLOAD_BUDGET_EXHAUSTED"    // intermediary
	CodeUpstreamTimeout              Code = "UPSTREAM_TIMEOUT"           // intermediary
)

// codes says of each code the status it comes with, whether it alone proves a
// refusal where its status does not (section 11.1), and its fixed message.
var codes = map[Code]codeFacts{
	CodeInvalidRequest:               {status: 400, message: "the request is malformed"},
	CodeInvalidHeader:                {status: 400, message: "a request header is malformed"},
	CodeInvalidQuery:                 {status: 400, message: "a query parameter is malformed"},
	CodeInvalidOffset:                {status: 400, message: "the offset is malformed"},
	CodeQueryNotAccepted:             {status: 400, message: "this resource takes no query"},
	CodeInvalidResource:              {status: 400, message: "the path is not one the server issues"},
	CodeInvalidBucketID:              {status: 400, message: "the bucket id is invalid"},
	CodeInvalidStreamID:              {status: 400, message: "the stream id is invalid"},
	CodeInvalidProducer:              {status: 400, message: "the producer headers are invalid"},
	CodeProducerDigestMismatch:       {status: 400, message: "the body does not match Producer-Digest"},
	CodeMissingContentType:           {status: 400, message: "a body needs a Content-Type"},
	CodeEmptyAppend:                  {status: 400, message: "an append needs a body or Stream-Closed: true"},
	CodeInvalidRecordBoundaries:      {status: 400, message: "the record boundaries are invalid"},
	CodeNotJSONBoundary:              {status: 400, message: "the offset is not a message boundary of the JSON stream"},
	CodeInvalidRetention:             {status: 400, message: "the retention offset is invalid"},
	CodeInvalidSnapshot:              {status: 400, message: "the snapshot is invalid"},
	CodeInvalidColdFlush:             {status: 400, message: "the cold flush is invalid"},
	CodeImportInvalid:                {status: 400, message: "the import is invalid"},
	CodeInvalidPartsCommit:           {status: 400, message: "the parts commit is malformed"},
	CodeUnknownPart:                  {status: 400, message: "the commit names a part that is not staged"},
	CodeSnapshotDigestMismatch:       {status: 400, message: "the assembled snapshot does not match the digest"},
	CodeBodyUnreadable:               {status: 400, message: "the request body could not be read"},
	CodeUnsupported:                  {status: 400, message: "the request is not supported"},
	CodeInvalidCredential:            {status: 401, message: "the credential is invalid"},
	CodeCredentialExpired:            {status: 401, message: "the credential has expired"},
	CodePaymentRequired:              {status: 402, message: "payment is required"},
	CodeProducerEpochClosed:          {status: 403, message: "the producer epoch is closed"},
	CodeProducerEpochStale:           {status: 403, message: "the producer epoch is older than the current one"},
	CodeProducerExpired:              {status: 403, message: "the producer epoch may have been forgotten"},
	CodeProducerKeyConflict:          {status: 403, message: "another write holds this producer key"},
	CodeForbidden:                    {status: 403, message: "the request is not allowed"},
	CodeAccountRevoked:               {status: 403, message: "the account is revoked"},
	CodeStreamNotFound:               {status: 404, message: "the stream does not exist"},
	CodeBucketNotFound:               {status: 404, message: "the bucket does not exist"},
	CodeBucketErased:                 {status: 404, message: "the bucket was erased"},
	CodeSnapshotNotFound:             {status: 404, message: "the snapshot does not exist"},
	CodeNotFound:                     {status: 404, message: "no such route"},
	CodeMethodNotAllowed:             {status: 405, message: "the method is not allowed here"},
	CodeBodyTooSlow:                  {status: 408, refuses: true, message: "the request body came too slowly"},
	CodeStreamClosed:                 {status: 409, message: "the stream is closed"},
	CodeStreamSeqConflict:            {status: 409, message: "Stream-Seq is not greater than the last accepted one"},
	CodeContentTypeMismatch:          {status: 409, message: "the content type differs from the stream's"},
	CodeStreamAlreadyExistsConflict:  {status: 409, message: "the stream exists with another configuration"},
	CodeProducerSeqConflict:          {status: 409, message: "the producer sequence has a gap"},
	CodeSnapshotConflict:             {status: 409, message: "another snapshot is in the way"},
	CodeImportConflict:               {status: 409, message: "the import conflicts with what exists"},
	CodeStreamGone:                   {status: 410, message: "the offset is no longer readable"},
	CodeIncarnationMismatch:          {status: 412, message: "the stream is another incarnation"},
	CodeRequestTooLarge:              {status: 413, message: "the request body is larger than the limit"},
	CodeSnapshotTooLarge:             {status: 413, message: "the snapshot is larger than the limit"},
	CodeOffsetOutOfRange:             {status: 416, message: "the offset is beyond the stream's tail"},
	CodeRangeNotSatisfiable:          {status: 416, message: "the byte range is beyond the snapshot's end"},
	CodeProducerLimit:                {status: 429, message: "the stream has too many active producers"},
	CodeStagedPartsLimit:             {status: 429, message: "the stream has too many staged parts"},
	CodeRateLimited:                  {status: 429, message: "too many requests"},
	CodeLiveReadsExhausted:           {status: 429, message: "too many live reads"},
	CodeUploadsExhausted:             {status: 429, message: "too many uploads"},
	CodeUploadBytesExhausted:         {status: 429, message: "too many upload bytes"},
	CodeInternal:                     {status: 500, message: "the server failed"},
	CodeCreatedAtOutOfRange:          {status: 500, message: "the creation time is out of range"},
	CodeHistoryMismatch:              {status: 500, message: "the histories do not match"},
	CodeNoColdStore:                  {status: 501, refuses: true, message: "the server has no cold store"},
	CodeColdStoreFailed:              {status: 502, message: "the cold store failed"},
	CodeUpstreamFailed:               {status: 502, message: "the upstream failed"},
	CodeNoLeader:                     {status: 503, refuses: true, message: "no known leader for this stream; retry"},
	CodeWALDiskPressure:              {status: 503, refuses: true, message: "the node's disk is nearly full; retry"},
	CodeRaftLogPressure:              {status: 503, refuses: true, message: "the replication log is nearly full; retry"},
	CodeIngressBodyBytesLimitReached: {status: 503, refuses: true, message: "too many request bytes in flight; retry"},
	CodeColdBackpressure:             {status: 503, refuses: true, message: "the cold store lags; retry"},
	CodeRaftUncommittedBackpressure:  {status: 503, refuses: true, message: "too many uncommitted bytes; retry"},
	CodeLiveReadBackpressure:         {status: 503, message: "too many live readers on this node; retry"},
	CodeHistoryPending:               {status: 503, refuses: true, message: "the history is being replaced; retry"},
	CodeApplyStopped:                 {status: 503, refuses: true, message: "this replica has stopped applying"},
	CodeGroupRestarting:              {status: 503, refuses: true, message: "the stream's group is restarting; retry"},
	CodeOutcomeUnknown:               {status: 503, message: "the write may or may not have applied; repeat it with its key"},
	CodeJSONBoundaryUnverified:       {status: 503, refuses: true, message: "the message boundary could not be verified; retry"},
	CodeSnapshotCommitsBusy:          {status: 503, refuses: true, message: "too many snapshot commits run; retry"},
	CodeSnapshotCommitInProgress:     {status: 503, message: "a snapshot commit of this stream runs; retry"},
	CodeAuthenticationUnavailable:    {status: 503, refuses: true, message: "authentication is unavailable; retry"},
	CodeAuthorizationUnavailable:     {status: 503, refuses: true, message: "authorization is unavailable; retry"},
	CodeNoUpstream:                   {status: 503, refuses: true, message: "no upstream is available; retry"},
	CodeUpstreamUnreachable:          {status: 503, refuses: true, message: "the upstream cannot be reached; retry"},
	CodeUploadBudgetExhausted:        {status: 503, refuses: true, message: "the upload budget is used up; retry"},
	CodeUpstreamTimeout:              {status: 504, message: "the upstream timed out"},
}
