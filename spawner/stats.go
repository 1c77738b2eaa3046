package spawner

import (
	"time"
)

// Standbys is how those of an entry of the site's kernelspecs are.
type Standbys struct {
	Ready   int    // that can be taken
	Lacking int    // kernels of users' that none stands by for, though one may
	Why     string // why not, of one of those
}

// Stats is the Manager's state in numbers.
type Stats struct {
	Workloads map[Kind]map[Phase]int
	Capacity  map[string]Capacity // by backend
	Use       map[string]Capacity // what is leased of it
	StartTook []time.Duration     // from request to first answer, of the starts since the last call of Stats
	// sessions that failed before they first answered, since the service started
	StartsFailed map[Cause]int
	Orphans      int                      // what backends hold without a record
	Jobs         map[string]map[Phase]int // active ones, by backend
	// jobs that were since the service started for what their owners may have, by reason
	Refused   map[string]int
	Strangers map[string]int // active sessions that the last comparisons found their hubs not to know, by hub

	Kernels    map[string]map[Phase]int // those that stand by under StandsBy; by Entry
	KernelTook []time.Duration          // as StartTook, of kernels, which are not among those
	// since the service started, by Entry; CauseStart: before they first answered
	KernelsFailed map[string]map[Cause]int
	// KernelsDropped counts, by Entry, what kernels said and their agents could not keep for clients that were away,
	// since the service started.
	KernelsDropped map[string]int64
	// that ended and began anew where they were, since the service started, by Entry
	KernelRestarts map[string]map[Cause]int
	Standbys       map[string]Standbys // as StandbysOf
}

// StandsBy is as what Stats counts a kernel that nobody has asked for yet, whatever its phase.
const StandsBy Phase = "standby"
