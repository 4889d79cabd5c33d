package cluster

import (
	"testing"
)

func TestNoAcknowledgedAppendIsLostInPowerLosses(t *testing.T) {
	rng := Seed(t)
	c := Form(t, 3, 3, 4)
	l := StartLoad(t, c.URLs(), 3)
	l.AwaitProgress(t, 10)
	for round := range Rounds(6) {
		first := rng.IntN(3)
		var hit []*Node
		for k := range 1 + round%3 {
			hit = append(hit, c.Nodes[(first+k)%3])
		}
		l.Gap()
		t.Logf("round %d: power loss of %d nodes from node %d on", round, len(hit), first)
		PowerLoss(rng, hit...)
		if len(hit) == 1 {
			l.AwaitProgress(t, 10)
		}
		for _, n := range hit {
			n.Start()
		}
		l.AwaitProgress(t, 10)
		t.Logf("round %d: longest time without an acknowledgement %v", round, l.Gap())
	}
	c.AwaitReady()
	l.Check(t)
}

func TestNodesThatStopInOrderLoseNothing(t *testing.T) {
	c := Form(t, 3, 3, 3)
	l := StartLoad(t, c.URLs(), 2)
	for i := range 3 {
		l.AwaitProgress(t, 10)
		l.Gap()
		c.Nodes[i].Stop()
		l.AwaitProgress(t, 10)
		t.Logf("node %d stopped: longest time without an acknowledgement %v", i, l.Gap())
		c.Nodes[i].Start()
	}
	c.AwaitReady()
	for _, n := range c.Nodes {
		n.Stop()
	}
	for _, n := range c.Nodes {
		n.Start()
	}
	c.AwaitReady()
	l.AwaitProgress(t, 10)
	l.Check(t)
}
