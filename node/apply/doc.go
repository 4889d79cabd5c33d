// Package apply turns committed entries into base-store batches.
//
// It is the hop between a group's log and its applied state: commands are
// decoded, run through the state machine of their group (stream for data
// groups, meta for the meta group) and written with the applied index as one
// batch. The invariant it keeps: what becomes visible at Commit is exactly the
// effect of the entries up to the marked index, for every group in the batch,
// and watchers are woken only after that and after the writers were answered.
package apply
