package protocol

// FNV-1a, 64 bits.
const (
	fnvOffset = 0xcbf29ce484222325
	fnvPrime  = 0x100000001b3
)

// KeyHash is the hash that routes a stream: FNV-1a over bucket, a slash and
// stream, then the finalizer of MurmurHash3, without which the low bits of FNV
// depend on few bits of the key. It is part of the data's format
// (docs/formats/routing.md): changing it moves every stream.
func KeyHash(bucket, stream string) uint64 {
	h := uint64(fnvOffset)
	for i := 0; i < len(bucket); i++ {
		h = (h ^ uint64(bucket[i])) * fnvPrime
	}
	h = (h ^ '/') * fnvPrime
	for i := 0; i < len(stream); i++ {
		h = (h ^ uint64(stream[i])) * fnvPrime
	}
	return mix64(h)
}

// GroupOf is the group of a stream in a cluster of groups groups, at least 1:
// a value below groups.
func GroupOf(bucket, stream string, groups uint32) uint32 {
	return uint32(KeyHash(bucket, stream) % uint64(groups))
}

// mix64 is MurmurHash3's 64-bit finalizer, a bijection.
func mix64(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return h
}
