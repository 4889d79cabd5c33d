package protocol

import (
	"strings"
	"unicode/utf8"
)

var (
	errBucket        = refusal(CodeInvalidBucketID, "a bucket id is 4 to 64 characters of a-z, 0-9, _ and -")
	errStreamEmpty   = refusal(CodeInvalidStreamID, "the stream id is empty")
	errStreamLong    = refusal(CodeInvalidStreamID, "bucket id, slash and stream id are longer than 122 bytes")
	errStreamChars   = refusal(CodeInvalidStreamID, "a stream id has no slash, no NUL and no two dots in a row")
	errStreamNotUTF8 = refusal(CodeInvalidRequest, "the stream id is not UTF-8")
	errStreamName    = refusal(CodeInvalidStreamID, "the stream id is reserved")
	errClusterID     = refusal(CodeInvalidRequest, "a cluster id is 1 to 64 characters of A-Z, a-z, 0-9, ., _ and -")
)

// ValidBucket checks a bucket id: ^[a-z0-9_-]{4,64}$ (section 1.1).
func ValidBucket(s string) error {
	if len(s) < MinBucketBytes || len(s) > MaxBucketBytes {
		return errBucket
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !isLowerAlnum(c) && c != '_' && c != '-' {
			return errBucket
		}
	}
	return nil
}

// ValidStream checks a stream id, percent-decoded, in a bucket whose id was
// found valid (section 1.1). Names of stream subresources, such as snapshot,
// are ordinary ids.
func ValidStream(bucket, stream string) error {
	switch {
	case stream == "":
		return errStreamEmpty
	case len(bucket)+1+len(stream) > MaxKeyBytes:
		return errStreamLong
	case !utf8.ValidString(stream):
		return errStreamNotUTF8
	case stream == "streams" || stream[0] == '$':
		return errStreamName
	case strings.IndexByte(stream, '/') >= 0 || strings.IndexByte(stream, 0) >= 0 || strings.Contains(stream, ".."):
		return errStreamChars
	}
	return nil
}

// ValidClusterID checks an Ursula-Cluster-Id (section 10).
func ValidClusterID(s string) error {
	if s == "" || len(s) > MaxClusterIDBytes {
		return errClusterID
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !isLowerAlnum(c) && (c < 'A' || c > 'Z') && c != '.' && c != '_' && c != '-' {
			return errClusterID
		}
	}
	return nil
}

func isLowerAlnum(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
