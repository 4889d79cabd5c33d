package transport

import (
	"bufio"
	"io"
	"net"
	"time"
)

// reader reads frames off one connection. Silence, a frame that does not end
// in time and anything malformed end the connection.
type reader struct {
	conn    net.Conn
	buffer  *bufio.Reader
	frame   frameBuffer
	asm     assembler
	silence time.Duration // longest wait for the next frame
	body    time.Duration // longest wait for the rest of a frame
	cluster uint64
	sender  uint64
}

func (t *Transport) newReader(conn net.Conn, sender uint64, silence time.Duration) *reader {
	return &reader{
		conn: conn, buffer: bufio.NewReaderSize(conn, 32<<10),
		asm: assembler{limit: t.cfg.MaxMessage}, silence: silence, body: t.timing.body,
		cluster: t.fingerprint, sender: sender,
	}
}

// next returns the next frame's envelope, its messages and its size in bytes.
// The messages belong to the caller.
func (r *reader) next() (envelope, []Message, int, error) {
	if err := r.conn.SetReadDeadline(time.Now().Add(r.silence)); err != nil {
		return envelope{}, nil, 0, err
	}
	var prefix [prefixBytes]byte
	if _, err := io.ReadFull(r.buffer, prefix[:]); err != nil {
		return envelope{}, nil, 0, err
	}
	length, sum, err := parsePrefix(prefix[:])
	if err != nil {
		return envelope{}, nil, 0, err
	}
	if length > r.buffer.Buffered() {
		if err := r.conn.SetReadDeadline(time.Now().Add(r.body)); err != nil {
			return envelope{}, nil, 0, err
		}
	}
	defer r.frame.release()
	body := r.frame.get(length)[:length]
	if _, err := io.ReadFull(r.buffer, body); err != nil {
		return envelope{}, nil, 0, err
	}
	e, items, err := parseEnvelope(body, sum)
	if err != nil {
		return envelope{}, nil, 0, err
	}
	// The handshake said who this is; a frame that says otherwise was
	// misrouted, or its sender changed its identity.
	if e.Cluster != r.cluster {
		return envelope{}, nil, 0, ErrWrongCluster
	}
	if e.Sender != r.sender {
		return envelope{}, nil, 0, ErrWrongNode
	}
	msgs, err := decodeItems(e, items, &r.asm)
	return e, msgs, prefixBytes + length, err
}
