package hubapi

import "time"

// The states of Imports.
const (
	ImportsWaiting = "waiting" // they are to be tried
	ImportsTried   = "tried"
	ImportsUntried = "untried" // they could not be tried
)

// Imports says whether an image alone, in a batch job, can import what kernels had imported when it was frozen.
type Imports struct {
	State   string     `json:"state"`
	Tried   *time.Time `json:"tried,omitempty"`
	Modules int        `json:"modules"`         // that were tried
	Broken  int        `json:"broken"`          // of these, that cannot be imported for a reason that lies in the image
	Lines   []string   `json:"lines,omitempty"` // what is wrong, for people: "cannot import torch: libcudart.so.12: cannot open ..."
}

// Repository is a CVMFS repository that an environment needs where it runs.
type Repository struct {
	Name  string   `json:"name"`
	Found []string `json:"found"` // where that was found, for people; the first
}
