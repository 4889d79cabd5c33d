// Package node is the composition root of a stream node: it opens the storage,
// starts the groups and the planes, and acts on what the meta group says.
//
// A node is empty, then a member: init makes a cluster of it, or it joins one.
// The invariants it keeps: an identity is persisted before anything acts on
// it; a replica is created only when its group's genesis record names it and
// this node never created it; a node on another cluster's data, or on a newer
// format, refuses to start.
package node
