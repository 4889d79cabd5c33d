package basestore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"runnel.dev/runnel/node/stream"
)

// blockBytes is the size of a block. Block n of a stream holds its bytes
// [n*blockBytes, (n+1)*blockBytes); an append merges its bytes to the end of
// the last block and begins the next when it crosses the boundary.
const blockBytes = 64 << 10

// appendBlocks adds bytes at offset to a batch.
func appendBlocks(b *pebble.Batch, key []byte, g *group, a stream.Append) []byte {
	offset, data := a.Offset, a.Data
	for len(data) > 0 {
		block, at := offset/blockBytes, offset%blockBytes
		n := min(uint64(len(data)), blockBytes-at)
		key = appendBlockKey(key[:0], g.replica.Group, g.generation, a.Stream, block)
		must(b.Merge(key, data[:n], nil))
		offset, data = offset+n, data[n:]
	}
	return key
}

// ReadBytes appends the bytes [from, to) of a stream to dst, all of them or
// none. Errors: ErrNoReplica, ErrGone.
func (s *Store) ReadBytes(dst []byte, group uint32, id stream.ID, from, to uint64) ([]byte, error) {
	g, err := s.group(group)
	if err != nil || from >= to {
		return dst, err
	}
	if out, ok := s.tails.read(dst, tailKey{group, id}, from, to); ok {
		return out, nil
	}
	out := dst
	err = s.reading(g, func() (err error) {
		out, err = s.readBlocks(dst, g, id, from, to)
		return err
	})
	if err != nil {
		return dst, err
	}
	return out, nil
}

func (s *Store) readBlocks(dst []byte, g *group, id stream.ID, from, to uint64) ([]byte, error) {
	// What is asked for is there as a rule, but a range past the tail may be any.
	dst = slices.Grow(dst, int(min(to-from, 4<<20)))
	var key []byte
	for from < to {
		block, at := from/blockBytes, from%blockBytes
		key = appendBlockKey(key[:0], g.replica.Group, g.generation, id, block)
		v, closer, err := s.db.Get(key)
		if errors.Is(err, pebble.ErrNotFound) {
			return nil, fmt.Errorf("stream %d of group %d: %w", id, g.replica.Group, ErrGone)
		}
		if err != nil {
			return nil, fmt.Errorf("read stream %d of group %d: %w", id, g.replica.Group, err)
		}
		end := min(to-block*blockBytes, blockBytes)
		short := uint64(len(v)) < end
		if !short {
			dst = append(dst, v[at:end]...)
		}
		if err := closer.Close(); err != nil {
			return nil, fmt.Errorf("read stream %d of group %d: %w", id, g.replica.Group, err)
		}
		if short {
			return nil, fmt.Errorf("stream %d of group %d: %w: block %d ends at %d, before %d", id, g.replica.Group, ErrGone, block, len(v), end)
		}
		from = block*blockBytes + end
	}
	return dst, nil
}

// removeBlocks deletes all bytes of a stream. A few blocks are deleted one by
// one: every range tombstone in a memtable costs each reader of it.
func removeBlocks(b *pebble.Batch, g *group, rec *stream.Stream) {
	const few = 8
	if rec.Tail == 0 {
		return
	}
	first, last := rec.Retained/blockBytes, (rec.Tail-1)/blockBytes
	if last-first < few {
		for n := first; n <= last; n++ {
			must(b.Delete(appendBlockKey(nil, g.replica.Group, g.generation, rec.ID, n), nil))
		}
		return
	}
	removeStreamKind(b, g, kindBytes, rec.ID)
}

// removeStreamKind deletes all keys of one kind of a stream.
func removeStreamKind(b *pebble.Batch, g *group, kind byte, id stream.ID) {
	start := appendStreamKind(nil, g.replica.Group, g.generation, kind, id)
	must(b.DeleteRange(start, prefixEnd(start), nil))
}
