package protocol

import (
	"strconv"
	"testing"
	"time"
)

func TestCursor(t *testing.T) {
	epoch := time.Date(2024, 10, 9, 0, 0, 0, 0, time.UTC)
	least := func(int) int { return 0 }
	most := func(n int) int { return n - 1 }
	tests := []struct {
		name      string
		now       time.Time
		requested string
		jitter    func(int) int
		want      uint64
	}{
		{"whole intervals since the epoch", epoch.Add(1000*20*time.Second + 19*time.Second), "", least, 1000},
		{"the epoch itself", epoch, "", least, 0},
		{"a clock before the epoch", epoch.Add(-time.Hour), "", least, 0},
		{"another time zone", epoch.Add(20 * time.Second).In(time.FixedZone("", 3600)), "", least, 1},
		{"a request behind", epoch.Add(100 * time.Second), "4", most, 5},
		{"row 137: a request at the current interval, least jitter", epoch.Add(100 * time.Second), "5", least, 6},
		{"row 137: a request at the current interval, most jitter", epoch.Add(100 * time.Second), "5", most, 185},
		{"a request ahead", epoch.Add(100 * time.Second), "77", least, 78},
		{"jitter of 39 s is one interval", epoch, "7", func(int) int { return 38 }, 8},
		{"jitter of 40 s is two intervals", epoch, "7", func(int) int { return 39 }, 9},
		{"a malformed request", epoch.Add(100 * time.Second), "abc", most, 5},
		{"a negative request", epoch.Add(100 * time.Second), "-9", most, 5},
		{"an absurd request", epoch.Add(100 * time.Second), "99999999999999999999999", most, 5},
		{"the largest request that still has a successor", epoch, strconv.Itoa(MaxInteger - 3600), most, MaxInteger - 3600 + 180},
		{"one beyond it", epoch, strconv.Itoa(MaxInteger - 3599), most, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Cursor(tt.now, tt.requested, tt.jitter); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
