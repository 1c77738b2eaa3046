// Package slurm runs sessions and jobs as jobs of a Slurm cluster, from a host that has Slurm's commands and shares a directory with
// the nodes.
//
// Promises: a run of a workload is at most one job: it is found again by the mark in its comment, and Slurm is told
// never to requeue it; an answer that did not come, or an empty one, says nothing of any job; why a job waits, is held
// or has ended is told in plain words; nothing that a user names can change an option of what is submitted.
//
// It talks to Slurm by sbatch, squeue, sacct and scancel (argv, no shell), as root, and has jobs be their users' by
// sbatch's --uid. Sandboxes lie in the shared directory, for Slurm moves no files. What is not Slurm's own is package
// batch's: this one is a System. The package must not know what the agent runs.
package slurm

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"slipway/internal/errs"
	"slipway/spawner/batch"
	"slipway/spawner/batch/command"
)

// Config is what a backend of Slurm is made of. Its Dir is shared with the nodes, at the same path.
type Config struct {
	batch.Config
	Partition   string
	Account     string
	QOS         string
	Constraint  string // of nodes, as Slurm writes it
	Reservation string
	// GRES says what of Slurm's generic resources a request for a GPU means, such as gpu:v100:1 for whole.
	GRES map[string]string
}

// system is Slurm. It is safe for concurrent use.
type system struct {
	cfg    Config
	run    command.Runner
	marker batch.Marker
	arrays *arrays

	asking sync.Mutex             // held while Slurm is asked for its limits
	known  atomic.Pointer[limits] // as it last told them

	copying  sync.Mutex // guards programs
	programs map[string]string
}

var _ batch.System = (*system)(nil)

const title = "Slurm"

// New makes the backend. It asks nothing of Slurm: that is Check's.
func New(cfg Config) (*batch.Backend, error) {
	cfg = cfg.filled()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return batch.New(cfg.Config, newSystem(cfg, commandsIn(cfg.Bin)))
}

func newSystem(cfg Config, run command.Runner) *system {
	s := &system{cfg: cfg, run: run, marker: cfg.Marker(), arrays: newArrays(cfg.Dir), programs: map[string]string{}}
	s.known.Store(&limits{})
	return s
}

// patience is how long a job is looked for that Slurm knows no more.
const patience = 20 * time.Minute

func (c Config) filled() Config {
	if c.Patience == 0 {
		c.Patience = patience
	}
	c.Name, c.Submitter = "slurm", "sbatch"
	c.Config = c.Config.Filled(title)
	return c
}

// check refuses what could not be an option of sbatch.
func (c Config) check() error {
	for field, word := range map[string]string{
		"partition": c.Partition, "account": c.Account, "qos": c.QOS, "reservation": c.Reservation,
	} {
		if word != "" && !batch.SafeWord.MatchString(word) {
			return errs.Bad("slurm."+field, word, "a name of letters, digits and ._-")
		}
	}
	for _, request := range slices.Sorted(maps.Keys(c.GRES)) {
		if !oneWord(c.GRES[request]) {
			return errs.Bad("slurm.gres."+request, c.GRES[request], "a generic resource such as gpu:v100:1")
		}
	}
	switch {
	case c.Constraint != "" && !oneWord(c.Constraint):
		return errs.Bad("slurm.constraint", c.Constraint, "features of nodes without spaces, such as cvmfs&ib")
	case c.Image == batch.ImageSend:
		return errs.Bad("slurm.image", c.Image, "a path with {digest} in it, or nothing: Slurm moves no files")
	}
	return c.Config.Check()
}

func oneWord(text string) bool { return text != "" && !strings.ContainsAny(text, " \t\r\n\x00") }

// Title is the batch system's name as its people write it.
func (*system) Title() string { return title }

// Arch returns nothing: Slurm has no common names for architectures. A site has partitions or features for them.
func (*system) Arch(string) string { return "" }

// Check looks whether sbatch is there, and what Slurm allows. The queue has been asked before.
func (s *system) Check(ctx context.Context, _ string) error {
	if _, err := s.run(ctx, command.Command{Name: "sbatch", Args: []string{"--version"}}); err != nil {
		return err
	}
	_, err := s.limits(ctx)
	return err
}

// commandsIn returns a runner of Slurm's commands in a directory; empty: of those on PATH.
func commandsIn(dir string) command.Runner {
	return command.Programs{
		System: title, Dir: dir, Keep: []string{"SLURM_CONF="}, Complaints: complaints(), Noise: "sbatch: warning",
		Install: "install Slurm's commands here (slurm-client), or set slurm.bin to their directory",
	}.Run
}

func complaints() []command.Complaint {
	const silent = "Slurm does not answer"
	ask := command.AskAdmin
	return []command.Complaint{
		{Text: "unable to contact slurm controller", Kind: errs.Unavailable, Words: silent, Remedy: ask},
		{Text: "unable to connect", Kind: errs.Unavailable, Words: silent, Remedy: ask},
		{Text: "connection refused", Kind: errs.Unavailable, Words: silent, Remedy: ask},
		{Text: "socket timed out", Kind: errs.Unavailable, Words: silent, Remedy: ask},
		{Text: "zero bytes were transmitted", Kind: errs.Unavailable, Words: silent, Remedy: ask},
		{Text: "backup controller", Kind: errs.Unavailable, Words: silent, Remedy: ask},
		{Text: "resource temporarily unavailable", Kind: errs.Unavailable, Words: silent, Remedy: ask},
		{Text: "munge", Kind: errs.Unavailable, Words: "Slurm does not let the service in", Remedy: ask},
		{
			Text: "job violates accounting/qos policy", Kind: errs.NoCapacity,
			Words: "you have as many jobs in Slurm as one user may", Remedy: "wait until some have ended",
		},
		{
			Text: "maximum number of jobs", Kind: errs.NoCapacity, Words: "Slurm's queue is full",
			Remedy: "wait until some jobs have ended",
		},
		{
			Text: "requested node configuration is not available", Kind: errs.Forbidden,
			Words: "no node of the cluster has what it asks for", Remedy: "ask for less CPU, memory or another GPU",
		},
		{
			Text: "requested time limit is invalid", Kind: errs.Forbidden,
			Words: "it asks for more time than the site allows", Remedy: "ask for less time: --time",
		},
		{
			Text: "invalid account", Kind: errs.Forbidden, Words: "Slurm does not let you use the site's account",
			Remedy: "tell your administrator: slurm.account, and your associations (sacctmgr)",
		},
		{
			Text: "invalid user id", Kind: errs.Forbidden, Words: "Slurm does not know your account",
			Remedy: "tell your administrator: your account must be on the cluster",
		},
		{Text: "invalid generic resource", Kind: errs.Forbidden, Words: "Slurm has no such GPU", Remedy: ask},
		{Text: "invalid partition", Kind: errs.Forbidden, Words: "Slurm has no such partition", Remedy: ask},
		{Text: "invalid qos", Kind: errs.Forbidden, Words: "Slurm does not let you use the site's QOS", Remedy: ask},
	}
}
