package protocol

import (
	"testing"
	"time"
)

func TestParseTTL(t *testing.T) {
	for in, want := range map[string]uint64{"0": 0, "1": 1, "60": 60, "86400": 86400, "9007199254740991": MaxInteger} {
		if got, err := ParseTTL(in); err != nil || got != want {
			t.Errorf("%q: %d, %v", in, got, err)
		}
	}
	// Row 34 and what a lenient parser would take.
	for _, in := range []string{"", "060", "00", "+60", "-1", "-0", "6e1", "1.0", "abc", " 60", "60s", "0x3c", "9007199254740992", "99999999999999999999", "６０"} {
		if got, err := ParseTTL(in); codeOf(t, err) != CodeInvalidHeader || got != 0 {
			t.Errorf("%q: %d, %v", in, got, err)
		}
	}
}

func TestParseExpiresAt(t *testing.T) {
	tests := []struct {
		name string
		in   string
		want uint64
	}{
		{"UTC", "2026-01-01T00:00:00Z", 1767225600000},
		{"an offset east", "2026-01-01T02:00:00+02:00", 1767225600000},
		{"an offset west", "2025-12-31T18:30:00-05:30", 1767225600000},
		{"the unknown offset", "2026-01-01T00:00:00-00:00", 1767225600000},
		{"milliseconds", "2026-01-01T00:00:00.123Z", 1767225600123},
		{"one fraction digit", "2026-01-01T00:00:00.1Z", 1767225600100},
		{"rounded up, not to expire early", "2026-01-01T00:00:00.123000001Z", 1767225600124},
		{"rounded up into the next second", "2026-01-01T00:00:00.9991Z", 1767225601000},
		{"zeros behind the milliseconds", "2026-01-01T00:00:00.12300000000000000000000000Z", 1767225600123},
		{"lower case", "2026-01-01t00:00:00z", 1767225600000},
		{"a leap second", "2016-12-31T23:59:60Z", 1483228800000},
		{"a leap day", "2024-02-29T00:00:00Z", 1709164800000},
		{"the leap day of 2000", "2000-02-29T00:00:00Z", 951782400000},
		{"the epoch", "1970-01-01T00:00:00Z", 0},
		{"before the epoch", "1969-12-31T23:59:59Z", 0},
		{"year 0", "0000-01-01T00:00:00Z", 0},
		{"year 9999", "9999-12-31T23:59:59Z", 253402300799000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := ParseExpiresAt(tt.in); err != nil || got != tt.want {
				t.Errorf("got %d, %v; want %d", got, err, tt.want)
			}
		})
	}
}

func TestParseExpiresAtRefuses(t *testing.T) {
	for _, in := range []string{
		"", "tomorrow", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01 00:00:00Z", "2026-1-1T00:00:00Z",
		"2026-01-01T0:00:00Z", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-01-32T00:00:00Z",
		"2026-04-31T00:00:00Z", "2025-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-01-00T00:00:00Z",
		"2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:61Z", "2026-01-01T00:00:00.Z",
		"2026-01-01T00:00:00,5Z", "2026-01-01T00:00:00.5", "2026-01-01T00:00:00ZZ", "2026-01-01T00:00:00+2",
		"2026-01-01T00:00:00+0200", "2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00+02:60",
		"2026-01-01T00:00:00+02:00x", "2026-01-01T00:00:00 Z", "12026-01-01T00:00:00Z", "+026-01-01T00:00:00Z",
		"1767225600", "Thu, 01 Jan 2026 00:00:00 GMT", "2026-01-01T00:00:00.",
	} {
		if got, err := ParseExpiresAt(in); codeOf(t, err) != CodeInvalidHeader || got != 0 {
			t.Errorf("%q: %d, %v", in, got, err)
		}
	}
}

func TestParseLifetime(t *testing.T) {
	const at = "2026-01-01T00:00:00Z"
	tests := []struct {
		name      string
		ttls, ats []string
		want      Lifetime
		code      Code
	}{
		{"none", nil, nil, Lifetime{}, ""},
		{"TTL", []string{"60"}, nil, Lifetime{TTL: 60, HasTTL: true}, ""},
		{"row 35: TTL 0", []string{"0"}, nil, Lifetime{HasTTL: true}, ""},
		{"a deadline", nil, []string{at}, Lifetime{At: 1767225600000, HasAt: true}, ""},
		{"a deadline long past", nil, []string{"1960-01-01T00:00:00Z"}, Lifetime{HasAt: true}, ""},
		{"row 33: both", []string{"60"}, []string{at}, Lifetime{}, CodeInvalidHeader},
		{"two TTLs", []string{"60", "60"}, nil, Lifetime{}, CodeInvalidHeader},
		{"two deadlines", nil, []string{at, at}, Lifetime{}, CodeInvalidHeader},
		{"an empty TTL", []string{""}, nil, Lifetime{}, CodeInvalidHeader},
		{"a bad deadline", nil, []string{"soon"}, Lifetime{}, CodeInvalidHeader},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseLifetime(tt.ttls, tt.ats)
			if got != tt.want || codeOf(t, err) != tt.code {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func FuzzParseExpiresAt(f *testing.F) {
	for _, s := range []string{"2026-01-01T00:00:00Z", "2016-12-31T23:59:60.5+23:59", "0000-02-29t00:00:00-00:00", "2026-01-01T00:00:00."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseExpiresAt(s)
		if err != nil {
			return
		}
		// The standard library refuses leap seconds and lower case, and rounds
		// down; where it reads the value too, both agree within a millisecond.
		std, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return
		}
		want := max(std.UnixMilli(), 0)
		if d := int64(got) - want; d < 0 || d > 1 {
			t.Fatalf("%q: %d, the standard library has %d", s, got, want)
		}
	})
}
