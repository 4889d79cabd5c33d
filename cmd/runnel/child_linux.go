package main

import "syscall"

// childAttributes keep terminal signals from a node, which this process ends in
// order, and end it when this process is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
