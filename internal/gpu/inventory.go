package gpu

import (
	"errors"
	"time"
)

// ErrBadPlace is what making a slice real fails with when the place is at fault: it is quarantined, and another is to
// be looked for.
var ErrBadPlace = errors.New("this part of the GPU cannot be used now")

// Lease is a slice in somebody's hands.
type Lease struct {
	Holder string // the workload's ID
	Slice  Slice
	Since  time.Time
	Lent   string // the job's ID that has borrowed it meanwhile; empty: nobody
	// the ID for which the slice was made real, when that is not Holder: a lender that has gone; empty: Holder
	As string
}

// Inventory is what there is of GPUs, and who has it, at one moment.
type Inventory struct {
	System  System    `json:"system"`
	Taken   time.Time `json:"taken"`
	GPUs    []State   `json:"gpus"`
	Problem string    `json:"problem,omitempty"` // why the driver could not be asked; the rest is then of an earlier time
}

// Condition is whether a GPU may be leased from.
type Condition string

// The conditions.
const (
	Ready    Condition = "ready"
	Occupied Condition = "occupied" // somebody else's processes or instances are on it
	Drained  Condition = "drained"  // sick, or taken out by the administrator: what runs goes on, nothing new starts
	Gone     Condition = "lost"     // it does not answer any more
	Unset    Condition = "unset"    // it is not in the mode that the site wants, and may not be switched
)

// State is one GPU.
type State struct {
	Device    Device       `json:"device"`
	Mode      Mode         `json:"mode"`
	Tier      Tier         `json:"tier"` // of its slices
	Condition Condition    `json:"condition"`
	Why       string       `json:"why,omitempty"`
	Drain     *Drain       `json:"drain,omitempty"` // nil: no administrator has taken it out by hand
	Offers    []Offer      `json:"offers"`
	Slices    []SliceState `json:"slices"` // in the order of their places
	Reading   *Reading     `json:"reading,omitempty"`
	Health    *Health      `json:"health,omitempty"` // as it was last asked for
}

// Drain says who has taken a GPU out by hand.
type Drain struct {
	By    string    `json:"by"`
	Why   string    `json:"why,omitempty"`
	Since time.Time `json:"since"`
}

// String says it to administrators.
func (d Drain) String() string {
	words := "drained by " + d.By + " on " + d.Since.Format("Jan 2 at 15:04")
	if d.Why != "" {
		words += ": " + d.Why
	}
	return words
}

// Offer is what can be had of a GPU, or of all of them, by request.
type Offer struct {
	Name string `json:"name"` // as a request is written
	Free int    `json:"free"` // now, if nothing else is taken
	Most int    `json:"most"` // on an empty GPU
	Tier Tier   `json:"tier"`
}

// SliceState is a part of a GPU that is held, or is cut out already and free, or cannot be used.
type SliceState struct {
	Slice       Slice      `json:"slice"`
	UUID        string     `json:"uuid,omitempty"`   // of the MIG instance
	GI          *int       `json:"gi,omitempty"`     // its number; nil: there is no instance yet. 0 is one
	Holder      string     `json:"holder,omitempty"` // workload; empty: free
	Lent        string     `json:"lent,omitempty"`   // the job that has borrowed it
	Foreign     bool       `json:"foreign,omitempty"`
	Quarantined *time.Time `json:"quarantined,omitempty"` // until then
	Why         string     `json:"why,omitempty"`
	Since       time.Time  `json:"since,omitzero"`
	Use         Use        `json:"use"`
}

// Source says how the use of a slice is known.
type Source string

// The sources, the best first.
const (
	SourceGPM         Source = "gpm"          // the processors' own counters
	SourceUtilisation Source = "utilisation"  // share of the time in which any kernel ran
	SourceProcess     Source = "process"      // the same, by process
	SourceProcessList Source = "process-list" // only which processes are there, and their memory
	SourceNone        Source = ""             // it cannot be measured
)

// Use is how much of a slice is used. What cannot be measured is nil, never 0.
type Use struct {
	Source  Source     `json:"source"`
	SM      *float64   `json:"sm"`                   // percent, of the last minute
	Memory  *int64     `json:"memory"`               // bytes now
	Peak    *int64     `json:"peak"`                 // bytes, most since the slice was leased
	Energy  *float64   `json:"energy_estimate"`      // J since the slice was leased: an estimate, for slices share one meter
	Idle    *time.Time `json:"idle"`                 // since when it is; nil: it is not, or nobody can say
	Hint    string     `json:"hint,omitempty"`       // such as "held 71G, used at most 9G: 1g.18gb would do"
	Unknown string     `json:"unmeasured,omitempty"` // why there is no number
}
