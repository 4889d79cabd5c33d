package meta

import (
	"maps"
	"slices"
)

// FormatVersion is the version of the encoded state and of the commands.
const FormatVersion = 1

// State is the cluster's own facts. A published State is never changed: Apply
// works on a clone.
type State struct {
	ClusterID string `json:"clusterID"`
	// InitToken makes init idempotent: the same token finds its own work done.
	InitToken         string `json:"initToken"`
	ReplicationFactor int    `json:"replicationFactor"`
	// InitialNodes is how many nodes must have joined before groups are placed.
	InitialNodes int `json:"initialNodes"`
	// Nodes are all members by node id.
	Nodes map[uint64]Node `json:"nodes"`
	// Groups are the data groups; index i is the group that key hashes mod
	// len(Groups) == i address. The count is fixed at init.
	Groups []Group `json:"groups"`
	// LastNode and LastReplica are the highest ids handed out.
	LastNode    uint64 `json:"lastNode"`
	LastReplica uint64 `json:"lastReplica"`
}

// Node is one member of the cluster.
type Node struct {
	ID uint64 `json:"id"`
	// Token is what the node persisted before it asked to join.
	Token string `json:"token"`
	// MetaReplica is the id of the node's replica of the meta group.
	MetaReplica uint64    `json:"metaReplica"`
	Addresses   Addresses `json:"addresses"`
	Zone        string    `json:"zone,omitempty"`
}

// Addresses are where a node is reached.
type Addresses struct {
	// Client is the base URL of the client plane, without a trailing slash.
	Client string `json:"client"`
	// Admin and Peer are host:port.
	Admin string `json:"admin"`
	Peer  string `json:"peer"`
}

// Group is one data group.
type Group struct {
	// Genesis is nil until the group is placed, and immutable from then on.
	Genesis *Genesis `json:"genesis,omitempty"`
	// Placement is where the group's replicas should be.
	Placement []Placement `json:"placement,omitempty"`
	// Born are the genesis replicas that exist on disk, sorted.
	Born []uint64 `json:"born,omitempty"`
}

// Genesis is how a group began: only replicas named here ever start with its
// configuration.
type Genesis struct {
	Voters []Placement `json:"voters"`
	// History is the group's first history id.
	History uint64 `json:"history"`
}

// Placement is one replica on one node.
type Placement struct {
	Node    uint64 `json:"node"`
	Replica uint64 `json:"replica"`
}

// Initialized reports whether init was applied.
func (s *State) Initialized() bool { return s.ClusterID != "" }

// NodeByToken returns the node that joined with token.
func (s *State) NodeByToken(token string) (Node, bool) {
	for _, id := range s.NodeIDs() {
		if n := s.Nodes[id]; n.Token == token {
			return n, true
		}
	}
	return Node{}, false
}

// NodeOfMetaReplica returns the node that holds the meta replica id.
func (s *State) NodeOfMetaReplica(replica uint64) (Node, bool) {
	for _, n := range s.Nodes {
		if n.MetaReplica == replica {
			return n, true
		}
	}
	return Node{}, false
}

// NodeIDs returns all node ids in order.
func (s *State) NodeIDs() []uint64 {
	return slices.Sorted(maps.Keys(s.Nodes))
}

// On returns the replica of group i that is placed on node.
func (s *State) On(i int, node uint64) (Placement, bool) {
	for _, p := range s.Groups[i].Placement {
		if p.Node == node {
			return p, true
		}
	}
	return Placement{}, false
}

// NodeOf returns the node that holds replica of group i.
func (s *State) NodeOf(i int, replica uint64) (Node, bool) {
	for _, p := range s.Groups[i].Placement {
		if p.Replica == replica {
			n, ok := s.Nodes[p.Node]
			return n, ok
		}
	}
	return Node{}, false
}

// AllBorn reports whether every genesis replica of group i exists on disk.
func (s *State) AllBorn(i int) bool {
	g := s.Groups[i]
	return g.Genesis != nil && len(g.Born) == len(g.Genesis.Voters)
}

func (s *State) clone() *State {
	c := *s
	c.Nodes = maps.Clone(s.Nodes)
	if c.Nodes == nil {
		c.Nodes = map[uint64]Node{}
	}
	c.Groups = slices.Clone(s.Groups)
	return &c
}
