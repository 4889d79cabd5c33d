package meta

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func initCommand(groups uint32, rf, nodes int) *Command {
	return &Command{Init: &Init{
		ClusterID: "c1", Token: "init", Groups: groups, ReplicationFactor: rf, InitialNodes: nodes,
		Node: AddNode{Token: "t1", Addresses: Addresses{Client: "http://a", Admin: "a:1", Peer: "a:2"}},
	}}
}

// apply applies c and returns the state after it, which is s itself when c
// changed nothing.
func apply(t *testing.T, s *State, c *Command) (*State, any) {
	t.Helper()
	next, result, err := s.Apply(c)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	if next == nil {
		next = s
	}
	return next, result
}

func cluster(t *testing.T, groups uint32, rf, nodes int, zones ...string) *State {
	t.Helper()
	s, _ := apply(t, &State{}, initCommand(groups, rf, nodes))
	for i := 2; i <= nodes; i++ {
		s, _ = apply(t, s, &Command{AddNode: &AddNode{Token: fmt.Sprint("t", i)}})
	}
	for i, z := range zones {
		n := s.Nodes[uint64(i+1)]
		s, _ = apply(t, s, &Command{UpdateNode: &UpdateNode{ID: n.ID, Addresses: n.Addresses, Zone: z}})
	}
	return s
}

func TestInitIsIdempotentByItsToken(t *testing.T) {
	s, first := apply(t, &State{}, initCommand(4, 1, 1))
	again, second := apply(t, s, initCommand(4, 1, 1))
	if again != s || !cmp.Equal(first, second) {
		t.Errorf("a repeated init gave %+v after %+v", second, first)
	}
	other := initCommand(4, 1, 1)
	other.Init.Token = "other"
	_, refused := apply(t, s, other)
	if _, ok := refused.(*Refused); !ok {
		t.Errorf("an init with another token gave %+v, want a refusal", refused)
	}
}

func TestJoinIsIdempotentAndIDsAreNeverReused(t *testing.T) {
	s := cluster(t, 4, 1, 1)
	s, n2 := apply(t, s, &Command{AddNode: &AddNode{Token: "t2"}})
	same, again := apply(t, s, &Command{AddNode: &AddNode{Token: "t2"}})
	if same != s || !cmp.Equal(n2, again) {
		t.Errorf("a repeated join gave %+v after %+v", again, n2)
	}
	_, n3 := apply(t, s, &Command{AddNode: &AddNode{Token: "t3"}})
	if n3.(Node).ID != 3 || n3.(Node).MetaReplica != 3 {
		t.Errorf("third node is %+v", n3)
	}
}

func TestAFullClusterTakesNoMoreNodes(t *testing.T) {
	s := cluster(t, 1, 1, MaxNodes)
	_, refused := apply(t, s, &Command{AddNode: &AddNode{Token: "one too many"}})
	if _, ok := refused.(*Refused); !ok {
		t.Errorf("node %d joined: %+v", MaxNodes+1, refused)
	}
	if _, again := apply(t, s, &Command{AddNode: &AddNode{Token: "t2"}}); again.(Node).ID != 2 {
		t.Errorf("a repeated join of a full cluster gave %+v", again)
	}
}

func TestTrapR4GenesisIsImmutableAndNeverSmallerThanTheFactor(t *testing.T) {
	s := cluster(t, 1, 3, 3)
	_, refused := apply(t, s, &Command{Place: &Place{Groups: []PlaceGroup{{Group: 0, Nodes: []uint64{1, 2}, History: 7}}}})
	if _, ok := refused.(*Refused); !ok {
		t.Fatalf("two voters for a factor of three: %+v, want a refusal", refused)
	}
	s, _ = apply(t, s, &Command{Place: &Place{Groups: []PlaceGroup{{Group: 0, Nodes: []uint64{1, 2, 3}, History: 7}}}})
	first := *s.Groups[0].Genesis
	s, _ = apply(t, s, &Command{Place: &Place{Groups: []PlaceGroup{{Group: 0, Nodes: []uint64{3, 2, 1}, History: 8}}}})
	if diff := cmp.Diff(first, *s.Groups[0].Genesis); diff != "" {
		t.Errorf("genesis changed:\n%s", diff)
	}
	if s.AllBorn(0) {
		t.Error("born before any report")
	}
	for _, v := range first.Voters {
		s, _ = apply(t, s, &Command{Born: &Born{Replicas: []BornReplica{{Group: 0, Replica: v.Replica}, {Group: 0, Replica: 999}}}})
	}
	if !s.AllBorn(0) || len(s.Groups[0].Born) != 3 {
		t.Errorf("born is %v", s.Groups[0].Born)
	}
}

func TestPlacementWaitsForTheInitialNodes(t *testing.T) {
	s := cluster(t, 8, 3, 2)
	s.InitialNodes = 3
	if p := PlanGenesis(s, func() uint64 { return 1 }); p != nil {
		t.Errorf("placed %v with two of three nodes", p)
	}
}

func TestPlacementSpreadsZonesThenNodesThenFirstVoters(t *testing.T) {
	s := cluster(t, 12, 3, 6, "a", "a", "b", "b", "c", "c")
	var h uint64
	p := PlanGenesis(s, func() uint64 { h++; return h })
	s, _ = apply(t, s, &Command{Place: p})
	replicas, firsts := map[uint64]int{}, map[uint64]int{}
	for i, g := range s.Groups {
		zones := map[string]bool{}
		for _, v := range g.Genesis.Voters {
			zones[s.Nodes[v.Node].Zone] = true
			replicas[v.Node]++
		}
		if len(zones) != 3 {
			t.Errorf("group %d is in zones %v, want all three", i, zones)
		}
		firsts[g.Genesis.Voters[0].Node]++
	}
	for id := range s.Nodes {
		if replicas[id] != 6 || firsts[id] != 2 {
			t.Errorf("node %d holds %d replicas and %d first voters, want 6 and 2", id, replicas[id], firsts[id])
		}
	}
}

func TestUnknownCommandsAndVersionsAreNotHalfUnderstood(t *testing.T) {
	for name, b := range map[string][]byte{
		"empty": {}, "newer version": append([]byte{9}, `{"born":{}}`...),
		"unknown member": append([]byte{1}, `{"fence":{"bucket":"x"}}`...), "not json": {1, '{'},
	} {
		if _, err := DecodeCommand(b); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: got %v, want ErrUnsupported", name, err)
		}
	}
	if _, _, err := (&State{}).Apply(&Command{}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a command without a member: %v", err)
	}
}

func TestValidateInitNamesTheField(t *testing.T) {
	good := *initCommand(8, 3, 3).Init
	if msg := ValidateInit(&good); msg != "" {
		t.Fatalf("a good init: %s", msg)
	}
	for name, break_ := range map[string]func(*Init){
		"cluster id": func(i *Init) { i.ClusterID = "a b" }, "no token": func(i *Init) { i.Token = "" },
		"no groups": func(i *Init) { i.Groups = 0 }, "too many groups": func(i *Init) { i.Groups = MaxGroups + 1 },
		"even factor": func(i *Init) { i.ReplicationFactor = 2 }, "too few nodes": func(i *Init) { i.InitialNodes = 2 },
		"too many nodes": func(i *Init) { i.InitialNodes = MaxNodes + 1 },
	} {
		bad := good
		break_(&bad)
		if ValidateInit(&bad) == "" {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Two replicas that apply the same commands, one of them through encoded
// commands and an encoded state at every step, come to the same state, and a
// published state never changes under its reader.
func TestReplicasAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := &State{}, &State{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			c := drawCommand(t)
			before, _ := a.Encode()
			next, ra, err := a.Apply(c)
			if err != nil {
				t.Fatal(err)
			}
			if after, _ := a.Encode(); string(after) != string(before) {
				t.Fatalf("apply changed the published state")
			}
			if next != nil {
				a = next
			}
			wire, err := c.Encode()
			if err != nil {
				t.Fatal(err)
			}
			decoded, err := DecodeCommand(wire)
			if err != nil {
				t.Fatal(err)
			}
			next, rb, err := b.Apply(decoded)
			if err != nil {
				t.Fatal(err)
			}
			if next != nil {
				stored, err := next.Encode()
				if err != nil {
					t.Fatal(err)
				}
				if b, err = DecodeState(stored); err != nil {
					t.Fatal(err)
				}
			}
			ea, _ := a.Encode()
			eb, _ := b.Encode()
			if string(ea) != string(eb) || !cmp.Equal(ra, rb) {
				t.Fatalf("replicas differ after %+v:\n%s\n%s", c, ea, eb)
			}
		}
	})
}

func drawCommand(t *rapid.T) *Command {
	token := rapid.SampledFrom([]string{"t1", "t2", "t3", "t4"})
	group := rapid.Uint32Range(0, 4)
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return initCommand(3, 3, 3)
	case 1:
		return &Command{AddNode: &AddNode{Token: token.Draw(t, "token"), Zone: token.Draw(t, "zone")}}
	case 2:
		return &Command{UpdateNode: &UpdateNode{ID: rapid.Uint64Range(0, 5).Draw(t, "node"), Zone: token.Draw(t, "zone")}}
	case 3:
		nodes := rapid.SliceOfN(rapid.Uint64Range(1, 4), 2, 3).Draw(t, "nodes")
		return &Command{Place: &Place{Groups: []PlaceGroup{{Group: group.Draw(t, "group"), Nodes: nodes, History: 9}}}}
	}
	return &Command{Born: &Born{Replicas: []BornReplica{{Group: group.Draw(t, "group"), Replica: rapid.Uint64Range(0, 12).Draw(t, "replica")}}}}
}
