package basestore

import (
	"encoding/binary"
	"fmt"
	"strings"

	"runnel.dev/runnel/node/stream"
)

// Keys, big endian so that byte order is numeric order:
//
//	01 local kind | …                                node-local facts
//	02 group:4 | 00000000 | head kind                the replica's head
//	02 group:4 | generation:4 | kind | …             a generation's state
//
// The head and every generation of a group lie in the one range [02 group,
// 02 group+1), so a view, an ingest or an excise of that range carries the
// state and the C it belongs to. The generation pointer is in the head and so
// outside of every generation's range: flipping it replaces the state at once.
const (
	spaceLocal = 0x01
	spaceGroup = 0x02

	localFormat    = 0x01
	localFact      = 0x02
	localBorn      = 0x03
	localTombstone = 0x04

	headGeneration = 0 // the generation number that no state uses
	headApplied    = 0x01
	headConf       = 0x02
	headPointer    = 0x03

	kindGroup    = 0x01
	kindName     = 0x10
	kindStream   = 0x11
	kindProducer = 0x12
	kindBytes    = 0x13
	kindBlob     = 0x14

	firstGeneration = 1

	bornGroupLen = 2 + 4 // of a born record's key, before the replica id
)

func formatKey() []byte { return []byte{spaceLocal, localFormat} }

func factKey(name string) []byte {
	return append([]byte{spaceLocal, localFact}, name...)
}

func bornKey(r Replica) []byte {
	k := binary.BigEndian.AppendUint32([]byte{spaceLocal, localBorn}, r.Group)
	return binary.BigEndian.AppendUint64(k, r.ID)
}

func tombstoneKey(group uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{spaceLocal, localTombstone}, group)
}

func appendKind(dst []byte, group, generation uint32, kind byte) []byte {
	dst = append(dst, spaceGroup)
	dst = binary.BigEndian.AppendUint32(dst, group)
	dst = binary.BigEndian.AppendUint32(dst, generation)
	return append(dst, kind)
}

func headKey(group uint32, kind byte) []byte {
	return appendKind(nil, group, headGeneration, kind)
}

func appendName(dst []byte, group, generation uint32, key stream.Key) []byte {
	dst = appendKind(dst, group, generation, kindName)
	dst = append(dst, key.Bucket...)
	dst = append(dst, 0)
	return append(dst, key.Stream...)
}

func appendStreamKind(dst []byte, group, generation uint32, kind byte, id stream.ID) []byte {
	dst = appendKind(dst, group, generation, kind)
	return binary.BigEndian.AppendUint64(dst, uint64(id))
}

func appendProducerKey(dst []byte, group, generation uint32, id stream.ID, producer string) []byte {
	return append(appendStreamKind(dst, group, generation, kindProducer, id), producer...)
}

func appendBlockKey(dst []byte, group, generation uint32, id stream.ID, block uint64) []byte {
	dst = appendStreamKind(dst, group, generation, kindBytes, id)
	return binary.BigEndian.AppendUint64(dst, block)
}

func appendBlobKey(dst []byte, group, generation uint32, key []byte) []byte {
	return append(appendKind(dst, group, generation, kindBlob), key...)
}

// groupSpan returns the range that holds everything of a group's replica.
func groupSpan(group uint32) (start, end []byte) {
	start = binary.BigEndian.AppendUint32([]byte{spaceGroup}, group)
	return start, prefixEnd(start)
}

// prefixEnd returns the first key after all keys that begin with prefix.
func prefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		end[i]++
		if end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// checkKey refuses names whose index key would be ambiguous.
func checkKey(key stream.Key) error {
	if strings.IndexByte(key.Bucket, 0) >= 0 {
		return fmt.Errorf("bucket %q holds a zero byte", key.Bucket)
	}
	return nil
}
