// Package worker is the program that a batch system starts on a worker node: it gets the image there, starts it under
// Apptainer with the agent as first process, and leaves behind what the batch system is to bring back. It is `slipway
// worker`, in the agent's own static binary, and runs as the workload's user.
//
// Promises: it needs of the node no more than Apptainer and room on disk; whatever goes wrong is said in a file that
// travels back, in plain words; nothing that it started outlives it; no secret is in an argument, in the environment or
// in what it prints. The package must not know the batch system, nor what the agent runs.
package worker

import (
	"time"

	"slipway/internal/agent/control"
)

// The sandbox that a batch system sends and brings back; paths are relative to it.
const (
	PlanFile = "plan.json" // sent: a Plan; no secret
	LinkDir  = "link"      // sent: bound on control.LinkDir; uplink.json, which is secret, and a job's app.json
	Inputs   = "inputs"    // sent: a job's input files
	Program  = "slipway"   // sent: the agent's program, which this is too
	OutDir   = "out"       // comes back, whatever happens
)

// What is in OutDir.
const (
	EndFile = "end.json" // an End
	// the agent's last control.Status, or the worker's where it left none; missing when nothing had begun
	StatusFile = "status.json"
	LogFile    = "log"          // what the app printed
	FilesDir   = "files"        // a job's output files
	PackFile   = "changes.pack" // a session's changes, as package images/changeset streams them
)

// How many bytes of them are brought back at most. All of it may be anything: it is the user's.
const (
	MaxStatus = 4 << 20
	MaxLog    = control.LogLimit
)

// Node is what runs find on the nodes of a batch system.
type Node struct {
	Apptainer string `json:"apptainer,omitempty"` // the program; empty: apptainer on PATH
	// Cache is a directory of the node, for images of all users' jobs: each user has her own part of it, and what root
	// puts into it is for all. Where it is not there, each user has a directory beside it. Empty: each run fetches its
	// own.
	Cache string `json:"cache,omitempty"`
	// Scratch is a directory of the node, on a disk of its own, for what the run writes until it comes back: where the
	// sandbox lies on what the nodes share. Empty, or where it is not there: it writes into the sandbox.
	Scratch string   `json:"scratch,omitempty"`
	Binds   []string `json:"binds,omitempty"` // such as /cvmfs: bound where they are there
}

// Plan is all that the worker needs to know. It holds no secret.
type Plan struct {
	Node
	ID        string            `json:"id"`
	Launch    string            `json:"launch"` // the run, as spawner.Workload.Run gives it
	Session   bool              `json:"session"`
	Fleeting  bool              `json:"fleeting,omitempty"` // a session of which nothing is kept
	Image     Image             `json:"image"`
	CacheSize int64             `json:"cache_size,omitempty"` // most bytes of one user's images in Cache; 0: 20 GiB
	Login     string            `json:"login"`                // of the user, inside
	Home      string            `json:"home"`                 // inside
	HomeDir   string            `json:"home_dir,omitempty"`   // on the node; where it is not there or another's, home begins empty and lasts as long as the run
	Env       map[string]string `json:"env,omitempty"`        // public
	GPU       bool              `json:"gpu,omitempty"`        // make the node's NVIDIA driver usable inside
	TimeLimit time.Duration     `json:"time_limit,omitempty"`
	Grace     time.Duration     `json:"grace,omitempty"` // between asking the app to end and killing it
}

// Image says how the node gets at the image: the first of these that works.
type Image struct {
	Path   string `json:"path,omitempty"` // on a file system that the nodes share, or in the sandbox
	Digest string `json:"digest"`         // of the environment; its SIF is to be had at control.Uplink.Image
	Size   int64  `json:"size,omitempty"` // bytes of the SIF, about
}

// End is how a run ended, in the worker's words.
type End struct {
	ExitCode int    `json:"exit_code"`
	Reason   string `json:"reason,omitempty"` // why it could not run, or was ended; empty: the agent's status says all
	Remedy   string `json:"remedy,omitempty"`
	Tail     string `json:"tail,omitempty"` // the last lines of Apptainer and of the agent
	// PackSize is how many bytes PackFile has; 0: there is none. One that comes back with fewer was cut off on its way;
	// whatever else may befall it shows in the sum at its end.
	PackSize int64     `json:"pack_size,omitempty"`
	Host     string    `json:"host"`
	Started  time.Time `json:"started"` // by the node's clock
	Ended    time.Time `json:"ended"`
}
