package streamhttp

import "time"

// Config bounds what the client plane takes at once. Zero values take the
// defaults.
type Config struct {
	// LiveReaders bounds the long-polls and SSE reads that are open at one time
	// (default 20,000). Above it: 503 LIVE_READ_BACKPRESSURE.
	LiveReaders int64
	// BodyBytes bounds the request body bytes held in memory (default 256 MiB,
	// at least one largest request). Above it: 503
	// INGRESS_BODY_BYTES_LIMIT_REACHED, before the body is read.
	BodyBytes int64
	// ReadBytes bounds the response bytes held in memory (default 256 MiB).
	// When it runs short, answers get shorter: they stay correct, because a
	// shortened answer never says that it is up to date.
	ReadBytes int64
	// WriteTimeout bounds one write's proposal (default 10 s). After it the
	// answer is OUTCOME_UNKNOWN.
	WriteTimeout time.Duration
	// ConfirmTimeout bounds one leadership confirmation (default 3 s).
	ConfirmTimeout time.Duration
	// FlushTimeout is how long an SSE reader may take to accept one flush
	// before it is cut (default 30 s).
	FlushTimeout time.Duration
}

func (c Config) withDefaults() Config {
	if c.LiveReaders <= 0 {
		c.LiveReaders = 20_000
	}
	if c.BodyBytes <= 0 {
		c.BodyBytes = 256 << 20
	}
	if c.ReadBytes <= 0 {
		c.ReadBytes = 256 << 20
	}
	if c.WriteTimeout <= 0 {
		c.WriteTimeout = 10 * time.Second
	}
	if c.ConfirmTimeout <= 0 {
		c.ConfirmTimeout = 3 * time.Second
	}
	if c.FlushTimeout <= 0 {
		c.FlushTimeout = 30 * time.Second
	}
	return c
}
