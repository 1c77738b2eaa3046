// Package hubapi is what is spoken on the native API, /api/v1: the wire types and the Go client. The tests of both
// clients, Go and Python, read the examples in testdata, which are the contract. The comments of types and fields stand
// in the document that the service has of its API (package openapi), which a test of hubapi/server writes; the types of
// the Python client are made of that document.
//
// The package must not know the engine: it imports only the table of errors. So some types have the fields of one that
// the engine or images store, such as Outcome, Event or Environment. They stay apart: a program that speaks the API
// carries none of what runs the service, and a stored record may change while the API does not. hubapi/server/convert
// makes one of the other.
package hubapi

import (
	"strings"
	"time"
)

// Base is the path below which the native API lives.
const Base = "/api/v1"

// Self names, in place of a session's id, the session that the caller runs in.
const Self = "self"

// Me says who the service takes the caller for.
type Me struct {
	User    string `json:"user"`
	Hub     string `json:"hub"`
	Admin   bool   `json:"admin"`
	Session string `json:"session"` // the workload that the caller runs in; empty outside
}

// Image is an image that a profile offers.
type Image struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Ref    string `json:"ref"`    // as sessions of it have it
	Active int    `json:"active"` // sessions of it that there are now, of the caller's hub
}

// Profile is one kind of session that the site offers.
type Profile struct {
	Name        string  `json:"name"`
	Title       string  `json:"title"`
	Description string  `json:"description"`
	Kind        string  `json:"kind"`
	Images      []Image `json:"images"` // the first is the default
	Resources
	MaxCPUs      float64 `json:"max_cpus"`
	MaxMemory    string  `json:"max_memory"`
	Isolation    string  `json:"isolation"` // the weakest that its slice has; empty without one
	Default      bool    `json:"default"`
	Backend      string  `json:"backend"` // where its sessions run; empty: where the site's usually do
	Availability         // of a new one of its usual size
}

// HeldAt is how Waiting begins for a workload that a batch system holds.
const HeldAt = "Held at "

// Workload is what sessions and jobs have in common.
type Workload struct {
	Meta
	Kind   string `json:"kind"`
	Phase  string `json:"phase"`
	Want   string `json:"want"`
	Launch string `json:"launch"`
	Resources
	Since   time.Time  `json:"since"` // when the phase began
	Up      *time.Time `json:"up"`    // when it last began to run
	Outcome *Outcome   `json:"outcome"`
	Waiting string     `json:"waiting"` // why it waits, here or in a batch system's queue, in words
	Queue   *Queue     `json:"queue"`   // where it stands in line; null: it does not wait
	Slice   *Slice     `json:"slice"`   // what it holds of one; null: nothing
	Host    string     `json:"host"`    // where a batch system runs it, or ran it last; empty: nowhere, or on the service's own host
	// Evictions is how often a batch system took its place away since its start was asked for: each time it began anew.
	Evictions int `json:"evictions"`
	// Standby is whether it is a kernel that its user has not asked for yet, and is to become her next: it starts, or
	// stands ready.
	Standby bool `json:"standby,omitempty"`
}

// Queue is where a workload stands in line for room.
type Queue struct {
	Place    int    `json:"place"`    // from 1
	Lacks    string `json:"lacks"`    // what is missing for the first in line
	Estimate int64  `json:"estimate"` // seconds until its turn; -1: nobody knows
}

// Session is one interactive workload.
type Session struct {
	Workload
	Profile     string     `json:"profile"`
	Image       string     `json:"image"`
	Environment string     `json:"environment"`   // the digest of what it started from, over Image; empty: from the image alone
	Prefix      string     `json:"prefix"`        // the URL path that is its own, decoded
	URL         string     `json:"url,omitempty"` // of a start, where the Hub knows under which address its users find it
	Page        *string    `json:"page"`          // the path, on the Hub's host, of the page that shows it; null: there are no pages
	SSH         string     `json:"ssh"`           // what to type to reach it by ssh; empty: there is none, or none that could be typed
	Active      *time.Time `json:"active"`        // when something last went on in it
	Visited     *time.Time `json:"visited"`       // when somebody first opened it
	KeepUntil   *time.Time `json:"keep_until"`    // before then it is not stopped for want of activity
	Stops       *Stops     `json:"stops"`         // null: it is not stopped unless somebody asks
	// Alerts are what its owner is to know of its limits, one for each cause, the newest last.
	Alerts []Alert `json:"alerts,omitempty"`
}

// Alert says that a running session has come to one of its limits.
type Alert struct {
	Cause   string    `json:"cause"`   // memory: programs of it were killed; disk: its changes take nearly what they may
	Message string    `json:"message"` // with the figure
	Remedy  string    `json:"remedy"`  // what to choose
	At      time.Time `json:"at"`
}

// Stops says when and why the service will stop a session.
type Stops struct {
	At      time.Time `json:"at"`
	Why     string    `json:"why"`
	CanKeep bool      `json:"can_keep"`
	MaxKeep string    `json:"max_keep"` // such as "24h0m0s"
	Warning string    `json:"warning"`  // how long before then its user is to be told, such as "10m0s"
}

// Left counts the files of a job but those of OfRunner.
type Left struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// LeftOf counts files.
func LeftOf(files []File) (l Left) {
	for _, f := range files {
		if !f.OfRunner() {
			l.Files, l.Bytes = l.Files+1, l.Bytes+f.Size
		}
	}
	return l
}

// State is a job's phase and outcome in one word.
type State string

// The states of a job.
const (
	JobPending  State = "pending"
	JobRunning  State = "running"
	JobDone     State = "done"
	JobFailed   State = "failed"
	JobCanceled State = "canceled"
)

// Ended reports whether the job has come to its end, good or bad.
func (s State) Ended() bool { return s == JobDone || s == JobFailed || s == JobCanceled }

// Outcome is how the last start of a workload ended.
type Outcome struct {
	ExitCode int       `json:"exit_code"`
	Reason   string    `json:"reason"`
	Remedy   string    `json:"remedy"`
	Tail     string    `json:"tail"` // the last lines of its output; lists of jobs do without
	Failed   bool      `json:"failed"`
	Canceled bool      `json:"canceled"`
	Expired  bool      `json:"expired"` // a session whose time was up: it was idle, too old or never opened
	At       time.Time `json:"at"`
	MaxRSS   int64     `json:"max_rss"` // the most memory it had at once, in bytes
	CPU      float64   `json:"cpu"`     // seconds
	Wall     float64   `json:"wall"`    // seconds that it ran
	Signal   int       `json:"signal"`  // that ended it; 0: none did
	Cause    Cause     `json:"cause"`   // of a failure, for programs
	GPU      *SliceUse `json:"gpu"`     // null: it had none, or nothing was measured
}

// Event is one step of a workload.
type Event struct {
	Seq     int64     `json:"seq"`
	Time    time.Time `json:"time"`
	Percent int       `json:"percent"` // -1: unknown
	Message string    `json:"message"`
	Final   bool      `json:"final"`
	Failed  bool      `json:"failed"`
}

// Progress is one step of a freeze.
type Progress struct {
	Stage   string  `json:"stage"`
	Percent float64 `json:"percent"` // of the stage; -1: unknown
	Files   int64   `json:"files"`
	Bytes   int64   `json:"bytes"`
	Message string  `json:"message"`
}

// File is a file that a job has left.
type File struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// OfRunner reports whether it is what the runner of cells and functions notes for the notebook: no work of the user's.
func (f File) OfRunner() bool {
	return f.Name == "slipway-outcome.json" || f.Name == "slipway-result.pkl" ||
		strings.HasPrefix(f.Name, "slipway-shown")
}

// SessionRequest asks for one start of a session. Only a hub's Spawner may ask.
type SessionRequest struct {
	User       string            `json:"user"`
	ServerName string            `json:"server_name"`
	Options    map[string]any    `json:"options"` // see Profile; empty: the default profile
	Launch     string            `json:"launch"`  // names this start; repeating the request with the same one is harmless
	Prefix     string            `json:"prefix"`  // as in JUPYTERHUB_SERVICE_PREFIX, URL-escaped
	Env        map[string]string `json:"env"`     // holds secrets
	Argv       []string          `json:"argv"`
}

// String hides the environment.
func (r SessionRequest) String() string { return "start of a session of " + r.User }

// GoString hides the environment.
func (r SessionRequest) GoString() string { return r.String() }

// KeepRequest asks that a session be kept.
type KeepRequest struct {
	For string `json:"for"` // such as "4h"
}

// ServerRequest asks the caller's Hub for one of her servers.
type ServerRequest struct {
	Name    string         `json:"name"`    // empty: the default server
	Options map[string]any `json:"options"` // as on the spawn form: profile, image, cpus, memory, environment, fresh; empty: the default profile
}

// FreezeRequest names the environment that a freeze is to make.
type FreezeRequest struct {
	Name  string   `json:"name"`
	Tag   string   `json:"tag"`
	Note  string   `json:"note"`
	Allow []string `json:"allow_secret,omitempty"` // paths that may hold what looks like a secret; one that ends in a slash means all below it
	// Imported are the modules that kernels have imported, by the path of the interpreter (empty: the image's own).
	// They are tried in the image alone, behind the freeze.
	Imported map[string][]string `json:"imported,omitempty"`
	CVMFS    []string            `json:"cvmfs,omitempty"` // repositories that the session uses
}

// The lists are wrapped, so that they can grow.
type (
	// Sessions is a list of sessions.
	Sessions struct {
		Sessions []Session `json:"sessions"`
	}
	// Jobs is a list of jobs.
	Jobs struct {
		Jobs  []Job  `json:"jobs"`
		Scans []Scan `json:"scans,omitempty"` // where scans were asked for, or submitted
	}
	// Environments is a list of environments.
	Environments struct {
		Environments []Environment `json:"environments"`
	}
	// Files is a list of files.
	Files struct {
		Files []File `json:"files"`
	}
)

// The names of a freeze's events.
const (
	EventProgress = "progress" // data: Progress
	EventDone     = "done"     // data: what the request makes
	EventError    = "error"    // data: ErrorBody
)
