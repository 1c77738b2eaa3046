package spawner

import (
	"cmp"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/gpu"
)

// PointEnv tells a job that is a point of a scan its number in it, from 0.
const PointEnv = "SLIPWAY_POINT"

// MostPoints is how many points a scan has at most.
const MostPoints = 10_000

// Point is what one job of a scan has of its own.
type Point struct {
	Env  map[string]string // beside the scan's, and before it
	Argv []string          // in place of the scan's. Empty: the scan's
}

// JobRequest asks for one job. Its Spec is that of the record, but that Environment may be any reference, and Inputs
// follow from the files.
type JobRequest struct {
	Name string
	Spec
	Backend string // empty: the site's default
	// repeating a request with the same one gives the same job. Empty: every request is a new one
	RequestID string
	Session   ID                // from which it is submitted, if any
	Files     map[string][]byte // the input files, by name without directories
	Blobs     map[string]string // more input files, by name: digests of what the caller has put into her store
	After     []string          // jobs and scans of the caller's that must be done before it starts
	Points    []Point           // of Plan alone: for a scan of these
}

// KernelRequest asks for one kernel: a session that its user starts by herself, beside the servers that her Hub knows.
type KernelRequest struct {
	Name    string // the user's word for it, such as its kernelspec's; many may have the same
	Spec    Spec   // Argv has {connection_file} where the agent puts its own
	Backend string // where it is to run. Empty: Config.Sessions
	Launch  string // names this start; repeating the request with the same one is harmless
	ID      string // as Workload.Kernel
	Entry   string // as which it is counted among all: what the site calls it, without words of users'. Empty: Name
	Warm    int    // how many of its entry may stand by to be next kernels, of all users together; see warm_kernel.go
}

// MostPriority is the highest priority that a job may have among its owner's; the lowest is as far below zero.
const MostPriority = 100

// SpecPatch is what is to be other in the Spec of a job: nil or empty is as before.
type SpecPatch struct {
	Environment string
	Resources   *Resources
	TimeLimit   *time.Duration
	GPU         *gpu.Request
	Retries     *int
	Priority    *int
}

// Apply returns a Spec with what is to be other in it.
func (p SpecPatch) Apply(s Spec) Spec {
	s.Environment = cmp.Or(p.Environment, s.Environment)
	s.Resources = *cmp.Or(p.Resources, &s.Resources)
	s.TimeLimit = *cmp.Or(p.TimeLimit, &s.TimeLimit)
	s.GPU = *cmp.Or(p.GPU, &s.GPU)
	s.Retries = *cmp.Or(p.Retries, &s.Retries)
	s.Priority = *cmp.Or(p.Priority, &s.Priority)
	return s
}

// Resubmission asks for a new job, or scan, with what an earlier one was submitted with but for what is named here.
type Resubmission struct {
	Name *string // nil: as before
	SpecPatch
	Backend   string   // empty: as before
	After     []string // what the new one is to start after: what the earlier one has waited for does not count
	Scan      bool     // as a scan also where it is one point
	RequestID string   // as in JobRequest
	Session   ID       // from which it is submitted, if any
}

// MostRetries is how often a job may be tried again by itself.
const MostRetries = 100

// Retry asks that a job which has ended be tried again, in its place.
type Retry struct {
	Resources *Resources     // nil: as before
	TimeLimit *time.Duration // nil: as before
	Of        []Ending       // it is not if it has ended otherwise. Empty: if it has failed or was canceled
	// repeating a request with the same one tries nothing twice. Empty: every request is a new one
	RequestID string
}

// SessionRequest asks for one start of a session.
type SessionRequest struct {
	User    User
	Name    string // the Hub's server name; empty for the default server
	Kind    Kind
	Spec    Spec
	Backend string // where it is to run. Empty: Config.Sessions
	Launch  string // names this start; repeating the request with the same one is harmless
	// discard the changes that a session of this name, image and environment keeps, and start without them
	Fresh   bool
	Secrets control.Env // for the app; sealed at rest until the app has them, and gone then
	Kernel  string      // of kernels: as Workload.Kernel
	Entry   string      // of kernels: as Workload.Entry
	From    ID          // as Workload.Session
}
