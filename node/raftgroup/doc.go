// Package raftgroup replicates: it runs all Raft groups of one node.
//
// # Invariants
//
//   - A write is answered with a result only when it was seen applied here.
//     Everything that is decided before the entry reaches Raft is a refusal and
//     proves that nothing applies; everything else is ErrOutcomeUnknown.
//   - Nothing leaves the node before the sync it depends on. One Ready of a
//     group is in flight at a time. Before its sync only MsgApp and MsgHeartbeat
//     of a Ready that changes neither term nor vote leave, and only those whose
//     Commit is below the first entry of that Ready. CommittedEntries are
//     applied and answered after the sync of the Ready that carried them; then
//     comes Advance.
//   - Every proposal and every read ends by its deadline, with a typed outcome.
//   - One code path: in production a goroutine per shard calls turn, in tests
//     and in the simulator one loop does (Config.Manual, Host.Turn). A seed
//     decides elections; nothing here reads a clock, a map's order or a random
//     source but at the edges that Config names.
//
// # Shape
//
// A Host spreads groups over shards. A shard owns its groups without locks:
// one turn drains the mailbox, steps messages, applies what is synced and
// committed of all its groups in one Machine batch, answers the waiters,
// proposes what waits as one entry per group, takes the next Readies, hands
// writes to the log without waiting for them, and sends.
//
// # Birth
//
// The configuration of a group is a function of its log alone, from index 1 on.
// A replica that its group's genesis names starts with that configuration as
// the first entries of its log (term 1, committed), written and synced before
// it takes part. Every other replica starts empty and gets these entries from
// its leader.
//
// # When a replica can't apply
//
// A command that the Machine refuses, or an envelope of an unknown version,
// stops that one replica (Status.ApplyStopped). Its applied state, the base
// store's C included, stays at the last good entry, and a restart tries the
// entry again. Raft itself goes on: Ready after Ready is persisted, sent and
// advanced, and configuration changes are followed in memory, because they are
// a function of the log and not of the applied state. So nothing piles up, the
// replica keeps voting and acknowledging, and a later binary that knows the
// command continues at C. It never campaigns, ignores MsgTimeoutNow, refuses
// proposals and reads, and hands leadership to a caught-up voter.
package raftgroup
