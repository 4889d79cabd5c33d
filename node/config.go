package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.yaml.in/yaml/v3"

	"runnel.dev/runnel/node/transport"
)

// Config is one node's configuration, as `runnel node --config FILE` reads it.
type Config struct {
	// DataDir holds everything the node keeps. It belongs to one node.
	DataDir string `yaml:"dataDir"`
	// Zone is the failure domain; replicas of a group are spread over zones first.
	Zone string `yaml:"zone"`
	// Join lists admin addresses (host:port) of the cluster to join. A node
	// without data and without Join waits for `runnel init`.
	Join []string `yaml:"join"`

	Client Client `yaml:"client"`
	Admin  Plane  `yaml:"admin"`
	Peer   Plane  `yaml:"peer"`
	// Health is where /healthz, /readyz and /metrics are served; empty: nowhere.
	Health string `yaml:"health"`
	// Profiling adds /debug/pprof to the health plane. Profiles show code paths
	// and timings, no data.
	Profiling bool `yaml:"profiling"`
	// TLS is the identity for the admin and peer planes. Without it both must
	// listen on loopback.
	TLS *transport.TLSFiles `yaml:"tls"`

	Limits Limits `yaml:"limits"`

	// FS, Clock and Logger are set by tests and embedders.
	FS     vfs.FS           `yaml:"-"`
	Clock  func() time.Time `yaml:"-"`
	Logger *slog.Logger     `yaml:"-"`
	// OnFatal is told once why the node can't go on: an I/O error of its
	// storage, after which nothing more is acknowledged.
	OnFatal func(error) `yaml:"-"`
}

// Client is the client plane: HTTP/1.1 and h2c, or TLS when Cert is set.
type Client struct {
	Listen string `yaml:"listen"`
	// URL is how clients and redirects reach this node; by default http(s) and
	// the listen address.
	URL  string `yaml:"url"`
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
	// Connections bounds open connections; 0 takes the default of 65,536.
	Connections int `yaml:"connections"`
}

// Plane is where one of the inner planes listens and how others reach it.
type Plane struct {
	Listen string `yaml:"listen"`
	// Advertise is the host:port others dial; by default the listen address.
	Advertise string `yaml:"advertise"`
}

// Limits bound what the node holds in memory. Zero values take the defaults.
type Limits struct {
	BlockCacheBytes  int64 `yaml:"blockCacheBytes"`  // default 64 MiB
	RecordCacheBytes int64 `yaml:"recordCacheBytes"` // default 64 MiB
	LogCacheBytes    int64 `yaml:"logCacheBytes"`    // recent log entries, default 64 MiB
	LiveReaders      int64 `yaml:"liveReaders"`      // default 20,000
}

// ReadConfig parses a configuration file. A key it does not know is an error.
func ReadConfig(r io.Reader) (Config, error) {
	data, err := io.ReadAll(io.LimitReader(r, 1<<20))
	if err != nil {
		return Config{}, err
	}
	var c Config
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return Config{}, fmt.Errorf("parse: %w", err)
	}
	return c, nil
}

// ReadConfigFile reads and validates a configuration file.
func ReadConfigFile(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, err
	}
	c, err := ReadConfig(bytes.NewReader(data))
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Validate fills defaults and names the first field that is wrong, with the
// remedy.
func (c *Config) Validate() error {
	if c.DataDir == "" {
		return errors.New("dataDir is missing: name the directory that holds this node's data")
	}
	def := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	def(&c.Client.Listen, "127.0.0.1:4437")
	def(&c.Admin.Listen, "127.0.0.1:4438")
	def(&c.Peer.Listen, "127.0.0.1:4439")
	for _, l := range []struct{ field, addr string }{
		{"client.listen", c.Client.Listen}, {"admin.listen", c.Admin.Listen}, {"peer.listen", c.Peer.Listen},
	} {
		if _, _, err := net.SplitHostPort(l.addr); err != nil {
			return fmt.Errorf("%s: %q is not host:port", l.field, l.addr)
		}
	}
	for _, l := range []struct{ field, addr string }{{"admin.listen", c.Admin.Listen}, {"peer.listen", c.Peer.Listen}} {
		if c.TLS == nil && !isLoopback(l.addr) {
			return fmt.Errorf("%s: %q is not loopback: set tls.cert, tls.key and tls.ca, or listen on 127.0.0.1", l.field, l.addr)
		}
	}
	for _, l := range []struct{ field, addr, named, remedy string }{
		{"client.listen", c.Client.Listen, c.Client.URL, "client.url"},
		{"admin.listen", c.Admin.Listen, c.Admin.Advertise, "admin.advertise"},
		{"peer.listen", c.Peer.Listen, c.Peer.Advertise, "peer.advertise"},
	} {
		if l.named == "" && isUnspecified(l.addr) {
			return fmt.Errorf("%s: %q says where to listen and not where others find this node: set %s", l.field, l.addr, l.remedy)
		}
	}
	if (c.Client.Cert == "") != (c.Client.Key == "") {
		return errors.New("client.cert and client.key go together: set both or neither")
	}
	if c.Client.URL != "" {
		u, err := url.Parse(c.Client.URL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.Trim(u.Path, "/") != "" {
			return fmt.Errorf("client.url: %q is not a base URL such as http://host:4437", c.Client.URL)
		}
		c.Client.URL = strings.TrimRight(c.Client.URL, "/")
	}
	for _, j := range c.Join {
		if _, _, err := net.SplitHostPort(j); err != nil {
			return fmt.Errorf("join: %q is not the host:port of an admin plane", j)
		}
	}
	if c.FS == nil {
		c.FS = vfs.Default
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return nil
}

// isUnspecified says that addr means all interfaces.
func isUnspecified(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "" || (ip != nil && ip.IsUnspecified())
}

func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
