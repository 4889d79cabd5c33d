package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// usage is the CPU time and the memory of the server's processes.
type usage struct {
	cpu time.Duration
	rss int64 // bytes
}

// clockTick is the kernel's USER_HZ, 100 on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// readUsage adds up the processes. Linux only.
func readUsage(pids []int) (usage, error) {
	var u usage
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid)
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			return u, fmt.Errorf("usage of process %d: %w", pid, err)
		}
		cpu, pages, err := parseStat(stat)
		if err != nil {
			return u, fmt.Errorf("usage of process %d: %w", pid, err)
		}
		u.cpu += cpu
		u.rss += pages * int64(os.Getpagesize())
	}
	return u, nil
}

// parseStat reads utime, stime and rss of proc_pid_stat(5). The command's name
// may hold spaces and parentheses, so fields count from its last parenthesis.
func parseStat(stat []byte) (cpu time.Duration, pages int64, err error) {
	i := bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[i+1:])
	if i < 0 || len(fields) < 22 {
		return 0, 0, fmt.Errorf("unexpected stat %q", stat)
	}
	var v [3]int64
	for n, at := range []int{11, 12, 21} {
		if v[n], err = strconv.ParseInt(string(fields[at]), 10, 64); err != nil {
			return 0, 0, err
		}
	}
	return time.Duration(v[0]+v[1]) * clockTick, v[2], nil
}
