package protocol

import "strings"

// Content types with a meaning to the protocol.
const (
	TypeOctetStream = "application/octet-stream" // the default of a create
	TypeJSON        = "application/json"
	TypeNDJSON      = "application/x-ndjson"
	TypeEventStream = "text/event-stream"
)

var errContentType = refusal(CodeInvalidHeader, "Content-Type is one value of at most 256 printable ASCII characters")

// ParseContentType reads the values of Content-Type; absent and empty both
// return "". The value is kept as it was sent, to be echoed: it need not name a
// media type, MediaType says whether it does.
func ParseContentType(values []string) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 || len(values[0]) > MaxContentTypeBytes || !isPrintable(values[0]) {
		return "", errContentType
	}
	return values[0], nil
}

// MediaType returns the media type that a Content-Type names, in lower case and
// without parameters: what streams are compared by. It is "" when the value is
// not type, slash, subtype (RFC 9110). It allocates only to fold upper case.
func MediaType(contentType string) string {
	mt := contentType
	if i := strings.IndexByte(mt, ';'); i >= 0 {
		mt = mt[:i]
	}
	mt = strings.Trim(mt, " \t")
	slash := -1
	upper := false
	for i := 0; i < len(mt); i++ {
		c := mt[i]
		switch {
		case c == '/':
			if slash >= 0 {
				return ""
			}
			slash = i
		case !isToken(c):
			return ""
		case c >= 'A' && c <= 'Z':
			upper = true
		}
	}
	if slash <= 0 || slash == len(mt)-1 {
		return ""
	}
	if upper {
		return strings.ToLower(mt)
	}
	return mt
}

// IsJSON reports that a media type, as MediaType returns it, is JSON: its
// streams hold JSON message text.
func IsJSON(mediaType string) bool { return mediaType == TypeJSON }

// IsText reports that a media type, as MediaType returns it, is text: SSE sends
// its bytes as they are, not as base64 (section 9.5).
func IsText(mediaType string) bool { return strings.HasPrefix(mediaType, "text/") }

// ReadType is the content type of a read of a stream with the given content
// type: NDJSON for JSON streams, else the type as it was given (section 9.4).
func ReadType(contentType string) string {
	if IsJSON(MediaType(contentType)) {
		return TypeNDJSON
	}
	return contentType
}

// isToken reports that c is a tchar of RFC 9110.
func isToken(c byte) bool {
	switch c {
	case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~':
		return true
	}
	return isLowerAlnum(c) || c >= 'A' && c <= 'Z'
}
