package gpu

import "strings"

// Slice is the share of a GPU that one workload holds. It is saved in the workload's record: to save it is to lease it.
// It names the GPU and the place on it, never an instance's own ids alone, which another instance may bear later.
type Slice struct {
	GPU       string    `json:"gpu"`   // UUID of the device
	Model     string    `json:"model"` // its name, for people
	Mode      Mode      `json:"mode"`
	Name      string    `json:"name"`                // as a request is written: "1g.18gb", "mps:25%/20G", "shared/10G", "whole"
	Profile   string    `json:"profile,omitempty"`   // mig: the driver's name of it
	Placement Placement `json:"placement,omitzero"`  // mig
	Percent   int       `json:"percent,omitempty"`   // mps: of the processors
	Memory    int64     `json:"memory"`              // bytes that the workload may use
	SMs       int       `json:"sms"`                 // processors that it may use
	Tier      Tier      `json:"tier"`                // how its memory is kept apart
	Group     string    `json:"group,omitempty"`     // shared: who is on the GPU with it
	Simulated bool      `json:"simulated,omitempty"` // no such hardware exists
}

// Same reports whether two slices are one place: the same instance of a GPU that is cut, or the same whole GPU.
func (s Slice) Same(o Slice) bool {
	return s.GPU == o.GPU && s.Mode == o.Mode && s.Placement == o.Placement
}

// String names the slice to people: "1g.18gb of NVIDIA H200".
func (s Slice) String() string {
	name := s.Name + " of " + s.Model
	if s.Simulated {
		name += " (simulated)"
	}
	return name
}

// Binding is what a container is given so that it can use its slice and no other. It is public.
type Binding struct {
	// Name is the container's own CDI device, the same for all starts of a workload: "slipway.io/gpu=<id>".
	Name    string            `json:"name"`
	Devices []DeviceNode      `json:"devices"`
	Mounts  []Mount           `json:"mounts"`
	Env     map[string]string `json:"env"`
	Expect  Expectation       `json:"expect"`
	// Limit is what the kernel is to hold the container to: Fleet.Confine is called with its cgroup before its app
	// starts. Zero: nothing.
	Limit int64 `json:"limit,omitempty"` // bytes
}

// DeviceNode is a device file.
type DeviceNode struct {
	Path  string `json:"path"`           // inside; outside too, unless Host says otherwise
	Host  string `json:"host,omitempty"` // outside
	Major int64  `json:"major"`
	Minor int64  `json:"minor"`
}

// Mount is a file of the driver, or a directory of an MPS daemon; read-only unless Write says otherwise.
type Mount struct {
	Source string `json:"source"`
	Target string `json:"target"`
	Write  bool   `json:"write,omitempty"` // what an MPS daemon and its clients share as their /dev/shm
}

// Expectation is what a self-test inside must find.
type Expectation struct {
	UUIDs  []string `json:"uuids"`            // as the CUDA runtime must see them: of the GPU, or of the MIG instance
	Memory int64    `json:"memory"`           // bytes that can be allocated at most
	SMs    int      `json:"sms"`              // 0: not to be checked
	Tier   Tier     `json:"tier"`             // with None the memory limit is not looked at
	Driver string   `json:"driver,omitempty"` // its version
	Nodes  []string `json:"nodes,omitempty"`  // NVIDIA's device files, and no others; empty: only their kinds and number are checked
}

// Hidden is the environment that keeps a container away from all GPUs, whatever its image asks for: the vendor's hook
// obeys it.
func Hidden() map[string]string { return map[string]string{"NVIDIA_VISIBLE_DEVICES": "void"} }

// Vendor is the CDI vendor and class of Slipway's devices.
const Vendor = "slipway.io/gpu"

// ShortUUID returns the beginning of a UUID, as people tell GPUs apart: "GPU-5368a050".
func ShortUUID(uuid string) string {
	parts := strings.SplitN(uuid, "-", 3)
	if len(parts) < 2 {
		return uuid
	}
	return parts[0] + "-" + parts[1]
}

// Satisfies reports whether s would do for r, were it free.
func (s Slice) Satisfies(r Request) bool {
	if s.Mode != r.Mode || r.Needs != (Needs{}) || !s.Tier.AtLeast(r.LeastTier()) || !strings.Contains(strings.ToLower(s.Model), strings.ToLower(r.Model)) {
		return false
	}
	switch r.Mode {
	case MIG:
		return s.Profile == r.Profile || !strings.Contains(r.Profile, ".") && strings.HasPrefix(s.Profile, r.Profile+".")
	case MPS:
		return s.Percent >= r.Percent && s.Memory >= r.Memory
	case Shared:
		return s.Group == r.Group && s.Memory >= r.Memory
	default:
		return true
	}
}
