package graft

import "time"

// What each changed file costs in the pause, as BenchmarkPause measures it: the processor's
// time, which is that of a machine with nothing else to do, and on a machine with a dozen times as much to do as it
// can. Of a walk before it, a pause takes 0.35 to 0.45.
const (
	leastPause = 2 * time.Microsecond
	mostPause  = 6 * time.Microsecond
	worthWords = 2 * time.Second // a shorter pause is not told ahead
)

// ExpectedPause tells how long a source will stand still that has changed files, and was walked in took. Zero: not worth
// a word.
func ExpectedPause(files int64, took time.Duration) time.Duration {
	n := time.Duration(files)
	about := min(max(took/2, n*leastPause), n*mostPause)
	if about < worthWords {
		return 0
	}
	return about.Round(time.Second)
}
