//go:build race

package basestore

// raceEnabled makes tests smaller that would take minutes.
const raceEnabled = true
