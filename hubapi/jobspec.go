package hubapi

import "time"

// Meta says which workload or scan something is, whose, and where it runs.
type Meta struct {
	ID      string    `json:"id"`
	User    string    `json:"user"`
	Name    string    `json:"name"`
	Backend string    `json:"backend"`
	Created time.Time `json:"created"`
}

// Resources are what a workload has of a host, or has where nothing else is asked for.
type Resources struct {
	CPUs   float64 `json:"cpus"`
	Memory string  `json:"memory"` // "2G" is 2 GiB
	GPU    string  `json:"gpu"`    // the slice of one; "none": none
}

// Availability says how soon a new workload would start.
type Availability struct {
	Free     int    `json:"free"`     // how many would start at once; -1: not limited, or not known
	Most     int    `json:"most"`     // how many run at once when nothing else does; -1: not limited, or not known
	Waiting  int    `json:"waiting"`  // how many stand in line before it
	Lacks    string `json:"lacks"`    // why none would start now, in words; empty: one would
	Estimate int64  `json:"estimate"` // seconds until its turn; -1: nobody knows
}

// JobSpec is what a job is to be. The request for a job has it as the job itself has: a new field of jobs is added
// here, and in JobPatch if it may be other when the job is submitted again.
type JobSpec struct {
	Environment string `json:"environment"` // a digest; in a request also a unique prefix of it, name or name:tag
	// only its owner is told, where she asks for one job: it may hold secrets
	Argv     []string `json:"argv,omitempty"`
	Retries  int      `json:"retries"`  // how often it is tried again by itself when it fails
	Priority int      `json:"priority"` // among its owner's jobs: higher goes first
	// the jobs and scans of its owner's that it waits for until they are done
	After []string `json:"after,omitzero"`
	// names or patterns of the output files that it has to leave, of which no other comes back; empty: whatever it
	// leaves
	Out []string `json:"out,omitzero"`
}

// JobPatch is what is to be other in a JobSpec. What is null, empty or absent is as before.
type JobPatch struct {
	Environment string   `json:"environment,omitempty"`
	Retries     *int     `json:"retries,omitempty"`
	Priority    *int     `json:"priority,omitempty"`
	After       []string `json:"after,omitempty"`
}

// JobLimits are what a request asks for of a job's limits, as a number or as a string. A job itself has them in one
// form: see Resources and Job.
type JobLimits struct {
	// absent: the site's default or, of a job that there is, as before; so are the next
	CPUs      any `json:"cpus,omitempty"`
	Memory    any `json:"memory,omitempty"`     // bytes, or a string such as "2G"
	TimeLimit any `json:"time_limit,omitempty"` // seconds, or a string such as "1h"
}

// JobInputs are the files that a job finds in its working directory, by their names.
type JobInputs struct {
	Files map[string][]byte `json:"files"` // small ones: a request has 1 MiB at most
	// the others: the digests of what was put into the caller's store, see PutBlob
	Blobs map[string]string `json:"blobs,omitempty"`
}

// ScanPoint is what makes a job a point of a scan.
type ScanPoint struct {
	Scan  string `json:"scan"`  // of which it is a point; empty: of none
	Point int    `json:"point"` // its number in the scan, from 0
	// Parameters are what sets the point apart from others of its scan; null: it is of none.
	Parameters map[string]string `json:"parameters"`
}

// JobRequest asks for one job, or for a scan.
type JobRequest struct {
	Name string `json:"name"`
	JobSpec
	JobLimits
	JobInputs
	GPU any               `json:"gpu,omitempty"` // such as "1g.18gb"; absent: none
	Env map[string]string `json:"env"`           // public
	// it may borrow an idle session's slice, and is put back in line when its owner returns
	Preemptible bool   `json:"preemptible,omitempty"`
	Backend     string `json:"backend,omitempty"` // empty: the site's default
	// a scan: a job for each; the answer is then a Jobs, and not a Job
	Points []Point `json:"points,omitempty"`
	// instead of points that are too many for a request: the digest of a JSON list of them, see JobInputs
	PointsBlob string `json:"points_blob,omitempty"`
	// repeating the request with the same one gives the same job
	RequestID string `json:"request_id"`
}

// Job is one batch workload.
type Job struct {
	Workload
	JobSpec
	ScanPoint
	Session   string `json:"session"`
	TimeLimit string `json:"time_limit"` // such as "1h0m0s"
	State     State  `json:"state"`
	// how often it went back in line: its slice was called back, or turned out bad; or a batch system evicted it
	Requeued int          `json:"requeued"`
	Held     bool         `json:"held"`     // its owner has it wait until she releases it
	Progress *JobProgress `json:"progress"` // what its payload says of how far it is; null: nothing
	Attempt  int          `json:"attempt"`  // which try this is, from 1
	// Attempts are how the tries before this one ended, where one job is asked for; lists do without.
	Attempts []Outcome `json:"attempts,omitempty"`
	Origin   string    `json:"origin"` // the job from which it was submitted anew; empty: none
	// when its record and its files will be removed; null: it has not ended, or never
	Expires *time.Time `json:"expires"`
	// Left is what a job that has ended has left, where a list is asked for with files=yes.
	Left *Left `json:"left,omitempty"`
}

// ResubmitRequest asks for a new job, or scan, with what an earlier one was submitted with but for what is named here.
type ResubmitRequest struct {
	Name *string `json:"name,omitempty"`
	JobPatch
	JobLimits
	GPU       any    `json:"gpu,omitempty"`
	Backend   string `json:"backend,omitempty"`
	RequestID string `json:"request_id"` // as in JobRequest
}

// RetryRequest asks that what has failed be tried again: the same job, in the same place of its scan, with a new
// attempt.
type RetryRequest struct {
	// that are meant; empty: of a scan failed, of a single job failed and canceled
	States []State `json:"states,omitempty"`
	JobLimits
	RequestID string `json:"request_id"` // repeating the request with the same one tries nothing twice
}
