package cluster

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// currentLeader asks every node who leads a stream's group, and returns the
// index of the one that serves a confirmed HEAD itself; -1 when none does.
func currentLeader(c *Cluster, stream string) int {
	for i, n := range c.Nodes {
		if n.current() == nil {
			continue
		}
		client := NewClient([]string{n.URL()})
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		a, err := client.Once(ctx, http.MethodHead, n.URL()+stream, nil, nil)
		cancel()
		client.Close()
		if err == nil && a.Status == 200 {
			return i
		}
	}
	return -1
}

// indexOf returns the node that a redirect leads to, -1 for none.
func indexOf(c *Cluster, location string) int {
	for i, n := range c.Nodes {
		if strings.HasPrefix(location, n.URL()+"/") {
			return i
		}
	}
	return -1
}
