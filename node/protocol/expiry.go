package protocol

import "time"

var (
	errTTL          = refusal(CodeInvalidHeader, "Stream-TTL is whole seconds in decimal digits, without sign or leading zero, at most 2^53 - 1")
	errExpiresAt    = refusal(CodeInvalidHeader, "Stream-Expires-At is an RFC 3339 timestamp with Z or a numeric offset")
	errLifetimeBoth = refusal(CodeInvalidHeader, "Stream-TTL and Stream-Expires-At exclude each other")
	errLifetimeMany = refusal(CodeInvalidHeader, "Stream-TTL or Stream-Expires-At is given more than once")
)

// Lifetime is what a create asks for: nothing, a sliding TTL or a deadline.
type Lifetime struct {
	// TTL is the sliding window in seconds; valid when HasTTL.
	TTL    uint64
	HasTTL bool
	// At is the deadline in milliseconds since the Unix epoch; valid when HasAt.
	At    uint64
	HasAt bool
}

// ParseLifetime reads the values of Stream-TTL and Stream-Expires-At. Both at
// once is an error.
func ParseLifetime(ttls, expiresAts []string) (Lifetime, error) {
	switch {
	case len(ttls) > 1 || len(expiresAts) > 1:
		return Lifetime{}, errLifetimeMany
	case len(ttls) == 1 && len(expiresAts) == 1:
		return Lifetime{}, errLifetimeBoth
	case len(ttls) == 1:
		v, err := ParseTTL(ttls[0])
		return Lifetime{TTL: v, HasTTL: err == nil}, err
	case len(expiresAts) == 1:
		v, err := ParseExpiresAt(expiresAts[0])
		return Lifetime{At: v, HasAt: err == nil}, err
	}
	return Lifetime{}, nil
}

// ParseTTL reads a Stream-TTL: seconds, 0 to MaxInteger. 0 is legal and expires
// at once.
func ParseTTL(s string) (seconds uint64, err error) {
	v, ok := parseInteger(s, MaxInteger)
	if !ok || len(s) > 1 && s[0] == '0' {
		return 0, errTTL
	}
	return v, nil
}

// ParseExpiresAt reads a Stream-Expires-At (RFC 3339, any number of fraction
// digits) as milliseconds since the Unix epoch, rounded up so that nothing
// expires early. A time before the epoch is 0: it has passed either way.
func ParseExpiresAt(s string) (millis uint64, err error) {
	const date = len("2006-01-02T15:04:05")
	if len(s) <= date || s[4] != '-' || s[7] != '-' || s[10]|0x20 != 't' || s[13] != ':' || s[16] != ':' {
		return 0, errExpiresAt
	}
	var v [6]int
	for i, f := range [6][2]int{{0, 4}, {5, 7}, {8, 10}, {11, 13}, {14, 16}, {17, 19}} {
		n, ok := parseInteger(s[f[0]:f[1]], 9999)
		if !ok {
			return 0, errExpiresAt
		}
		v[i] = int(n)
	}
	year, month, day, hour, minute, second := v[0], v[1], v[2], v[3], v[4], v[5]
	// Second 60 is a leap second, which RFC 3339 allows; it counts as the next.
	if month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 || second > 60 {
		return 0, errExpiresAt
	}
	fraction, rest, ok := parseFraction(s[date:])
	if !ok {
		return 0, errExpiresAt
	}
	shift, ok := parseZone(rest)
	if !ok {
		return 0, errExpiresAt
	}
	at := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC).Add(-shift).UnixMilli() + fraction
	return uint64(max(at, 0)), nil
}

// parseFraction reads an optional fraction of a second in milliseconds, rounded
// up.
func parseFraction(s string) (millis int64, rest string, ok bool) {
	if s[0] != '.' {
		return 0, s, true
	}
	end := 1
	for end < len(s) && s[end]-'0' <= 9 {
		end++
	}
	if end == 1 {
		return 0, "", false
	}
	var up int64
	scale := int64(100)
	for _, c := range []byte(s[1:end]) {
		if scale == 0 && c != '0' {
			up = 1
		}
		millis += int64(c-'0') * scale
		scale /= 10
	}
	return millis + up, s[end:], true
}

// parseZone reads Z or a numeric offset from UTC.
func parseZone(s string) (time.Duration, bool) {
	if s == "Z" || s == "z" {
		return 0, true
	}
	if len(s) != len("+00:00") || s[0] != '+' && s[0] != '-' || s[3] != ':' {
		return 0, false
	}
	hours, okHours := parseInteger(s[1:3], 23)
	minutes, okMinutes := parseInteger(s[4:6], 59)
	shift := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if s[0] == '-' {
		shift = -shift
	}
	return shift, okHours && okMinutes
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}
