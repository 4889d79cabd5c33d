package transport

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"strconv"
	"time"
)

// protocolVersion covers the handshake and the frames. A node speaks exactly
// one; a change of any byte raises it.
const protocolVersion = 1

// kind is what a connection is for.
type kind uint8

const (
	kindBulk kind = 1
	kindBeat kind = 2
)

func (k kind) String() string {
	switch k {
	case kindBulk:
		return "bulk"
	case kindBeat:
		return "beat"
	}
	return "kind " + strconv.Itoa(int(k))
}

// status is the accepting side's verdict.
type status uint8

const (
	statusOK           status = 0
	statusWrongCluster status = 1
	statusWrongNode    status = 2
	statusVersion      status = 3
	statusBusy         status = 4
	statusProtocol     status = 5
)

func (s status) err() error {
	switch s {
	case statusWrongCluster:
		return ErrWrongCluster
	case statusWrongNode:
		return ErrWrongNode
	case statusVersion:
		return ErrVersion
	case statusBusy:
		return ErrBusy
	}
	return ErrProtocol
}

const (
	helloMagic   = "RnlH"
	welcomeMagic = "RnlW"

	maxClusterID = 64
	// greetingHead is the fixed part of both greetings: magic, version, code,
	// reserved, from, to, clock, length of the cluster id.
	greetingHead = 4 + 2 + 1 + 1 + 8 + 8 + 8 + 1
	greetingSum  = 4
)

// greeting is the first thing each side says. Code is the connection's kind in
// a hello and the verdict in a welcome.
type greeting struct {
	Version uint16
	Code    uint8
	From    uint64
	To      uint64
	Clock   int64 // ms since the Unix epoch
	Cluster string
}

func (g greeting) encode(magic string) []byte {
	b := make([]byte, 0, greetingHead+maxClusterID+greetingSum)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint16(b, g.Version)
	b = append(b, g.Code, 0)
	b = binary.LittleEndian.AppendUint64(b, g.From)
	b = binary.LittleEndian.AppendUint64(b, g.To)
	b = binary.LittleEndian.AppendUint64(b, uint64(g.Clock))
	b = append(b, byte(len(g.Cluster)))
	b = append(b, g.Cluster...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// readGreeting reads no byte more than the greeting has.
func readGreeting(r io.Reader, magic string) (greeting, error) {
	var b [greetingHead + maxClusterID + greetingSum]byte
	// The magic first: whoever sends something else may be waiting for us.
	if _, err := io.ReadFull(r, b[:len(magic)]); err != nil {
		return greeting{}, fmt.Errorf("read greeting: %w", err)
	}
	if string(b[:len(magic)]) != magic {
		return greeting{}, protocolError("greeting begins with %q", b[:len(magic)])
	}
	if _, err := io.ReadFull(r, b[len(magic):greetingHead]); err != nil {
		return greeting{}, fmt.Errorf("read greeting: %w", err)
	}
	n := int(b[greetingHead-1])
	if n > maxClusterID {
		return greeting{}, protocolError("cluster id of %d bytes", n)
	}
	end := greetingHead + n
	if _, err := io.ReadFull(r, b[greetingHead:end+greetingSum]); err != nil {
		return greeting{}, fmt.Errorf("read greeting: %w", err)
	}
	if crc32.Checksum(b[:end], castagnoli) != binary.LittleEndian.Uint32(b[end:]) {
		return greeting{}, protocolError("greeting with a wrong checksum")
	}
	return greeting{
		Version: binary.LittleEndian.Uint16(b[4:]),
		Code:    b[6],
		From:    binary.LittleEndian.Uint64(b[8:]),
		To:      binary.LittleEndian.Uint64(b[16:]),
		Clock:   int64(binary.LittleEndian.Uint64(b[24:])),
		Cluster: string(b[greetingHead:end]),
	}, nil
}

// greet is the dialing side of the handshake.
func (t *Transport) greet(conn net.Conn, node uint64, k kind) (greeting, error) {
	if err := conn.SetDeadline(time.Now().Add(t.timing.handshake)); err != nil {
		return greeting{}, err
	}
	hello := greeting{
		Version: protocolVersion, Code: uint8(k), From: t.cfg.Node, To: node,
		Clock: t.cfg.Clock().UnixMilli(), Cluster: t.cfg.Cluster,
	}
	if _, err := conn.Write(hello.encode(helloMagic)); err != nil {
		return greeting{}, fmt.Errorf("send greeting: %w", err)
	}
	w, err := readGreeting(conn, welcomeMagic)
	if err != nil {
		return greeting{}, err
	}
	refused := func(reason error) error {
		return &HandshakeError{
			Err: reason, Remote: conn.RemoteAddr().String(),
			Want: identity(t.cfg.Cluster, node, protocolVersion),
			Got:  identity(w.Cluster, w.From, w.Version),
		}
	}
	switch {
	case status(w.Code) != statusOK:
		return greeting{}, refused(status(w.Code).err())
	case w.Version != protocolVersion:
		return greeting{}, refused(ErrVersion)
	case w.Cluster != t.cfg.Cluster:
		return greeting{}, refused(ErrWrongCluster)
	case w.From != node || w.To != t.cfg.Node:
		return greeting{}, refused(ErrWrongNode)
	}
	return w, conn.SetDeadline(time.Time{})
}

// welcome is the accepting side. A refusal is told to the peer before the
// error is returned, so that both logs name the reason.
func (t *Transport) welcome(conn net.Conn) (greeting, error) {
	if err := conn.SetDeadline(time.Now().Add(t.timing.handshake)); err != nil {
		return greeting{}, err
	}
	hello, err := readGreeting(conn, helloMagic)
	if err != nil {
		return greeting{}, err
	}
	verdict := t.judge(hello)
	answer := greeting{
		Version: protocolVersion, Code: uint8(verdict), From: t.cfg.Node, To: hello.From,
		Clock: t.cfg.Clock().UnixMilli(), Cluster: t.cfg.Cluster,
	}
	_, err = conn.Write(answer.encode(welcomeMagic))
	if verdict != statusOK {
		return greeting{}, &HandshakeError{
			Err: verdict.err(), Remote: conn.RemoteAddr().String(),
			Want: identity(t.cfg.Cluster, t.cfg.Node, protocolVersion) + " to be addressed",
			Got:  identity(hello.Cluster, hello.To, hello.Version),
		}
	}
	if err != nil {
		return greeting{}, fmt.Errorf("answer greeting: %w", err)
	}
	return hello, conn.SetDeadline(time.Time{})
}

func (t *Transport) judge(hello greeting) status {
	k := kind(hello.Code)
	switch {
	case hello.Version != protocolVersion:
		return statusVersion
	case hello.Cluster != t.cfg.Cluster:
		return statusWrongCluster
	case hello.To != t.cfg.Node, hello.From == t.cfg.Node, hello.From == 0:
		return statusWrongNode
	case k != kindBulk && k != kindBeat:
		return statusProtocol
	case !t.roomFor(inboundKey{node: hello.From, kind: k}):
		return statusBusy
	}
	return statusOK
}

func identity(cluster string, node uint64, version uint16) string {
	return fmt.Sprintf("cluster %q node %d version %d", cluster, node, version)
}
