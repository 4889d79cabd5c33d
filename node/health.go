package node

import (
	"io"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"runnel.dev/runnel/node/metrics"
)

// healthHandler serves probes and metrics. Liveness is the process alone.
func (n *Node) healthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !n.Ready() {
			http.Error(w, "not ready: not a member of a cluster yet, or its groups are not placed", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics.Registry(n.sources), promhttp.HandlerOpts{}))
	if n.cfg.Profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	}
	return mux
}

// sources are the parts that metrics are read from; nil while a part is not there.
func (n *Node) sources() metrics.Sources {
	s := metrics.Sources{Base: n.store, Live: n.registry}
	if m := n.member.Load(); m != nil {
		s.Log, s.Groups, s.Peers = m.log, m.host, m.peers
	}
	return s
}
