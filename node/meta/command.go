package meta

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// ErrUnsupported says that a command or a state is of a version or a kind that
// this build does not know. A replica that meets one stops applying.
var ErrUnsupported = errors.New("meta: unsupported version")

// Command is one change to the cluster's facts. Exactly one member is set.
type Command struct {
	Init       *Init       `json:"init,omitempty"`
	AddNode    *AddNode    `json:"addNode,omitempty"`
	UpdateNode *UpdateNode `json:"updateNode,omitempty"`
	Place      *Place      `json:"place,omitempty"`
	Born       *Born       `json:"born,omitempty"`
}

// Init makes a cluster of the node that runs it.
type Init struct {
	ClusterID         string  `json:"clusterID"`
	Token             string  `json:"token"`
	Groups            uint32  `json:"groups"`
	ReplicationFactor int     `json:"replicationFactor"`
	InitialNodes      int     `json:"initialNodes"`
	Node              AddNode `json:"node"`
}

// AddNode makes the holder of Token a member.
type AddNode struct {
	Token     string    `json:"token"`
	Addresses Addresses `json:"addresses"`
	Zone      string    `json:"zone,omitempty"`
}

// UpdateNode records a member's current addresses and zone.
type UpdateNode struct {
	ID        uint64    `json:"id"`
	Addresses Addresses `json:"addresses"`
	Zone      string    `json:"zone,omitempty"`
}

// Place commits genesis records. A group that has one keeps it.
type Place struct {
	Groups []PlaceGroup `json:"groups"`
}

// PlaceGroup names the nodes of one new group's voters. Replica ids are given
// when it applies.
type PlaceGroup struct {
	Group   uint32   `json:"group"`
	Nodes   []uint64 `json:"nodes"`
	History uint64   `json:"history"`
}

// Born reports genesis replicas that exist on disk.
type Born struct {
	Replicas []BornReplica `json:"replicas"`
}

// BornReplica is one replica of one data group (by index).
type BornReplica struct {
	Group   uint32 `json:"group"`
	Replica uint64 `json:"replica"`
}

// Refused says why a command changed nothing. It is an answer, not a fault:
// every replica comes to the same one.
type Refused struct{ Reason string }

func (r *Refused) Error() string { return r.Reason }

func refuse(format string, args ...any) (*State, any) {
	return nil, &Refused{Reason: fmt.Sprintf(format, args...)}
}

// Encode returns the command as it stands in the log: a version byte and JSON.
func (c *Command) Encode() ([]byte, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("meta: encode command: %w", err)
	}
	return append([]byte{FormatVersion}, body...), nil
}

// DecodeCommand parses what Encode wrote. A member it does not know is
// ErrUnsupported: a replica must never half-understand a command.
func DecodeCommand(b []byte) (*Command, error) {
	var c Command
	if err := decode(b, &c); err != nil {
		return nil, err
	}
	return &c, nil
}

// Encode returns the state as it is persisted.
func (s *State) Encode() ([]byte, error) {
	body, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("meta: encode state: %w", err)
	}
	return append([]byte{FormatVersion}, body...), nil
}

// DecodeState parses what State.Encode wrote.
func DecodeState(b []byte) (*State, error) {
	var s State
	if err := decode(b, &s); err != nil {
		return nil, err
	}
	return s.clone(), nil
}

func decode(b []byte, into any) error {
	if len(b) == 0 || b[0] != FormatVersion {
		return fmt.Errorf("%w: first byte %x, this build reads version %d", ErrUnsupported, b[:min(1, len(b))], FormatVersion)
	}
	d := json.NewDecoder(bytes.NewReader(b[1:]))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return nil
}

// Apply returns the state after c and c's result: the Node for Init and
// AddNode, nil for others, *Refused when nothing changed. A nil state means
// unchanged. It fails only for a command this build does not know.
func (s *State) Apply(c *Command) (*State, any, error) {
	switch {
	case c.Init != nil:
		n, r := s.applyInit(c.Init)
		return n, r, nil
	case c.AddNode != nil:
		n, r := s.applyAddNode(c.AddNode)
		return n, r, nil
	case c.UpdateNode != nil:
		n, r := s.applyUpdateNode(c.UpdateNode)
		return n, r, nil
	case c.Place != nil:
		n, r := s.applyPlace(c.Place)
		return n, r, nil
	case c.Born != nil:
		n, r := s.applyBorn(c.Born)
		return n, r, nil
	}
	return nil, nil, fmt.Errorf("%w: a command with no known member", ErrUnsupported)
}

func (s *State) applyInit(c *Init) (*State, any) {
	if s.Initialized() {
		if s.ClusterID == c.ClusterID && s.InitToken == c.Token {
			n, _ := s.NodeByToken(c.Node.Token)
			return nil, n
		}
		return refuse("already initialized as cluster %q", s.ClusterID)
	}
	n := s.clone()
	n.ClusterID, n.InitToken = c.ClusterID, c.Token
	n.ReplicationFactor, n.InitialNodes = c.ReplicationFactor, c.InitialNodes
	n.Groups = make([]Group, c.Groups)
	return n, n.add(c.Node)
}

func (s *State) applyAddNode(c *AddNode) (*State, any) {
	if !s.Initialized() {
		return refuse("not initialized")
	}
	if n, ok := s.NodeByToken(c.Token); ok {
		return nil, n
	}
	if len(s.Nodes) >= MaxNodes {
		return refuse("the cluster has %d nodes, the most there can be", MaxNodes)
	}
	n := s.clone()
	return n, n.add(*c)
}

// add gives out the next node id and the next replica id for its meta replica.
func (s *State) add(c AddNode) Node {
	s.LastNode++
	s.LastReplica++
	n := Node{ID: s.LastNode, Token: c.Token, MetaReplica: s.LastReplica, Addresses: c.Addresses, Zone: c.Zone}
	s.Nodes[n.ID] = n
	return n
}

func (s *State) applyUpdateNode(c *UpdateNode) (*State, any) {
	old, ok := s.Nodes[c.ID]
	if !ok {
		return refuse("node %d is not a member", c.ID)
	}
	if old.Addresses == c.Addresses && old.Zone == c.Zone {
		return nil, nil
	}
	n := s.clone()
	old.Addresses, old.Zone = c.Addresses, c.Zone
	n.Nodes[c.ID] = old
	return n, nil
}

func (s *State) applyPlace(c *Place) (*State, any) {
	n := s.clone()
	placed := 0
	for _, p := range c.Groups {
		if int(p.Group) >= len(n.Groups) || n.Groups[p.Group].Genesis != nil || !n.placeable(p.Nodes) {
			continue
		}
		g := &Genesis{History: p.History}
		for _, node := range p.Nodes {
			n.LastReplica++
			g.Voters = append(g.Voters, Placement{Node: node, Replica: n.LastReplica})
		}
		n.Groups[p.Group] = Group{Genesis: g, Placement: slices.Clone(g.Voters)}
		placed++
	}
	if placed == 0 {
		return refuse("no group to place")
	}
	return n, nil
}

// placeable checks a placement again where it applies: as many distinct
// members as the replication factor says, never fewer and grown later.
func (s *State) placeable(nodes []uint64) bool {
	if len(nodes) != s.ReplicationFactor {
		return false
	}
	for i, id := range nodes {
		if _, ok := s.Nodes[id]; !ok || slices.Contains(nodes[:i], id) {
			return false
		}
	}
	return true
}

func (s *State) applyBorn(c *Born) (*State, any) {
	n := s.clone()
	changed := false
	for _, b := range c.Replicas {
		if int(b.Group) >= len(n.Groups) {
			continue
		}
		g := n.Groups[b.Group]
		if g.Genesis == nil || slices.Contains(g.Born, b.Replica) ||
			!slices.ContainsFunc(g.Genesis.Voters, func(p Placement) bool { return p.Replica == b.Replica }) {
			continue
		}
		born := append(slices.Clone(g.Born), b.Replica)
		slices.Sort(born)
		n.Groups[b.Group].Born = born
		changed = true
	}
	if !changed {
		return nil, nil
	}
	return n, nil
}
