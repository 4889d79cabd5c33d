package transport

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// dialed returns the error with which node 1's links to node 2 fail.
func dialError(t *testing.T, a *testNode) error {
	t.Helper()
	a.Connect(2)
	var err error
	poll(t, "the dialing side to say why", func() bool {
		err = a.peerStatus(2).Err
		return err != nil
	})
	return err
}

func TestAPeerOfAnotherClusterIsRefusedOnBothSides(t *testing.T) {
	checkGoroutines(t)
	d := newDirectory()
	a, b := startNode(t, d, 1), startNode(t, d, 2, func(c *Config, _ *timing) { c.Cluster = "other" })
	err := dialError(t, a)
	var he *HandshakeError
	if !errors.Is(err, ErrWrongCluster) || !errors.As(err, &he) || !strings.Contains(he.Got, `"other"`) {
		t.Errorf("err = %v", err)
	}
	// Several attempts of both links, one line on each side.
	poll(t, "more attempts", func() bool { return a.Stats().Failures > 6 && b.Stats().Refused > 6 })
	if n := b.log.count("refused a peer"); n != 1 {
		t.Errorf("the accepting side logged %d lines", n)
	}
	if n := b.log.count(ErrWrongCluster.Error()); n != 1 {
		t.Errorf("the accepting side named the reason %d times", n)
	}
	if n := a.log.count("peer not connected"); n != 2 { // one for each link
		t.Errorf("the dialing side logged %d lines", n)
	}
	if b.sessions() != 0 || len(b.ClockOffsets()) != 0 {
		t.Error("the refused peer left traces")
	}
}

func TestANodeThatIsNotTheOneAddressedRefuses(t *testing.T) {
	d := newDirectory()
	a, c := startNode(t, d, 1), startNode(t, d, 3)
	d.set(2, c.Addr().String()) // a stale address
	if err := dialError(t, a); !errors.Is(err, ErrWrongNode) {
		t.Errorf("err = %v", err)
	}
	poll(t, "the accepting side to say why", func() bool { return c.log.count(ErrWrongNode.Error()) > 0 })
}

func TestTwoNodesWithOneIdRefuseEachOther(t *testing.T) {
	d := newDirectory()
	a, b := startNode(t, d, 1), startNode(t, newDirectory(), 1)
	d.set(2, b.Addr().String())
	if err := dialError(t, a); !errors.Is(err, ErrWrongNode) {
		t.Errorf("err = %v", err)
	}
}

func TestAnAcceptorRefusesWhatIsNoPeer(t *testing.T) {
	checkGoroutines(t)
	d := newDirectory()
	b := startNode(t, d, 2)
	hello := func(change func(*greeting)) []byte {
		g := greeting{Version: protocolVersion, Code: uint8(kindBeat), From: 1, To: 2, Cluster: "test"}
		change(&g)
		return g.encode(helloMagic)
	}
	flipped := hello(func(*greeting) {})
	flipped[10] ^= 1
	for _, c := range []struct {
		name  string
		bytes []byte
		want  status
		mute  bool // no answer at all
	}{
		{"another version", hello(func(g *greeting) { g.Version = 2 }), statusVersion, false},
		{"another cluster", hello(func(g *greeting) { g.Cluster = "x" }), statusWrongCluster, false},
		{"another node", hello(func(g *greeting) { g.To = 9 }), statusWrongNode, false},
		{"no node", hello(func(g *greeting) { g.From = 0 }), statusWrongNode, false},
		{"our own id", hello(func(g *greeting) { g.From = 2 }), statusWrongNode, false},
		{"an unknown kind", hello(func(g *greeting) { g.Code = 3 }), statusProtocol, false},
		{"HTTP", []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 0, true},
		{"a wrong checksum", flipped, 0, true},
		{"a cluster id that is too long", hello(func(g *greeting) { g.Cluster = strings.Repeat("x", 200) }), 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", b.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write(c.bytes); err != nil {
				t.Fatal(err)
			}
			w, err := readGreeting(conn, welcomeMagic)
			if c.mute != (err != nil) {
				t.Fatalf("answer %+v, %v", w, err)
			}
			if !c.mute && status(w.Code) != c.want {
				t.Errorf("verdict %d, want %d", w.Code, c.want)
			}
			if n, err := conn.Read(make([]byte, 1)); err == nil {
				t.Errorf("%d bytes more", n)
			}
		})
	}
	if got := b.sessions(); got != 0 {
		t.Errorf("%d sessions", got)
	}
}

func TestAConnectionThatSaysNothingIsCut(t *testing.T) {
	d := newDirectory()
	b := startNode(t, d, 2, func(_ *Config, tm *timing) { tm.handshake = 100 * time.Millisecond })
	conn, err := net.Dial("tcp", b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := conn.Read(make([]byte, 1)); err == nil || (errors.As(err, &timeout) && timeout.Timeout()) {
		t.Errorf("err = %v, want the end of the connection", err)
	}
}

func TestConnectionsWithoutAHandshakeAreBounded(t *testing.T) {
	checkGoroutines(t)
	d := newDirectory()
	b := startNode(t, d, 2, func(_ *Config, tm *timing) { tm.handshake = patience })
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for range maxHandshakes + 5 {
		c, err := net.Dial("tcp", b.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	poll(t, "the surplus to be refused", func() bool { return b.Stats().Refused == 5 })
	conns[0].Close()
	poll(t, "room for a peer", func() bool { return len(b.handshakes) < maxHandshakes })
	a := startNode(t, d, 1)
	a.awaitUp(t, 2)
}

func TestADialerRefusesAWrongWelcome(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*greeting)
		want   error
	}{
		{"another cluster", func(g *greeting) { g.Cluster = "x" }, ErrWrongCluster},
		{"another node", func(g *greeting) { g.From = 3 }, ErrWrongNode},
		{"addressed to another", func(g *greeting) { g.To = 3 }, ErrWrongNode},
		{"another version", func(g *greeting) { g.Version = 2 }, ErrVersion},
		{"busy", func(g *greeting) { g.Code = uint8(statusBusy) }, ErrBusy},
		{"an unknown verdict", func(g *greeting) { g.Code = 200 }, ErrProtocol},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					g, err := readGreeting(conn, helloMagic)
					if err == nil {
						w := greeting{Version: protocolVersion, From: g.To, To: g.From, Cluster: g.Cluster}
						c.change(&w)
						_, _ = conn.Write(w.encode(welcomeMagic))
					}
					conn.Close()
				}
			}()
			d := newDirectory()
			d.set(2, l.Addr().String())
			a := startNode(t, d, 1)
			if err := dialError(t, a); !errors.Is(err, c.want) {
				t.Errorf("err = %v, want %v", err, c.want)
			}
		})
	}
}

func TestAConfigurationThatCannotWorkIsRefused(t *testing.T) {
	good := func() Config {
		return Config{Cluster: "test", Node: 1, Listen: "127.0.0.1:0", Handler: newRecorder(), Resolve: newDirectory().resolve}
	}
	for name, change := range map[string]func(*Config){
		"no cluster":                           func(c *Config) { c.Cluster = "" },
		"a cluster id that is too long":        func(c *Config) { c.Cluster = strings.Repeat("x", 65) },
		"no node id":                           func(c *Config) { c.Node = 0 },
		"no handler":                           func(c *Config) { c.Handler = nil },
		"no directory":                         func(c *Config) { c.Resolve = nil },
		"messages smaller than a whole one":    func(c *Config) { c.MaxMessage = 1000 },
		"a queue that can't hold a message":    func(c *Config) { c.QueueBytes = 1000 },
		"certificates that do not exist":       func(c *Config) { c.TLS = &TLSFiles{CA: "none", Cert: "none", Key: "none"} },
		"an address that can't be listened on": func(c *Config) { c.Listen = "127.0.0.1:999999" },
	} {
		t.Run(name, func(t *testing.T) {
			c := good()
			change(&c)
			if tr, err := New(c); err == nil {
				tr.listener.Close()
				t.Error("accepted")
			}
		})
	}
}
