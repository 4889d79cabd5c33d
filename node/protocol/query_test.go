package protocol

import (
	"testing"
	"time"
)

func TestParseLive(t *testing.T) {
	tests := []struct {
		values []string
		want   Live
		code   Code
	}{
		{nil, NotLive, ""},
		{[]string{"sse"}, SSE, ""},
		{[]string{"long-poll"}, LongPoll, ""},
		{[]string{"foo"}, NotLive, CodeInvalidQuery}, // row 118
		{[]string{""}, NotLive, CodeInvalidQuery},
		{[]string{"SSE"}, NotLive, CodeInvalidQuery},
		{[]string{"sse", "sse"}, NotLive, CodeInvalidQuery},
	}
	for _, tt := range tests {
		got, err := ParseLive(tt.values)
		if got != tt.want || codeOf(t, err) != tt.code {
			t.Errorf("%q: %v, %v", tt.values, got, err)
		}
	}
}

func TestParseConsistency(t *testing.T) {
	// Row 120.
	tests := []struct {
		values []string
		want   Consistency
		code   Code
	}{
		{nil, LocalRead, ""},
		{[]string{"local"}, LocalRead, ""},
		{[]string{"leader"}, LeaderRead, ""},
		{[]string{"strong"}, LocalRead, CodeInvalidQuery},
		{[]string{""}, LocalRead, CodeInvalidQuery},
		{[]string{"leader", "leader"}, LocalRead, CodeInvalidQuery},
	}
	for _, tt := range tests {
		got, err := ParseConsistency(tt.values)
		if got != tt.want || codeOf(t, err) != tt.code {
			t.Errorf("%q: %v, %v", tt.values, got, err)
		}
	}
}

func TestValidRead(t *testing.T) {
	absent, given := Position{}, Position{Given: true}
	tests := []struct {
		name        string
		live        Live
		consistency Consistency
		position    Position
		code        Code
	}{
		{"catch-up without an offset", NotLive, LocalRead, absent, ""},
		{"row 120: catch-up from the leader", NotLive, LeaderRead, absent, ""},
		{"row 119: SSE without an offset", SSE, LocalRead, absent, CodeInvalidOffset},
		{"row 119: long-poll without an offset", LongPoll, LocalRead, absent, CodeInvalidOffset},
		{"row 120: leader and live", SSE, LeaderRead, given, CodeInvalidQuery},
		{"row 120: local and live", SSE, LocalRead, given, ""},
		{"long-poll", LongPoll, LocalRead, given, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if code := codeOf(t, ValidRead(tt.live, tt.consistency, tt.position)); code != tt.code {
				t.Errorf("got %q", code)
			}
		})
	}
}

func TestParseMaxBytes(t *testing.T) {
	tests := []struct {
		values []string
		want   int
	}{
		{nil, ReadCap},
		{[]string{"10"}, 10}, // row 123
		{[]string{"010"}, 10},
		{[]string{"abc"}, ReadCap}, // row 124
		{[]string{"-1"}, ReadCap},  // row 124
		{[]string{"1.5"}, ReadCap}, // row 124
		{[]string{"+5"}, ReadCap},
		{[]string{""}, ReadCap},
		{[]string{"0"}, 1}, // row 125
		{[]string{"8388608"}, ReadCap},
		{[]string{"8388609"}, ReadCap},
		{[]string{"8388607"}, ReadCap - 1},
		{[]string{"99999999999999999999999999"}, ReadCap},
		{[]string{"1", "2"}, ReadCap},
	}
	for _, tt := range tests {
		if got := ParseMaxBytes(tt.values); got != tt.want {
			t.Errorf("%q: %d, want %d", tt.values, got, tt.want)
		}
	}
}

func TestParseTimeout(t *testing.T) {
	tests := []struct {
		values []string
		want   time.Duration
	}{
		{nil, time.Second},
		{[]string{"abc"}, time.Second}, // row 135
		{[]string{""}, time.Second},
		{[]string{"-5"}, time.Second},
		{[]string{"0"}, time.Millisecond}, // row 135
		{[]string{"999999"}, time.Minute}, // row 135
		{[]string{"60000"}, time.Minute},
		{[]string{"1500"}, 1500 * time.Millisecond},
		{[]string{"99999999999999999999999999"}, time.Minute},
		{[]string{"5", "5"}, time.Second},
	}
	for _, tt := range tests {
		if got := ParseTimeout(tt.values); got != tt.want {
			t.Errorf("%q: %v, want %v", tt.values, got, tt.want)
		}
	}
}

func TestRefusedReadParams(t *testing.T) {
	for _, name := range []string{"incarnation", "aligned", "record", "tail_records", "max_records", "record_view", "stream-cursor"} {
		if !RefusedReadParam(name) {
			t.Errorf("%s is not refused", name)
		}
	}
	for _, name := range []string{"offset", "live", "cursor", "consistency", "max_bytes", "timeout_ms", "foo", ""} {
		if RefusedReadParam(name) {
			t.Errorf("%s is refused", name)
		}
	}
	if code := codeOf(t, ErrReadParam); code != CodeInvalidQuery {
		t.Errorf("refused with %q", code)
	}
}
