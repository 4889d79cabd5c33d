// Package cluster holds the tests of whole clusters under faults, and the
// harness they are made of.
//
// In process, every node runs on a crashable in-memory file system with a clock
// of its own, and all that it says to clients and peers goes through proxies
// that can cut, hold and delay it. A loss of power is taken in this order: the
// file system stops taking changes, a clone of what would survive is made, the
// node is cut off for good, and only then may it end. So nothing is answered
// that rests on what the clone does not hold.
//
// What clients saw is kept in a History, which checks each answer as it comes
// and the final content at the end: no acknowledged append lost, none twice, a
// producer's in order, all answers linearizable, every byte ever read the one
// at its offset.
//
// The tests are short by default. RUNNEL_ROUNDS=n repeats the faults of each
// test n times and lets the sweeps crash at every sync, RUNNEL_SEED=n repeats
// the choices of a run that printed it, RUNNEL_NODE_LOGS=1 prints the nodes' logs.
package cluster
