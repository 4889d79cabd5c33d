//go:build unix && !linux

package main

import "syscall"

// childAttributes keep terminal signals from a node, which this process ends in
// order. A node outlives this process when that is killed with SIGKILL.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
