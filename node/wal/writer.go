package wal

import (
	"sync"
	"time"
)

// idleConfirm is how long the log is quiet before its last batch is confirmed.
const idleConfirm = time.Second

// Writer flushes a Log: what arrives while one round syncs is the next round.
type Writer struct {
	log  *Log
	stop chan struct{}
	done chan struct{}
	once sync.Once
}

// StartWriter starts the goroutine that flushes l. onFatal is called at most
// once, with the first error, by that goroutine; the process must then stop.
// Until Stop, what is still enqueued ends with that error.
func StartWriter(l *Log, onFatal func(error)) *Writer {
	w := &Writer{log: l, stop: make(chan struct{}), done: make(chan struct{})}
	go w.run(onFatal)
	return w
}

// Stop writes what is queued and ends the goroutine.
func (w *Writer) Stop() {
	w.once.Do(func() { close(w.stop) })
	<-w.done
}

func (w *Writer) run(onFatal func(error)) {
	defer close(w.done)
	fatal := func(err error) {
		if err != nil && onFatal != nil {
			onFatal(err)
			onFatal = nil
		}
	}
	idle := time.NewTimer(idleConfirm)
	defer idle.Stop()
	for stopping := false; !stopping; {
		select {
		case <-w.log.wake:
			idle.Reset(idleConfirm)
		case <-idle.C:
			fatal(w.log.Confirm())
		case <-w.stop:
			stopping = true
		}
		for w.log.Pending() {
			_, err := w.log.Flush()
			fatal(err)
		}
	}
}
