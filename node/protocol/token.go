package protocol

const (
	tokenBase  = 1 << 52
	tokenMask  = tokenBase - 1
	halfBits   = 26
	halfMask   = 1<<halfBits - 1
	tokenRound = 4
)

// Token returns the incarnation token of a stream: a value in [2^52, 2^53),
// exact as a JavaScript Number and always 16 decimal digits. created is the
// stream's creation stamp, which rises strictly within a group, and history the
// group's history id. For one history the token is a bijection of created (mod
// 2^52), so two incarnations never share one; another history permutes the
// stamps in another way, so a rewrite changes every token of the group.
//
// The permutation is a Feistel network of 4 rounds over two halves of 26 bits;
// see docs/formats/routing.md. It hides nothing.
func Token(created, history uint64) uint64 {
	left, right := created&tokenMask>>halfBits, created&halfMask
	for round := range uint64(tokenRound) {
		left, right = right, left^tokenMix(right, history, round)
	}
	return tokenBase | left<<halfBits | right
}

// tokenMix is the round function: 26 bits of a half, the round and the key.
func tokenMix(half, history, round uint64) uint64 {
	return mix64(history+mix64(half|round<<halfBits)) & halfMask
}
