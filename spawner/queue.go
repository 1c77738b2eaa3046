package spawner

import (
	"fmt"
	"math"
	"time"
)

// Plan is what a job, or each point of a scan, would meet if it were submitted now.
type Plan struct {
	Backend string // where it would go
	Room
	// that the caller's jobs of its name have run of late, in the middle; negative: there are none
	Typical time.Duration
	Use     Use
}

// Use is what a user's jobs keep and have used, and what they may. Zero where it is not limited.
type Use struct {
	Stored, Store     int64 // bytes
	GPUHours, GPUMost float64
	Window            time.Duration // over which GPUHours counts
}

// Usage is Use with what it is made of.
type Usage struct {
	Use
	Inputs int64  // bytes of Stored that no job needs any more
	Kept   []Kept // the largest first
}

// Kept is what one job, or all points of a scan, keep.
type Kept struct {
	ID      string // of the scan, where it is one
	Name    string
	Bytes   int64
	Files   int
	Expires time.Time // when the last of it is removed; zero: it goes on, or never
}

// Queue is where a workload stands in line for room. The zero Queue is of one that does not wait.
type Queue struct {
	// Place is from 1. Of a job it is counted as if the users took turns from now on, each with as many places: who has
	// had less of late has more of them than that, and her jobs come earlier.
	Place    int
	Lacks    string        // what is missing for it, where it is next
	Estimate time.Duration // until its turn; negative: nobody knows
}

// String says it in words; empty when it does not wait.
func (q Queue) String() string {
	switch {
	case q.Place == 0:
		return ""
	case q.Place == 1:
		return "Waiting for room, next in line: " + q.Lacks + about(q.Estimate)
	case q.Lacks != "":
		return fmt.Sprintf("Waiting for room, number %d in line: %s", q.Place, q.Lacks) + about(q.Estimate)
	default:
		return fmt.Sprintf("Waiting for room: number %d in line", q.Place) + about(q.Estimate)
	}
}

// about says an estimate as roughly as it is known, so that it does not change with every look.
func about(d time.Duration) string {
	switch minutes := int(math.Ceil(d.Minutes())); {
	case d < 0:
		return ""
	case minutes <= 1:
		return "; about a minute, as things go"
	case minutes < 15:
		return fmt.Sprintf("; about %d min, as things go", minutes)
	case minutes < 90:
		return fmt.Sprintf("; about %d min, as things go", (minutes+4)/5*5)
	default:
		return fmt.Sprintf("; about %d h, as things go", int(math.Round(d.Hours())))
	}
}

// Room is what a backend has for workloads of one size.
type Room struct {
	Most     int           // at once when it is empty; -1: not limited, or it is a Remote's own matter
	Free     int           // at once now; -1: not limited
	Lacks    string        // why not one more starts now; empty: one does
	Waiting  int           // that stand in line before a new one
	Estimate time.Duration // until a new one's turn, if it cannot start now; negative: nobody knows
}

// Full reports whether one more would not start now.
func (r Room) Full() bool { return r.Lacks != "" || r.Waiting > 0 || r.Most == 0 }
