package hubapi

import "time"

// GPUs is what there is of GPUs and who has it. What the caller may not know of others is left out: their names,
// sessions and jobs.
type GPUs struct {
	Driver    string     `json:"driver"`    // its version; empty: none was asked
	CUDA      string     `json:"cuda"`      // the newest that it serves, such as "13.0"
	Simulated bool       `json:"simulated"` // no such hardware exists
	Problem   string     `json:"problem"`   // why the driver could not be asked; the rest is then of an earlier time
	Taken     time.Time  `json:"taken"`
	Offers    []GPUOffer `json:"offers"` // of all GPUs together
	GPUs      []GPU      `json:"gpus"`
}

// DrainRequest takes a GPU out of use until it is put back.
type DrainRequest struct {
	Why string `json:"why"` // shown to administrators; may be empty
}

// GPUChange is what has become of a GPU that was taken out of use or put back, with all that there is.
type GPUChange struct {
	GPU    string `json:"gpu"`    // its UUID
	Remark string `json:"remark"` // what keeps it out of use all the same; empty: nothing does, or it was to be out of use
	GPUs
}

// GPUOffer is what can be asked for.
type GPUOffer struct {
	Name      string `json:"name"` // as a profile or a job asks for it: "1g.18gb", "mps:25%/20G", "shared", "whole"
	Free      int    `json:"free"` // how many can be had now, if nothing else is taken
	Most      int    `json:"most"`
	Isolation string `json:"isolation"` // hardware, cgroup, process or none
}

// GPU is a physical GPU.
type GPU struct {
	Index       int        `json:"index"`
	UUID        string     `json:"uuid"`
	Model       string     `json:"model"`
	Mode        string     `json:"mode"`      // whole, mig, mps or shared
	Isolation   string     `json:"isolation"` // of its slices
	Condition   string     `json:"condition"` // ready, occupied, drained, lost or unset
	Why         string     `json:"why"`
	Memory      int64      `json:"memory"`      // bytes
	MemoryUsed  *int64     `json:"memory_used"` // bytes; null: not known
	Utilisation *float64   `json:"utilisation"` // percent of the time in which any kernel ran; null: it cannot be measured
	Power       *float64   `json:"power"`       // W
	Temperature *int       `json:"temperature"` // degrees Celsius
	Offers      []GPUOffer `json:"offers"`
	Slices      []GPUSlice `json:"slices"`
}

// GPUSlice is a part of a GPU: held, cut out and free, somebody else's, or not to be used.
type GPUSlice struct {
	Name     string     `json:"name"`
	Place    string     `json:"place"` // the memory slots, such as "0-3"; empty: the GPU is not cut
	Memory   int64      `json:"memory"`
	State    string     `json:"state"`    // held, lent, ready, foreign or quarantined
	User     string     `json:"user"`     // empty: nobody, or not the caller's to know
	Workload string     `json:"workload"` // likewise
	Borrower string     `json:"borrower"` // the job that has it meanwhile; likewise
	Since    *time.Time `json:"since"`    // of the lease
	Until    *time.Time `json:"until"`    // of a quarantine
	Why      string     `json:"why"`
	Use      GPUUse     `json:"use"`
}

// GPUUse is how much of a slice is used. What cannot be measured is null, never 0.
type GPUUse struct {
	Source     string     `json:"source"`          // gpm, utilisation, process, process-list; empty: nothing is
	SM         *float64   `json:"sm"`              // percent of its processors, of the last minute
	Memory     *int64     `json:"memory"`          // bytes
	Peak       *int64     `json:"peak"`            // bytes, most since it was leased
	Energy     *float64   `json:"energy_estimate"` // J since it was leased
	Idle       *time.Time `json:"idle"`            // since when; null: it is not, or nobody can say
	Hint       string     `json:"hint"`            // such as "held 71G, used at most 9G: 1g.18gb would do"
	Unmeasured string     `json:"unmeasured"`      // why there is no number
}

// Slice is the part of a GPU that a session or job holds.
type Slice struct {
	Name      string `json:"name"`
	Model     string `json:"model"`
	UUID      string `json:"uuid"` // of the GPU
	Memory    int64  `json:"memory"`
	Isolation string `json:"isolation"`
	Simulated bool   `json:"simulated"`
	Borrowed  bool   `json:"borrowed"` // from an idle session: the job goes back in line when its owner returns
	Use       GPUUse `json:"use"`
}

// GPUSeries is how much of its slice a session or job has used over time, the oldest first.
type GPUSeries struct {
	Points []GPUPoint `json:"points"`
}

// GPUPoint is one value: of 10 s, or of 5 min when it is older than an hour or so. What was not measured is null.
type GPUPoint struct {
	At     time.Time `json:"at"`     // when it began
	SM     *float64  `json:"sm"`     // percent of the processors, the mean
	Top    *float64  `json:"top"`    // percent, the highest
	Memory *int64    `json:"memory"` // bytes, the most
}
