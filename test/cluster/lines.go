package cluster

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// errTail says that a live reader was given other bytes than its position says.
var errTail = errors.New("live reader's position does not fit its bytes")

type lines struct{ r *bufio.Reader }

func newLines(r io.Reader) *lines { return &lines{bufio.NewReader(r)} }

func (l *lines) next() (string, error) {
	s, err := l.r.ReadString('\n')
	return strings.TrimSuffix(s, "\n"), err
}
