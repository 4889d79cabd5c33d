//go:build !race

package basestore

const raceEnabled = false
