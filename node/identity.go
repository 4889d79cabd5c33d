package node

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"runnel.dev/runnel/node/basestore"
	"runnel.dev/runnel/node/meta"
)

// Names of the node's own records in the base store.
const (
	localToken    = "join-token"
	localIdentity = "identity"
	localLog      = "log" // set once there is a write-ahead log
)

// identity is who a member is. It is persisted before the node acts on it and
// never changes.
type identity struct {
	ClusterID   string `json:"clusterID"`
	NodeID      uint64 `json:"nodeID"`
	MetaReplica uint64 `json:"metaReplica"`
	// InitToken is set on the node that init made the cluster of.
	InitToken string `json:"initToken,omitempty"`
	// Init is the init command of that node, kept so that a crash between the
	// identity and the command's apply is made good at the next start.
	Init *meta.Init `json:"init,omitempty"`
	// Seeds are the members known when the node joined: it must reach them
	// before its own replica of the meta group has told it where they are.
	Seeds []meta.Node `json:"seeds,omitempty"`
}

// loadToken returns the node's join token, drawing and persisting it first:
// a join that is repeated after a crash must be the same join.
func loadToken(store *basestore.Store) (string, error) {
	b, err := store.Local(localToken)
	if err != nil {
		return "", err
	}
	if b != nil {
		return string(b), nil
	}
	token := newToken()
	return token, store.SetLocal(localToken, []byte(token))
}

// newToken returns 128 random bits in hexadecimal.
func newToken() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// loadIdentity returns nil for an empty node.
func loadIdentity(store *basestore.Store) (*identity, error) {
	b, err := store.Local(localIdentity)
	if err != nil || b == nil {
		return nil, err
	}
	var id identity
	if err := json.Unmarshal(b, &id); err != nil {
		return nil, fmt.Errorf("identity record: %w", err)
	}
	return &id, nil
}

func (id *identity) save(store *basestore.Store) error {
	b, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return store.SetLocal(localIdentity, b)
}
