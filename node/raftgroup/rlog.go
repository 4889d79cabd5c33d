package raftgroup

import (
	"context"
	"fmt"
	"log/slog"

	"go.etcd.io/etcd/raft/v3"
)

// raftLogger maps Raft's log: its chatter is debug, its fatal errors end in
// Config.OnFatal.
type raftLogger struct {
	log     *slog.Logger
	group   GroupID
	replica uint64
}

var _ raft.Logger = (*raftLogger)(nil)

func (l *raftLogger) put(level slog.Level, text func() string) {
	if ctx := context.Background(); l.log.Enabled(ctx, level) {
		l.log.Log(ctx, level, "raft", "group", l.group, "replica", l.replica, "text", text())
	}
}

func (l *raftLogger) sprint(level slog.Level, v []any) {
	l.put(level, func() string { return fmt.Sprint(v...) })
}

func (l *raftLogger) sprintf(level slog.Level, format string, v []any) {
	l.put(level, func() string { return fmt.Sprintf(format, v...) })
}

func (l *raftLogger) Debug(v ...any)                   { l.sprint(slog.LevelDebug, v) }
func (l *raftLogger) Debugf(format string, v ...any)   { l.sprintf(slog.LevelDebug, format, v) }
func (l *raftLogger) Info(v ...any)                    { l.sprint(slog.LevelDebug, v) }
func (l *raftLogger) Infof(format string, v ...any)    { l.sprintf(slog.LevelDebug, format, v) }
func (l *raftLogger) Warning(v ...any)                 { l.sprint(slog.LevelInfo, v) }
func (l *raftLogger) Warningf(format string, v ...any) { l.sprintf(slog.LevelInfo, format, v) }
func (l *raftLogger) Error(v ...any)                   { l.sprint(slog.LevelError, v) }
func (l *raftLogger) Errorf(format string, v ...any)   { l.sprintf(slog.LevelError, format, v) }
func (l *raftLogger) Fatal(v ...any)                   { l.fatal(fmt.Sprint(v...)) }
func (l *raftLogger) Fatalf(format string, v ...any)   { l.fatal(fmt.Sprintf(format, v...)) }
func (l *raftLogger) Panic(v ...any)                   { l.fatal(fmt.Sprint(v...)) }
func (l *raftLogger) Panicf(format string, v ...any)   { l.fatal(fmt.Sprintf(format, v...)) }

func (l *raftLogger) fatal(text string) {
	panic(fatalError{fmt.Errorf("raft: group %d, replica %d: %s", l.group, l.replica, text)})
}
