// Package gpu holds the words in which Slipway speaks of GPUs: devices, modes, requests, slices, and what a driver can
// tell and do.
//
// It promises to be pure: no I/O, no clock, no state. It imports no vendor's library; internal/gpu/nvml is the only
// package that does, and it runs in a helper program of its own, so the service and the agent stay static.
package gpu

import "slices"

// Mode is how a physical GPU is shared out. A GPU has one mode at a time, and changes it only when nothing runs on it.
type Mode string

// The modes.
const (
	Whole Mode = "whole" // one workload has all of it
	MIG   Mode = "mig"   // cut in hardware into instances
	// several processes at once through one daemon, with a share of the processors and of the memory each
	MPS    Mode = "mps"
	Shared Mode = "shared" // time slicing among workloads that trust one another
)

// Any asks for whichever GPU a batch system has that meets the request's needs. No GPU is in this mode.
const Any Mode = "any"

// Modes returns all modes that a GPU can be in, the usual first.
func Modes() []Mode { return []Mode{Whole, MIG, MPS, Shared} }

// Tier is what keeps a slice's memory apart from its neighbours'.
type Tier string

// The tiers, the strongest first.
const (
	Hardware Tier = "hardware" // the GPU itself: whole and mig
	Cgroup   Tier = "cgroup"   // the kernel's driver, for all processes of a container together
	Process  Tier = "process"  // the MPS daemon, for each process by itself; a fatal fault of one ends all on the GPU
	None     Tier = "none"     // nothing: a watchdog ends who uses too much
)

// Tiers returns all tiers, the strongest first.
func Tiers() []Tier { return []Tier{Hardware, Cgroup, Process, None} }

// AtLeast reports whether t keeps apart as well as least or better. Every tier is at least the empty one.
func (t Tier) AtLeast(least Tier) bool {
	return least == "" || t != "" && slices.Index(Tiers(), t) <= slices.Index(Tiers(), least)
}

// System is what the driver says of itself.
type System struct {
	Driver    string `json:"driver"` // such as "580.159.04"
	NVML      string `json:"nvml"`   // the library's own version
	CUDA      int    `json:"cuda"`   // the newest that the driver serves: 13000 is 13.0
	Simulated bool   `json:"simulated,omitempty"`
}

// Placement is a run of memory slots on a GPU's axis.
type Placement struct {
	Start int `json:"start"`
	Size  int `json:"size"`
}

// Profile is a kind of MIG instance that a GPU can be cut into, as its driver reports it: never from a table of ours.
type Profile struct {
	Name       string      `json:"name"`    // such as "1g.18gb" or "1g.18gb+me"
	ID         int         `json:"id"`      // the driver's number for it
	Compute    int         `json:"compute"` // compute slices
	Memory     int64       `json:"memory"`  // bytes
	SMs        int         `json:"sms"`
	Max        int         `json:"max"` // at once on an empty GPU
	Placements []Placement `json:"placements"`
}

// Device is a physical GPU.
type Device struct {
	Index      int       `json:"index"`
	Minor      int       `json:"minor"` // of /dev/nvidia<minor>
	UUID       string    `json:"uuid"`
	Name       string    `json:"name"` // such as "NVIDIA H200"
	Bus        string    `json:"bus"`  // PCI bus id, as "00000000:01:00.0"
	Capability string    `json:"capability"`
	Memory     int64     `json:"memory"` // bytes
	SMs        int       `json:"sms"`
	ClockMHz   int       `json:"clock_mhz"`
	ECC        bool      `json:"ecc"`
	GPM        bool      `json:"gpm"` // it can measure its instances: Hopper and later
	MIGCapable bool      `json:"mig_capable"`
	MIGEnabled bool      `json:"mig_enabled"`
	MIGReset   bool      `json:"mig_reset"`          // switching MIG needs a reset of the GPU: before Hopper
	Slots      int       `json:"slots,omitempty"`    // memory slots of its axis; 0: it cannot be cut
	Profiles   []Profile `json:"profiles,omitempty"` // also while MIG is off
}

// Profile finds a profile by its name.
func (d Device) Profile(name string) (Profile, bool) {
	i := slices.IndexFunc(d.Profiles, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		return Profile{}, false
	}
	return d.Profiles[i], true
}

// Instance is a MIG instance that is there. One without a CI is the remnant of a creation or a destruction that went
// wrong.
type Instance struct {
	GPU       string    `json:"gpu"`  // UUID of the device
	UUID      string    `json:"uuid"` // of the MIG device; empty for a remnant. A later instance may get the same one
	GI        int       `json:"gi"`
	CI        int       `json:"ci"`      // -1: none
	Profile   string    `json:"profile"` // its name
	Placement Placement `json:"placement"`
	Caps      []int     `json:"caps,omitempty"` // minor numbers of its /dev/nvidia-caps/nvidia-cap<n>: of GI and CI
}

// ProcessUse is a process that has a context on a GPU. PIDs are the host's.
type ProcessUse struct {
	PID    int   `json:"pid"`
	Memory int64 `json:"memory"` // bytes; -1: the driver does not say
	GI     int   `json:"gi"`     // -1: the GPU is not cut
	CI     int   `json:"ci"`
	SM     int   `json:"sm"` // percent of the time since the last look; -1: the driver does not say
}

// Health is what speaks against using a GPU.
type Health struct {
	Lost        bool   `json:"lost"`                  // gone from the bus, or does not answer
	Xid         int    `json:"xid,omitempty"`         // the last critical one since the driver was opened
	Xids        int    `json:"xids,omitempty"`        // how many critical ones since then; 0: not counted
	ECC         int64  `json:"ecc,omitempty"`         // uncorrected errors since the driver was loaded
	RowsPending bool   `json:"rows_pending"`          // memory rows wait for a reset to be remapped
	Temperature int    `json:"temperature,omitempty"` // degrees Celsius
	Reason      string `json:"reason,omitempty"`      // the driver's words
}

// Reading is one measurement of a GPU. What the GPU or its mode cannot measure is -1, never 0.
type Reading struct {
	Utilisation float64             `json:"utilisation"` // percent of the time in which any kernel ran
	SM          float64             `json:"sm"`          // percent of the processors busy (GPM)
	MemoryUsed  int64               `json:"memory_used"` // bytes
	Energy      int64               `json:"energy"`      // mJ since the driver was loaded
	Power       int64               `json:"power"`       // mW
	Temperature int                 `json:"temperature"`
	Instances   map[int]InstanceUse `json:"instances,omitempty"` // by GI
	Processes   []ProcessUse        `json:"processes"`
}

// InstanceUse is one measurement of a MIG instance; -1 where it cannot be measured.
type InstanceUse struct {
	SM         float64 `json:"sm"` // percent (GPM)
	MemoryUsed int64   `json:"memory_used"`
}
