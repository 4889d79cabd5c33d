// Package meta is the meta group's state machine: the facts of the cluster
// that every node must agree on, and the pure decisions made from them.
//
// The invariants it keeps: node and replica ids are handed out once and never
// again; a join or an init that is repeated with its token changes nothing; a
// group's genesis record, once committed, never changes; the placement is an
// intention and says nothing about who is a member (that is in the group).
//
// Everything here is pure. The package node drives it: it proposes commands,
// persists the state with the meta group's applied index and acts on what the
// state says.
package meta
