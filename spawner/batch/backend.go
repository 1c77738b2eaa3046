package batch

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"slipway/internal/errs"
	"slipway/internal/loglimit"
	"slipway/internal/worker"
	"slipway/spawner"
	"slipway/spawner/batch/command"
)

// Config is what a Backend is made of, whatever its batch system.
type Config struct {
	Name string // of the backend, and of its part of the configuration
	// holds a directory for each workload; made when missing. Required, absolute. Users must be able to pass through it
	Dir      string
	Bin      string // the directory of the batch system's commands; empty: they are on PATH
	Instance string // keeps two services in one batch system apart. Required
	// MarkKey makes the marks by which the service knows its jobs from those that others submit in their likeness; a
	// job that was submitted with another key is not seen any more. Required, 32 bytes at least.
	MarkKey []byte
	// Owner is the account as which all jobs are submitted and run; empty: each user's own, by their login.
	Owner string
	// Lookup returns the numbers of an account where jobs are submitted: a job's must be those that its user has here.
	// nil: those of a getent in the directory Bin, or else of this host's table of users.
	Lookup func(login string) (uid, gid int, err error)

	// Image says how the nodes get at images: a path on what they share with {digest} in it, such as
	// /cvmfs/slipway/{digest}.sif; "send": each job brings its own; empty: they fetch them from the service. Where a
	// path is not there, they fetch.
	Image    string
	HomeDirs bool // the nodes have the users' homes at the same path as this host
	Node     worker.Node

	// Events is a file of a sandbox in which the batch system notes what happens to the job; empty: it does not.
	Events string
	// Patience is how long a job is missed that is in the queue no more, nor in a history, until it is gone. Required
	Patience  time.Duration
	Grace     time.Duration // between asking a job to end and killing it; zero: 30 s
	PollEvery time.Duration // between two looks at the queue; zero: 5 s
	// Submitter names the command that submits, for who is told that an earlier one still runs.
	Submitter string
	// Arch returns for which machines an environment is, by its digest, as Go names them; nil: that is known only once
	// it starts.
	Arch   func(digest string) (string, error)
	Logger *slog.Logger // required
}

// Filled returns c with the usual values for what it leaves open.
func (c Config) Filled(system string) Config {
	if c.Lookup == nil {
		c.Lookup = func(login string) (uid, gid int, err error) { return lookup(c, system, login) }
	}
	if c.Grace == 0 {
		c.Grace = 30 * time.Second
	}
	if c.PollEvery == 0 {
		c.PollEvery = 5 * time.Second
	}
	return c
}

// How Config.Image may be written.
const (
	ImageSend  = "send"
	digestMark = "{digest}"
)

// Check refuses what could not be written into the description of a job.
func (c Config) Check() error {
	switch {
	case !SafePath.MatchString(c.Dir):
		return errs.Bad(
			c.Name+".dir", c.Dir, "an absolute path of letters, digits and ._+-/: it stands in what is submitted",
		)
	case !SafeWord.MatchString(c.Instance):
		return errs.Bad(c.Name+".instance", c.Instance, "letters, digits and ._-")
	case len(c.MarkKey) < MinKey:
		return errs.New(
			errs.Invalid, "the key that marks the jobs of %s has %d bytes, of %d at least", c.Name, len(c.MarkKey), MinKey,
		)
	case c.Owner != "" && !SafeWord.MatchString(c.Owner):
		return errs.Bad(c.Name+".owner", c.Owner, "the name of an account of this host")
	case strings.HasPrefix(c.Image, "/") && !strings.Contains(c.Image, digestMark), c.Image != "" &&
		c.Image != ImageSend && !strings.HasPrefix(c.Image, "/"):
		return errs.Bad(c.Name+".image", c.Image, "a path with {digest} in it, or send, or nothing")
	case c.Logger == nil:
		return errs.New(errs.Invalid, "the backend %s has no logger", c.Name)
	}
	return nil
}

// Backend runs workloads as jobs of a batch system. It is safe for concurrent use.
type Backend struct {
	cfg      Config
	system   System
	log      *slog.Logger
	sync     func(*os.File) error // has a file on the disk; a field so that a test can see of which
	born     time.Time
	marker   Marker
	records  *Records
	accounts *accounts
	queue    *Queue        // what is in the queue
	past     *Queue        // what has left it
	soon     chan struct{} // something goes on that the next look may not show

	submits  *Batcher[*submission]
	removals *Batcher[removal]
	guard    *SubmitGuard
	size     submissionSize
}

var _ spawner.Remote = (*Backend)(nil)

// mostAlike is how many lines that say the same are logged in alikeTime: thousands of jobs may have the same trouble.
const (
	mostAlike = 10
	alikeTime = 10 * time.Minute
)

// guardFile is what each command that submits holds a shared lock of for as long as it runs.
const guardFile = ".submitting"

// New makes a Backend of a batch system. The configuration is filled and checked; nothing is asked of the system: that
// is Check's.
func New(cfg Config, system System) (*Backend, error) {
	if err := passable(cfg.Dir); err != nil {
		return nil, fmt.Errorf("make the directory of %s's jobs: %w", system.Title(), err)
	}
	return assemble(cfg, system), nil
}

// passable makes a directory through which anybody may pass, whatever the umask: users' sandboxes lie below it.
func passable(dir string) error {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	return os.Chmod(dir, 0o711)
}

// assemble puts a Backend together, on a directory that is there.
func assemble(cfg Config, system System) *Backend {
	b := &Backend{
		cfg: cfg, system: system, log: slog.New(loglimit.New(cfg.Logger.Handler(), mostAlike, alikeTime)),
		sync: (*os.File).Sync, born: time.Now(), soon: make(chan struct{}, 1),
	}
	b.marker = cfg.Marker()
	b.records = NewRecords(cfg.Dir)
	b.guard = NewSubmitGuard(filepath.Join(cfg.Dir, guardFile), cfg.Submitter, command.AskAdmin)
	b.accounts = &accounts{lookup: cfg.Lookup, system: system.Title(), key: cfg.Name, held: map[string]answer{}}
	rest := min(MinRest, cfg.PollEvery)
	b.queue, b.past = NewQueue(system.Queue, rest), NewQueue(system.History, rest)
	b.submits, b.removals = NewBatcher(b.submit), NewBatcher(b.rm)
	b.submits.Pick = sessionsFirst
	return b
}

// Marker returns what marks the service's jobs.
func (c Config) Marker() Marker { return NewMarker(c.Instance, c.MarkKey) }

// Name is the backend's name in records and configuration.
func (b *Backend) Name() string { return b.cfg.Name }

// Title is the batch system's name as its people write it.
func (b *Backend) Title() string { return b.system.Title() }

// HomeDirs reports whether the nodes have the users' homes where this host has them.
func (b *Backend) HomeDirs() bool { return b.cfg.HomeDirs }

// Binds are the directories of the nodes that workloads see.
func (b *Backend) Binds() []string { return b.cfg.Node.Binds }

// knows refuses an ID that is none.
func (b *Backend) knows(id spawner.ID) error {
	if !ValidID.MatchString(string(id)) {
		return errs.Bad("id", id, "a letter, a dash, lower-case letters and digits")
	}
	return nil
}

// Check asks for the queue, for the account of all jobs and for what a submission needs.
func (b *Backend) Check(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errs.New(errs.Missing, "submitting to %s for users needs root, this is uid %d", b.Title(), os.Geteuid()).
			With("run the service as root")
	}
	if _, err := b.queue.Since(ctx, time.Now()); err != nil {
		return err
	}
	if b.cfg.Owner != "" {
		if _, err := b.accounts.of(b.cfg.Owner); err != nil {
			return err
		}
	}
	return b.system.Check(ctx, b.cfg.Owner)
}

// box is the sandbox of a workload.
func (b *Backend) box(r Record) Sandbox { return b.cfg.Box(r.ID) }

// boxDir is the name of a workload's sandbox in its directory.
const boxDir = "box"

// Box returns where the sandbox of a workload is.
func (c Config) Box(id spawner.ID) Sandbox { return Sandbox(filepath.Join(c.Dir, string(id), boxDir)) }
