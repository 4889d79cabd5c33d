package http1

import "time"

// Limits bounds what a client may cost. A zero field means its default, given
// in brackets.
type Limits struct {
	// MaxHeadBytes bounds the request line and the fields together [32 KiB];
	// beyond it the answer is 431.
	MaxHeadBytes int
	// MaxHeaders bounds the number of fields [100]; beyond it the answer is 431.
	MaxHeaders int
	// MaxTargetBytes bounds the request target [8 KiB]; beyond it the answer is 414.
	MaxTargetBytes int
	// MaxBodyBytes bounds a body until Exchange.LimitBody says otherwise [32 MiB].
	MaxBodyBytes int64

	// HeadTimeout bounds the time from a head's first byte to its last [10 s].
	HeadTimeout time.Duration
	// IdleTimeout bounds the wait for a request's first byte [120 s]. The lean
	// server rounds it down by up to a sixteenth.
	IdleTimeout time.Duration
	// BodyIdleTimeout bounds the wait for the next byte of a body [5 s].
	BodyIdleTimeout time.Duration
	// BodyGrace and MinBodyRate bound a body as a whole: n bytes may take
	// BodyGrace + n/MinBodyRate [30 s, 64 KiB/s].
	BodyGrace   time.Duration
	MinBodyRate int64
	// WriteTimeout bounds the wait for the client to take the next piece of an
	// answer [60 s]. The lean server rounds it down by up to a half.
	WriteTimeout time.Duration

	// DrainBytes and DrainTimeout bound what is read and discarded of an
	// unread body to keep its connection [256 KiB, 2 s].
	DrainBytes   int64
	DrainTimeout time.Duration
	// LingerBytes and LingerTimeout bound what is read and discarded before a
	// connection is closed whose client may still be sending: closing at once
	// would reset it, and the client would lose the answer [64 MiB, 5 s].
	LingerBytes   int64
	LingerTimeout time.Duration

	// StreamBufferBytes bounds what a StreamWriter holds between flushes [64 KiB].
	StreamBufferBytes int
	// MaxConns bounds the open connections of a Server [no bound]; beyond it a
	// new connection is answered 503 and closed.
	MaxConns int
}

func (l Limits) withDefaults() Limits {
	orInt(&l.MaxHeadBytes, 32<<10)
	orInt(&l.MaxHeaders, 100)
	orInt(&l.MaxTargetBytes, 8<<10)
	orInt(&l.MaxBodyBytes, 32<<20)
	orInt(&l.HeadTimeout, 10*time.Second)
	orInt(&l.IdleTimeout, 120*time.Second)
	orInt(&l.BodyIdleTimeout, 5*time.Second)
	orInt(&l.BodyGrace, 30*time.Second)
	orInt(&l.MinBodyRate, 64<<10)
	orInt(&l.WriteTimeout, 60*time.Second)
	orInt(&l.DrainBytes, 256<<10)
	orInt(&l.DrainTimeout, 2*time.Second)
	orInt(&l.LingerBytes, 64<<20)
	orInt(&l.LingerTimeout, 5*time.Second)
	orInt(&l.StreamBufferBytes, 64<<10)
	return l
}

func orInt[T int | int64 | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

// bodyBudget is the time that n received bytes of a body may have taken.
func (l *Limits) bodyBudget(n int64) time.Duration {
	return l.BodyGrace + time.Duration(float64(n)/float64(l.MinBodyRate)*float64(time.Second))
}
