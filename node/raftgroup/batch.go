package raftgroup

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The envelope of a proposed entry: many commands, one entry. All integers are
// little endian.
//
//	version  1 byte   1
//	replica  8 bytes  the proposer's replica id
//	nonce    8 bytes  random per start of the proposer
//	seq      8 bytes  the proposer's count of entries of this group
//	stamp    8 bytes  the leader's clock, milliseconds since the Unix epoch
//	count    4 bytes  commands, at least 1
//	count x (length 4 bytes, command)
//
// replica, nonce and seq name the entry among all entries ever proposed, so a
// proposer knows its own when they apply. An entry without data is Raft's own
// and has no envelope.
const (
	envelopeVersion = 1
	envelopeHeader  = 1 + 4*8 + 4
	commandHeader   = 4

	// MaxCommandBytes bounds one command, header and payload together.
	MaxCommandBytes = 40 << 20
	// batchBytes and batchCommands bound an entry of several commands. A
	// command above batchBytes is an entry of its own.
	batchBytes    = 1 << 20
	batchCommands = 4096
)

var errEnvelope = errors.New("malformed entry")

// envelope is the fixed part of an entry.
type envelope struct {
	replica, nonce, seq uint64
	stamp               uint64
}

// appendEnvelope starts an entry of count commands.
func appendEnvelope(dst []byte, e envelope, count int) []byte {
	dst = append(dst, envelopeVersion)
	dst = binary.LittleEndian.AppendUint64(dst, e.replica)
	dst = binary.LittleEndian.AppendUint64(dst, e.nonce)
	dst = binary.LittleEndian.AppendUint64(dst, e.seq)
	dst = binary.LittleEndian.AppendUint64(dst, e.stamp)
	return binary.LittleEndian.AppendUint32(dst, uint32(count))
}

// appendCommand adds one command, given in two parts.
func appendCommand(dst, header, payload []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(header)+len(payload)))
	dst = append(dst, header...)
	return append(dst, payload...)
}

// decodeEntry reads an entry's envelope; the commands alias data and are
// appended to cmds.
func decodeEntry(data []byte, cmds [][]byte) (envelope, [][]byte, error) {
	var e envelope
	if len(data) == 0 {
		return e, cmds, fmt.Errorf("%w: empty", errEnvelope)
	}
	if data[0] != envelopeVersion {
		return e, cmds, fmt.Errorf("entry version %d is unknown: this binary knows %d", data[0], envelopeVersion)
	}
	if len(data) < envelopeHeader {
		return e, cmds, fmt.Errorf("%w: %d bytes", errEnvelope, len(data))
	}
	e.replica = binary.LittleEndian.Uint64(data[1:])
	e.nonce = binary.LittleEndian.Uint64(data[9:])
	e.seq = binary.LittleEndian.Uint64(data[17:])
	e.stamp = binary.LittleEndian.Uint64(data[25:])
	count := binary.LittleEndian.Uint32(data[33:])
	rest := data[envelopeHeader:]
	if count == 0 || uint64(count)*commandHeader > uint64(len(rest)) {
		return e, cmds, fmt.Errorf("%w: %d commands in %d bytes", errEnvelope, count, len(rest))
	}
	for range count {
		if len(rest) < commandHeader {
			return e, cmds, fmt.Errorf("%w: truncated command", errEnvelope)
		}
		n := binary.LittleEndian.Uint32(rest)
		rest = rest[commandHeader:]
		if uint64(n) > uint64(len(rest)) {
			return e, cmds, fmt.Errorf("%w: command of %d bytes, %d left", errEnvelope, n, len(rest))
		}
		cmds = append(cmds, rest[:n:n])
		rest = rest[n:]
	}
	if len(rest) != 0 {
		return e, cmds, fmt.Errorf("%w: %d bytes after the last command", errEnvelope, len(rest))
	}
	return e, cmds, nil
}
