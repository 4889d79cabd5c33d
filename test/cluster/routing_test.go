package cluster

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"runnel.dev/runnel/node/protocol"
)

// checkRedirect holds a 307 against extensions 5.7: one of two shapes.
func checkRedirect(t *testing.T, c *Cluster, a *Answer, hosted bool) {
	t.Helper()
	leader, group, term := a.Header.Get(protocol.HeaderRaftLeaderID), a.Header.Get(protocol.HeaderRaftGroup), a.Header.Get(protocol.HeaderRaftTerm)
	number := func(s string) bool { n, err := strconv.ParseUint(s, 10, 64); return err == nil && n > 0 }
	if !number(group) {
		t.Errorf("redirect without a group: %v", a.Header)
	}
	if hosted && (!number(leader) || !number(term)) {
		t.Errorf("a replica's redirect names leader %q and term %q", leader, term)
	}
	if !hosted && (leader != "" || term != "") {
		t.Errorf("a redirect from a node without a replica names leader %q and term %q", leader, term)
	}
	if indexOf(c, a.Header.Get("Location")) < 0 {
		t.Errorf("redirect to %q, which is no node", a.Header.Get("Location"))
	}
}

// checkIdentity: every answer to a HEAD names the deployment (extensions 10).
func checkIdentity(t *testing.T, c *Cluster, a *Answer) {
	t.Helper()
	if a.Header.Get(protocol.HeaderClusterID) != c.ID || a.Header.Get(protocol.HeaderProtocol) != protocol.Version {
		t.Errorf("a HEAD is answered %d without the server's metadata: %v", a.Status, a.Header)
	}
}

func TestEveryNodeOfFiveSendsClientsToTheStream(t *testing.T) {
	c := Form(t, 5, 3, 8)
	client := NewClient(c.URLs())
	defer client.Close()
	shapes := map[string]int{}
	for s := range 12 {
		stream := fmt.Sprintf("/routing/stream-%d", s)
		if err := client.Create(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
		body := []byte(fmt.Sprintf("body of stream %d", s))
		for i, n := range c.Nodes {
			hosts := hostsReplica(t, client, n, stream)
			requests := []struct {
				method, target string
				leaderOnly     bool
			}{
				{http.MethodPost, stream, true},
				{http.MethodHead, stream, true},
				{http.MethodGet, stream + "?offset=-1&consistency=leader", true},
				{http.MethodGet, stream + "?offset=-1", false},
				{http.MethodPut, stream, true},
			}
			for _, r := range requests {
				h, payload := http.Header(nil), []byte(nil)
				if r.method == http.MethodPost || r.method == http.MethodPut {
					h = headers("Content-Type", "text/plain")
				}
				if r.method == http.MethodPost {
					payload = body
				}
				a, err := client.Once(t.Context(), r.method, n.URL()+r.target, h, payload)
				if err != nil {
					t.Fatalf("%s %s on node %d: %v", r.method, r.target, i, err)
				}
				if r.method == http.MethodHead {
					checkIdentity(t, c, a)
				}
				switch {
				case a.Status == 307:
					checkRedirect(t, c, a, hosts)
					if a.Header.Get("Location") != c.Nodes[indexOf(c, a.Header.Get("Location"))].URL()+r.target {
						t.Errorf("%s %s: Location %q changes the target", r.method, r.target, a.Header.Get("Location"))
					}
					if !r.leaderOnly && hosts {
						t.Errorf("node %d redirects a local read that it could serve", i)
					}
					shapes[fmt.Sprintf("hosted=%v", hosts)]++
				case !hosts:
					t.Errorf("%s %s: node %d has no replica and answers %v", r.method, r.target, i, a)
				}
				got, err := client.Follow(t.Context(), r.method, n.URL(), r.target, h, payload)
				if err != nil || got.Status >= 300 {
					t.Errorf("%s %s from node %d on ends with %v, %v", r.method, r.target, i, got, err)
				}
			}
		}
	}
	t.Logf("redirects seen: %v", shapes)
	if shapes["hosted=true"] == 0 || shapes["hosted=false"] == 0 {
		t.Errorf("both kinds of redirect should have been seen: %v", shapes)
	}
}

// hostsReplica tells from a local read whether a node has a replica.
func hostsReplica(t *testing.T, c *Client, n *Node, stream string) bool {
	t.Helper()
	var a *Answer
	Eventually(t, "a local read is served or redirected", func() bool {
		var err error
		a, err = c.Once(t.Context(), http.MethodGet, n.URL()+stream+"?offset=0", nil, nil)
		return err == nil && (a.Status == 307 && a.Header.Get(protocol.HeaderRaftLeaderID) == "" || a.Status == 200)
	})
	return a.Status == 200
}
