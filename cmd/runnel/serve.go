package main

import (
	"context"
	"fmt"
	"time"

	"runnel.dev/runnel/node"
)

// shutdownTimeout bounds a graceful end. A node that misses it loses nothing:
// what was acknowledged is in its log.
const shutdownTimeout = 15 * time.Second

// serve runs a node until a signal or a fault of its storage. ready is called
// once it has started.
func serve(ctx context.Context, cfg node.Config, ready func(context.Context, *node.Node) error) error {
	fault := make(chan error, 1)
	cfg.OnFatal = func(err error) { fault <- err }
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return err
	}
	var cause error
	if ready != nil {
		cause = ready(ctx, n)
	}
	if cause == nil {
		select {
		case <-ctx.Done():
		case err := <-fault:
			// Nothing may be acknowledged after an I/O error: no grace, no sync.
			return fmt.Errorf("stopped: %w", err)
		}
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := n.Shutdown(end); cause == nil {
		cause = err
	}
	return cause
}
