package hubapi

import (
	"context"
	"net/http"
)

// KernelSpec is a kind of Jupyter kernel that the caller may start, as it would start now.
type KernelSpec struct {
	Name        string `json:"name"`
	DisplayName string `json:"display_name"`
	Language    string `json:"language"`
	Profile     string `json:"profile"`
	Backend     string `json:"backend"`     // empty: where the site's sessions usually run
	Environment string `json:"environment"` // what it is called; empty: it runs in none
	Digest      string `json:"digest"`      // the environment's
	Stack       string `json:"stack"`       // the software stack that it runs; empty: none
	Resources
	IdleLimit string `json:"idle_limit"` // such as "1h0m0s"; "0s": it is never shut down for being idle
	// To what its user may switch her next kernels.
	GPUs      []string     `json:"gpus"` // the first is the usual one
	MaxCPUs   float64      `json:"max_cpus"`
	MaxMemory string       `json:"max_memory"`
	Switched  KernelSwitch `json:"switched"` // what she has switched
	Available KernelRoom   `json:"available"`
	// What stands by to be next kernels, for administrators; null: none may, or the caller is not told.
	Standbys *KernelStandbys `json:"standbys,omitempty"`
}

// KernelStandbys are those of an entry of the site's, which may stand for several kernelspecs.
type KernelStandbys struct {
	Most    int    `json:"most"`    // that there may be
	Ready   int    `json:"ready"`   // that can be taken
	Lacking int    `json:"lacking"` // users' next kernels for which none stands by though one may
	Why     string `json:"why"`     // why not, of one of those
}

// KernelSwitch is what a user's next kernels of a kernelspec have in place of the usual. In a request, what is empty
// stays as it is, and SwitchDefault goes back to the usual.
type KernelSwitch struct {
	GPU    string `json:"gpu,omitempty"`
	CPUs   string `json:"cpus,omitempty"`
	Memory string `json:"memory,omitempty"`
	// Environment is what they run in: a digest, name, name:tag or owner/name:tag. It is kept as the digest that it is
	// then.
	Environment string `json:"environment,omitempty"`
}

// SwitchDefault ends a switch.
const SwitchDefault = "default"

// KernelRoom says how soon a kernel would start.
type KernelRoom struct {
	State string `json:"state"` // one of the constants below
	Words string `json:"words"` // for people
	Wait  int64  `json:"wait"`  // seconds until a new one's turn; -1: nobody knows
}

// The states of KernelRoom.
const (
	RoomFree    = "free"
	RoomQueued  = "queued"  // a batch system starts it when it has a place
	RoomWaits   = "waits"   // it would wait in line
	RoomLimit   = "limit"   // its user has as many kernels as she may
	RoomRefused = "refused" // not for her, or not known to be, or never
)

// KernelSpecs is the answer of GET /kernelspecs.
type KernelSpecs struct {
	KernelSpecs []KernelSpec `json:"kernelspecs"` // the first is the default
}

// KernelSpecs lists the kernels that the caller may start.
func (c *Client) KernelSpecs(ctx context.Context) ([]KernelSpec, error) {
	list, err := fetch[KernelSpecs](ctx, c, http.MethodGet, "/kernelspecs", nil)
	return list.KernelSpecs, err
}

// SwitchKernel says what the caller's next kernels of a kernelspec are to have. Self is that of the kernel which asks,
// and elsewhere the one that can be switched so.
func (c *Client) SwitchKernel(ctx context.Context, name string, to KernelSwitch) (KernelSpec, error) {
	return fetch[KernelSpec](ctx, c, http.MethodPost, path("kernelspecs", name, "switch"), to)
}
