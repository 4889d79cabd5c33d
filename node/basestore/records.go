package basestore

import (
	"unsafe"

	"runnel.dev/runnel/node/stream"
)

// recordKey names a cached record: a stream by name, the name of a stream id
// (which never changes), or a producer.
type recordKey struct {
	group uint32
	kind  byte
	id    stream.ID
	a, b  string
}

func nameKey(group uint32, k stream.Key) recordKey {
	return recordKey{group: group, kind: kindName, a: k.Bucket, b: k.Stream}
}

func idKey(group uint32, id stream.ID) recordKey {
	return recordKey{group: group, kind: kindStream, id: id}
}

func producerKey(group uint32, id stream.ID, producer string) recordKey {
	return recordKey{group: group, kind: kindProducer, id: id, a: producer}
}

// record is one cached value; all pointers nil says that there is none.
type record struct {
	stream   *stream.Stream
	name     *stream.Key
	producer *stream.Producer
}

// cost is what the record points to, its key's strings included, in bytes.
func (r record) cost(k recordKey) int64 {
	n := int64(len(k.a) + len(k.b))
	if s := r.stream; s != nil {
		n += int64(unsafe.Sizeof(*s)) + int64(len(s.ContentType)+len(s.Seq)+len(s.Expiry.AtText))
		if s.Predecessor != nil {
			n += int64(unsafe.Sizeof(*s.Predecessor))
		}
	}
	if r.name != nil {
		n += int64(unsafe.Sizeof(*r.name)) + int64(len(r.name.Bucket)+len(r.name.Stream))
	}
	if r.producer != nil {
		n += int64(unsafe.Sizeof(*r.producer))
	}
	return n
}

// records caches stream and producer records, absence included. Only a commit
// and a load after a miss change it.
type records struct {
	*clock[recordKey, record]
}

func newRecords(bound int64) *records {
	return &records{newClock[recordKey, record](bound)}
}

func (c *records) put(k recordKey, r record) { c.set(k, r, r.cost(k)) }

func (c *records) loaded(k recordKey, token uint64, r record) record {
	return c.fill(k, token, r, r.cost(k))
}

func (c *records) dropGroup(group uint32) {
	c.dropIf(func(k recordKey) bool { return k.group == group })
}
