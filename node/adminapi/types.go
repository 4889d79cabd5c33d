package adminapi

import (
	"fmt"
	"net"
	"net/url"
)

// Paths of version 1. Status is read with GET, the others are called with POST.
const (
	PathStatus = "/admin/v1/status"
	PathInit   = "/admin/v1/init"
	PathJoin   = "/admin/v1/join"
	PathBorn   = "/admin/v1/born"
)

// Bounds of the wire, in bytes unless said otherwise.
const (
	MaxRequestBytes  = 1 << 20
	MaxResponseBytes = 1 << 20
	MaxPeers         = 64  // entries of Status.Peers and JoinResponse.Members
	maxName          = 64  // cluster id, zone
	maxToken         = 128 // tokens
	maxAddress       = 300 // a DNS name, a scheme and a port
)

// State says how far a node is on its way.
type State string

const (
	StateEmpty    State = "empty"    // holds no data of any cluster; init or join may be called
	StateStarting State = "starting" // replays what it holds
	StateJoining  State = "joining"  // asks the nodes of a cluster to take it in
	StateServing  State = "serving"  // a member; its planes are open
	StateStopping State = "stopping" // shuts down
)

// Status is what a node knows of itself, and of its peers as it sees them.
type Status struct {
	State     State  `json:"state"`
	ClusterID string `json:"clusterID,omitempty"`
	NodeID    uint64 `json:"nodeID,omitempty"`
	Zone      string `json:"zone,omitempty"`
	Version   string `json:"version"`
	// Message says why the node is not further, in a sentence; may be empty.
	Message string `json:"message,omitempty"`

	Groups   int `json:"groups"`   // data groups of the cluster
	Replicas int `json:"replicas"` // replicas of data groups on this node
	Leading  int `json:"leading"`  // of these, how many lead
	// Leaderless counts replicas here that know no leader; Stopped those that
	// could not apply an entry.
	Leaderless int `json:"leaderless"`
	Stopped    int `json:"stopped"`

	// MetaLeader is the node that leads the meta group, 0 when unknown.
	MetaLeader uint64 `json:"metaLeader,omitempty"`
	// ClockSuspect: the node's clock is far from its peers', so it leads nothing.
	ClockSuspect bool `json:"clockSuspect,omitempty"`

	// Peers are the other members, at most MaxPeers.
	Peers []PeerStatus `json:"peers,omitempty"`
}

// PeerStatus is another member as this node sees it.
type PeerStatus struct {
	NodeID    uint64 `json:"nodeID"`
	Addresses        // as the member told the cluster
	Zone      string `json:"zone,omitempty"`
	Connected bool   `json:"connected"`
	// Error says why it is not connected.
	Error string `json:"error,omitempty"`
	// ClockOffsetMillis is how far its clock is ahead of this node's; absent
	// when it was not heard lately.
	ClockOffsetMillis *int64 `json:"clockOffsetMillis,omitempty"`
}

// Addresses are where a node is reached.
type Addresses struct {
	Client string `json:"client"` // base URL of the client plane
	Admin  string `json:"admin"`  // host:port
	Peer   string `json:"peer"`   // host:port
}

// InitRequest makes a cluster of an empty node. A repetition with the same
// cluster id and token succeeds and changes nothing.
type InitRequest struct {
	ClusterID string `json:"clusterID"` // 1 to 64 of A-Z a-z 0-9 . _ -
	Token     string `json:"token"`     // the caller's; stored before the call, so that a retry is the same init
	Groups    uint32 `json:"groups"`    // fixed for the cluster's life
	// ReplicationFactor is 1, 3 or 5.
	ReplicationFactor int `json:"replicationFactor"`
	// Nodes is how many must have joined, this one included, before replicas
	// are placed. Not below ReplicationFactor.
	Nodes int `json:"nodes"`
}

// InitResponse names the node's place in the new cluster.
type InitResponse struct {
	ClusterID string `json:"clusterID"`
	NodeID    uint64 `json:"nodeID"`
}

// JoinRequest asks to take a node into the cluster. A repetition with the same
// token gets the same ids; the addresses and the zone of the last one hold.
type JoinRequest struct {
	Token     string `json:"token"` // drawn and persisted by the node before its first attempt
	Addresses        // how the others reach it
	Zone      string `json:"zone,omitempty"`
}

// JoinResponse is all that a node needs to take part.
type JoinResponse struct {
	ClusterID         string `json:"clusterID"`
	NodeID            uint64 `json:"nodeID"`
	MetaReplica       uint64 `json:"metaReplica"` // its replica id in the meta group
	Groups            uint32 `json:"groups"`
	ReplicationFactor int    `json:"replicationFactor"`
	// Members are the nodes of the cluster, so that the new one can reach them
	// before it has applied the meta group. At most MaxPeers.
	Members []Member `json:"members"`
}

// Member is a node of the cluster.
type Member struct {
	NodeID      uint64 `json:"nodeID"`
	MetaReplica uint64 `json:"metaReplica"`
	Addresses
	Zone string `json:"zone,omitempty"`
}

// Validate checks the form of a request: what is missing, too long or no
// address. What the cluster can do is the node's to say.
func (r *InitRequest) Validate() *Error {
	return firstOf(
		text("clusterID", r.ClusterID, maxName),
		text("token", r.Token, maxToken),
	)
}

// Validate checks the form of a request.
func (r *JoinRequest) Validate() *Error {
	return firstOf(
		text("token", r.Token, maxToken),
		baseURL("client", r.Client),
		hostPort("admin", r.Admin),
		hostPort("peer", r.Peer),
		short("zone", r.Zone, maxName),
	)
}

func firstOf(errs ...*Error) *Error {
	for _, e := range errs {
		if e != nil {
			return e
		}
	}
	return nil
}

// text refuses what is empty, too long or not printable ASCII.
func text(field, value string, most int) *Error {
	if value == "" {
		return Refuse(CodeBadRequest, "%s is missing", field).Try("send a " + field)
	}
	return short(field, value, most)
}

func short(field, value string, most int) *Error {
	if len(value) > most {
		return Refuse(CodeBadRequest, "%s has %d bytes", field, len(value)).Try(fmt.Sprintf("use at most %d", most))
	}
	for _, c := range []byte(value) {
		if c <= ' ' || c > '~' {
			return Refuse(CodeBadRequest, "%s holds the byte 0x%02x", field, c).Try("use printable ASCII without spaces")
		}
	}
	return nil
}

func hostPort(field, value string) *Error {
	if e := text(field, value, maxAddress); e != nil {
		return e
	}
	host, port, err := net.SplitHostPort(value)
	if err != nil || host == "" || port == "" || port == "0" {
		return Refuse(CodeBadRequest, "%s %q is no address", field, value).Try("send host:port as the other nodes reach it")
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return Refuse(CodeBadRequest, "%s %q is no address that others can reach", field, value).Try("send the node's own address, not the one that means all interfaces")
	}
	return nil
}

func baseURL(field, value string) *Error {
	if e := text(field, value, maxAddress); e != nil {
		return e
	}
	u, err := url.Parse(value)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return Refuse(CodeBadRequest, "%s %q is no base URL", field, value).Try("send http://host:port or https://host:port")
	}
	return nil
}
