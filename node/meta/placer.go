package meta

import "slices"

// Limits of a cluster, checked at init.
const (
	MaxGroups = 4096
	MaxNodes  = 64
)

// ValidateInit says what is wrong with an init request, empty when nothing.
func ValidateInit(c *Init) string {
	switch {
	case !validClusterID(c.ClusterID):
		return "the cluster id must be 1 to 64 characters from A-Z a-z 0-9 . _ -"
	case c.Token == "":
		return "the init token must not be empty"
	case c.Groups == 0 || c.Groups > MaxGroups:
		return "groups must be 1 to 4096; the count is fixed for the cluster's life"
	case !slices.Contains([]int{1, 3, 5}, c.ReplicationFactor):
		return "the replication factor must be 1, 3 or 5"
	case c.InitialNodes < c.ReplicationFactor:
		return "the cluster must begin with at least as many nodes as its replication factor"
	case c.InitialNodes > MaxNodes:
		return "a cluster has at most 64 nodes"
	}
	return ""
}

func validClusterID(id string) bool {
	if len(id) == 0 || len(id) > 64 {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// PlanGenesis returns the placement of every group that has none, nil while
// fewer nodes than the cluster begins with have joined. history draws one
// random history id for each group.
//
// Zones come first, then nodes by how many replicas they hold, then rotation,
// so that the first voters (who campaign first) are spread as well.
func PlanGenesis(s *State, history func() uint64) *Place {
	if !s.Initialized() || len(s.Nodes) < s.InitialNodes {
		return nil
	}
	ids := s.NodeIDs()
	load := make(map[uint64]int, len(ids))
	for _, g := range s.Groups {
		for _, p := range g.Placement {
			load[p.Node]++
		}
	}
	var out Place
	for i := range s.Groups {
		if s.Groups[i].Genesis != nil {
			continue
		}
		nodes := pick(s, ids, load, i)
		for _, id := range nodes {
			load[id]++
		}
		out.Groups = append(out.Groups, PlaceGroup{Group: uint32(i), Nodes: nodes, History: history()})
	}
	if len(out.Groups) == 0 {
		return nil
	}
	return &out
}

func pick(s *State, ids []uint64, load map[uint64]int, group int) []uint64 {
	var chosen []uint64
	zones := map[string]int{}
	for len(chosen) < s.ReplicationFactor {
		best, bestRank := uint64(0), [3]int{}
		for k := range ids {
			// Rotating the order by group makes ties fall on another node each time.
			id := ids[(k+group)%len(ids)]
			if slices.Contains(chosen, id) {
				continue
			}
			rank := [3]int{zones[s.Nodes[id].Zone], load[id], k}
			if best == 0 || slices.Compare(rank[:], bestRank[:]) < 0 {
				best, bestRank = id, rank
			}
		}
		chosen = append(chosen, best)
		zones[s.Nodes[best].Zone]++
	}
	return chosen
}
