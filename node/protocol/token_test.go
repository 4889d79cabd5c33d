package protocol

import (
	"math"
	"math/rand/v2"
	"testing"
)

// created inverts Token: the creation stamp mod 2^52.
func created(token, history uint64) uint64 {
	left, right := token&tokenMask>>halfBits, token&halfMask
	for round := tokenRound - 1; round >= 0; round-- {
		left, right = right^tokenMix(left, history, uint64(round)), left
	}
	return left<<halfBits | right
}

// The vectors of docs/formats/routing.md: clients keep tokens.
func TestTokenVectors(t *testing.T) {
	tests := []struct{ created, history, want uint64 }{
		{0, 0, 7930147820876541},
		{1, 0, 6195594903203170},
		{1767225600000, 0, 6376006194261283},
		{1767225600000, 1, 5796466100721087},
		{1767225600001, 1, 6630086456856117},
		{1<<52 - 1, math.MaxUint64, 5335084007812051},
		{1767225600000, 0x0123456789abcdef, 5735270471635991},
	}
	for _, tt := range tests {
		if got := Token(tt.created, tt.history); got != tt.want {
			t.Errorf("token of %d in %#x is %d, want %d", tt.created, tt.history, got, tt.want)
		}
	}
}

func TestTrapD2TokenIsABijectionOfTheCreationStamp(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	for range 100_000 {
		c, history := r.Uint64()>>12, r.Uint64()
		token := Token(c, history)
		if token < 1<<52 || token >= 1<<53 {
			t.Fatalf("token %d of %d in %#x is out of range", token, c, history)
		}
		if got := created(token, history); got != c {
			t.Fatalf("token %d of %d in %#x inverts to %d", token, c, history, got)
		}
	}
}

func TestTrapD2AnotherHistoryGivesOtherTokens(t *testing.T) {
	// Histories are random; even neighbours must not agree on a stamp.
	const stamp = 1767225600000
	seen := map[uint64]uint64{}
	for history := range uint64(100_000) {
		token := Token(stamp, history)
		if other, taken := seen[token]; taken {
			t.Fatalf("histories %d and %d both give %d", other, history, token)
		}
		seen[token] = history
	}
}
