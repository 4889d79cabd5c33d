package basestore

import (
	"fmt"
	"log/slog"
)

// pebbleLogger takes Pebble's log lines at debug level and its fatal errors to
// the store. Fatalf must not return: Pebble would go on as if nothing had
// happened.
type pebbleLogger struct {
	log  *slog.Logger
	fail func(error)
}

func (l *pebbleLogger) Infof(format string, args ...any) {
	l.log.Debug(fmt.Sprintf(format, args...), "from", "pebble")
}

func (l *pebbleLogger) Errorf(format string, args ...any) {
	l.log.Debug(fmt.Sprintf(format, args...), "from", "pebble")
}

func (l *pebbleLogger) Fatalf(format string, args ...any) {
	l.fail(fmt.Errorf(format, args...))
	park()
}
