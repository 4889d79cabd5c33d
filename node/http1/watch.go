package http1

import "time"

// watch notices that the client goes away while a handler waits. It reads ahead
// into the connection's buffer: what comes is the next request, an error is the
// client's leave. Behind a full buffer no leave can be read, so the client then
// counts as gone after the idle timeout: a handler that waits for ever must not
// wait for nobody.
type watch struct {
	done   chan struct{}
	exited chan struct{} // nil while no watcher runs
	stop   chan struct{} // closed to end the watcher
	gone   bool          // set before exited is closed
}

var longAgo = time.Unix(1, 0)

func (e *exchange) Done() <-chan struct{} {
	w := &e.watch
	if w.done == nil {
		w.done = make(chan struct{})
		// The handler is about to wait: earlier answers must not wait with it.
		if e.c.writeErr == nil && !e.answered {
			_ = e.c.flush()
		}
		if e.body.atEnd() {
			e.startWatch()
		}
	}
	return w.done
}

// bodyEnded begins a watch that was asked for before the body was read.
func (e *exchange) bodyEnded() {
	if e.watch.done != nil && e.watch.exited == nil {
		e.startWatch()
	}
}

func (e *exchange) startWatch() {
	c, w := e.c, &e.watch
	c.makeRoom()
	w.exited = make(chan struct{})
	w.stop = make(chan struct{})
	c.readArmed = time.Time{}
	c.nc.SetReadDeadline(time.Time{})
	go w.run(c)
}

func (w *watch) run(c *conn) {
	defer close(w.exited)
	s := c.s
	for s.w < len(s.in) {
		n, err := c.nc.Read(s.in[s.w:])
		s.w += n
		if err != nil {
			select {
			case <-w.stop: // stopWatch ended the read
			default:
				w.leave()
			}
			return
		}
	}
	t := time.NewTimer(c.srv.limits.IdleTimeout)
	defer t.Stop()
	select {
	case <-w.stop:
	case <-t.C:
		w.leave()
	}
}

func (w *watch) leave() {
	w.gone = true
	close(w.done)
}

// stopWatch ends the watch and reports whether the client is gone. After it the
// buffer is the connection's again.
func (e *exchange) stopWatch() (gone bool) {
	w := &e.watch
	if w.exited != nil {
		close(w.stop)
		e.c.nc.SetReadDeadline(longAgo)
		<-w.exited
		e.c.readArmed = time.Time{}
		gone = w.gone
	}
	*w = watch{}
	return gone
}
