package protocol

// parseInteger reads one or more ASCII digits as a value of at most limit. It
// takes no sign and no space; leading zeros are allowed. limit is at most
// 2^63 - 1, so the accumulation can't wrap.
func parseInteger(s string, limit uint64) (v uint64, ok bool) {
	if s == "" {
		return 0, false
	}
	for i := 0; i < len(s); i++ {
		d := s[i] - '0'
		if d > 9 {
			return 0, false
		}
		if v > (limit-uint64(d))/10 {
			return 0, false
		}
		v = v*10 + uint64(d)
	}
	return v, true
}

// isDigits reports that s is one or more ASCII digits.
func isDigits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i]-'0' > 9 {
			return false
		}
	}
	return s != ""
}

// isPrintable reports that s is printable ASCII that neither begins nor ends
// with a space, so that it survives a header field unchanged.
func isPrintable(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return s == "" || (s[0] != ' ' && s[len(s)-1] != ' ')
}
