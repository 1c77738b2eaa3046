// Package htcondor runs sessions and jobs as jobs of an HTCondor pool, of which the service's host is an access point.
//
// Promises: a run of a workload is at most one job, whatever is killed and whatever HTCondor does of itself: who was
// submitted is found again by the ads' attributes, and a job that has begun once is never begun again by the pool; what
// the pool holds, evicts or refuses is told in plain words; a job is its user's at the access point, by a token minted
// for that user; nothing that a user names can change a line of what is submitted.
//
// It talks to HTCondor by the commands that stand on the host (argv, no shell) and reads their JSON. Each workload has
// a directory here: its record, which is root's, and below it the sandbox, which is the user's and is read without
// following a link. What is not HTCondor's own comes from package batch. The package must not know what the agent runs; what starts it on the worker node is package
// internal/worker.
package htcondor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/internal/loglimit"
	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/htcondor/classad"
	"slipway/spawner/htcondor/commands"
	"slipway/spawner/htcondor/pool"
)

// Config is what a Backend is made of.
type Config struct {
	// holds a directory for each workload; made when missing. Required, absolute. Users must be able to pass through it
	Dir      string
	Bin      string // the directory of HTCondor's commands; empty: they are on PATH
	Instance string // keeps two services at one access point apart. Required
	// MarkKey makes the marks by which the service knows its jobs from those that others submit in their likeness; a
	// job that was submitted with another key is not seen any more. Required, 32 bytes at least.
	MarkKey []byte
	// Owner is the account as which all jobs are submitted and run; empty: each user's own, by their login.
	Owner  string
	Domain string // of the users' identities, as the pool has it; empty: its UID_DOMAIN
	Key    string // the name of the key that signs tokens; empty: POOL
	// Lookup returns the numbers of an account at the access point: a job's must be those that its user has here. nil:
	// those of a getent in the directory Bin, or else of this host's table of users.
	Lookup func(login string) (uid, gid int, err error)

	Requirements    string            // of the site, on every job: a ClassAd expression
	Rank            string            // likewise
	Extra           map[string]string // lines of the site for every job, such as "+ProjectName": `"cms"`
	AccountingGroup string            // such as group_physics; empty: the pool's default

	// Image says how the nodes get at images: a path on what they share with {digest} in it, such as
	// /cvmfs/slipway/{digest}.sif; "send": each job brings its own; empty: they fetch them from the service. Where a
	// path is not there, they fetch.
	Image     string
	Cache     string   // a directory of the nodes, for fetched images
	Apptainer string   // the program on the nodes; empty: apptainer on PATH
	HomeDirs  bool     // the nodes have the users' homes at the same path as this host
	Binds     []string // of the nodes, such as /cvmfs: bound where they are there

	Lease time.Duration // for how long a job survives that its node is cut off; zero: 20 min
	// after which a job is gone that is in the queue no more, nor in a history; zero: Lease, for then none of it runs
	Patience  time.Duration
	Grace     time.Duration // between asking a job to end and killing it; zero: 30 s
	Disk      int64         // bytes that a job asks for, beside its image and its inputs; zero: 4 GiB
	Output    int64         // bytes that a run may bring back; zero: 20 GiB
	PollEvery time.Duration // between two looks at the queue; zero: 5 s
	Pool      *pool.Pool    // tells what the pool's machines have, for Judge and Why; nil: nobody does
	// Arch returns for which machines an environment is, by its digest, as Go names them; nil: that is known only once
	// it starts.
	Arch   func(digest string) (string, error)
	Logger *slog.Logger // required
}

// Backend runs workloads in the pool. It is safe for concurrent use.
type Backend struct {
	cfg      Config
	log      *slog.Logger
	run      commands.Runner
	sync     func(*os.File) error // has a file on the disk; a field so that a test can see of which
	born     time.Time
	signet   batch.Marker
	records  *batch.Records
	accounts *accounts
	tokens   *tokens
	queue    *batch.Queue[job] // what is in the queue
	past     *batch.Queue[job] // what has left it
	soon     chan struct{}     // something goes on that the next look may not show

	submits  *batch.Batcher[*submission]
	removals *batch.Batcher[removal]
	guard    *batch.SubmitGuard
	// how many jobs one submission may have; zero: none was too large. Who submits alone uses it, and refused
	most    int
	refused time.Time // when one was too large last

	asking sync.Mutex // guards asked
	asked  string     // the pool's UID_DOMAIN, once it is known
}

var _ spawner.Remote = (*Backend)(nil)

// safePath is what paths may have that stand in a description of a job, where nothing can be quoted.
var safePath = regexp.MustCompile(`^/[A-Za-z0-9/._+-]*$`)

// safeWord is what names may have that stand there.
var safeWord = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)

// New makes a Backend. It asks nothing of HTCondor: that is Check's.
func New(cfg Config) (*Backend, error) {
	cfg = cfg.filled()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := errors.Join(passable(cfg.Dir), os.MkdirAll(filepath.Join(cfg.Dir, tokensDir), 0o700)); err != nil {
		return nil, fmt.Errorf("make the directory of HTCondor's jobs: %w", err)
	}
	return assemble(cfg, commands.In(cfg.Bin)), nil
}

// passable makes a directory through which anybody may pass, whatever the umask: users' sandboxes lie below it.
func passable(dir string) error {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	return os.Chmod(dir, 0o711)
}

// mostAlike is how many lines that say the same are logged in alikeTime: thousands of jobs may have the same trouble.
const (
	mostAlike = 10
	alikeTime = 10 * time.Minute
)

// assemble puts a Backend together around what runs commands.
func assemble(cfg Config, run commands.Runner) *Backend {
	b := &Backend{
		cfg: cfg, log: slog.New(loglimit.New(cfg.Logger.Handler(), mostAlike, alikeTime)), run: run,
		sync: (*os.File).Sync, born: time.Now(), soon: make(chan struct{}, 1),
	}
	b.signet = batch.NewMarker(cfg.Instance, cfg.MarkKey)
	b.records = batch.NewRecords(cfg.Dir)
	b.guard = batch.NewSubmitGuard(filepath.Join(cfg.Dir, guardFile), "condor_submit", commands.AskAdmin)
	b.accounts = &accounts{lookup: cfg.Lookup, held: map[string]answer{}}
	b.tokens = newTokens(filepath.Join(cfg.Dir, tokensDir), b.mint)
	rest := min(batch.MinRest, cfg.PollEvery)
	b.queue, b.past = batch.NewQueue(b.ask, rest), batch.NewQueue(b.askPast, rest)
	b.submits, b.removals = batch.NewBatcher(b.submit), batch.NewBatcher(b.rm)
	b.submits.Pick = sessionsFirst
	return b
}

func (c Config) filled() Config {
	if c.Lookup == nil {
		c.Lookup = func(login string) (uid, gid int, err error) { return lookup(c.Bin, login) }
	}
	if c.Key == "" {
		c.Key = "POOL"
	}
	if c.Lease == 0 {
		c.Lease = 20 * time.Minute
	}
	if c.Patience == 0 {
		c.Patience = c.Lease
	}
	if c.Grace == 0 {
		c.Grace = 30 * time.Second
	}
	if c.Disk == 0 {
		c.Disk = 4 << 30
	}
	if c.Output == 0 {
		c.Output = 20 << 30
	}
	if c.PollEvery == 0 {
		c.PollEvery = 5 * time.Second
	}
	return c
}

// check refuses what could not be written into the description of a job.
func (c Config) check() error {
	switch {
	case !safePath.MatchString(c.Dir):
		return errs.Bad(
			"htcondor.dir", c.Dir, "an absolute path of letters, digits and ._+-/: it stands in what is submitted",
		)
	case !safeWord.MatchString(c.Instance):
		return errs.Bad("htcondor.instance", c.Instance, "letters, digits and ._-")
	case len(c.MarkKey) < batch.MinKey:
		return errs.New(
			errs.Invalid, "the key that marks HTCondor's jobs has %d bytes, of %d at least", len(c.MarkKey),
			batch.MinKey,
		)
	case c.Owner != "" && !safeWord.MatchString(c.Owner):
		return errs.Bad("htcondor.owner", c.Owner, "the name of an account of this host")
	case c.Domain != "" && !safeWord.MatchString(c.Domain):
		return errs.Bad("htcondor.domain", c.Domain, "the pool's UID_DOMAIN, such as example.org")
	case !safeWord.MatchString(c.Key):
		return errs.Bad("htcondor.key", c.Key, "the name of a key in the pool's directory of passwords, such as POOL")
	case c.AccountingGroup != "" && !safeWord.MatchString(c.AccountingGroup):
		return errs.Bad("htcondor.accounting_group", c.AccountingGroup, "a name such as group_physics.cms")
	case strings.HasPrefix(c.Image, "/") && !strings.Contains(c.Image, digestMark), c.Image != "" &&
		c.Image != imageSend && !strings.HasPrefix(c.Image, "/"):
		return errs.Bad("htcondor.image", c.Image, "a path with {digest} in it, or send, or nothing")
	case c.Logger == nil:
		return errs.New(errs.Invalid, "the HTCondor backend has no logger")
	}
	return c.CheckLines()
}

// CheckLines refuses lines of the site (Requirements, Rank, Extra) that would be more than one, are no expressions, or
// would take one of ours away. What HTCondor's macros make of an expression is not looked at.
func (c Config) CheckLines() error {
	for field, text := range map[string]string{"htcondor.requirements": c.Requirements, "htcondor.rank": c.Rank} {
		if !oneLine(text) {
			return errs.Bad(field, text, "one ClassAd expression on one line")
		}
		if _, err := classad.Parse(text); err != nil && text != "" && !strings.Contains(text, "$") {
			return errs.Bad(
				field, text,
				fmt.Sprintf("one ClassAd expression, such as HasSingularity && Arch == \"X86_64\" (%v)", err),
			)
		}
	}
	for name, text := range c.Extra {
		if !extraName.MatchString(name) || ours(name) {
			return errs.Bad("htcondor.extra", name, "the name of a submit command that Slipway does not set itself, or of an attribute, such as +ProjectName")
		}
		if text == "" || !oneLine(text) {
			return errs.Bad("htcondor.extra."+name, text, "a value on one line")
		}
	}
	return nil
}

// Name is "htcondor".
func (b *Backend) Name() string { return "htcondor" }

// knows refuses an ID that is none.
func (b *Backend) knows(id spawner.ID) error {
	if !batch.ValidID.MatchString(string(id)) {
		return errs.Bad("id", id, "a letter, a dash, lower-case letters and digits")
	}
	return nil
}

// Check asks for the commands, for the access point, for the account of all jobs and for a token, which is what a start
// needs of them.
func (b *Backend) Check(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errs.New(errs.Missing, "submitting to HTCondor for users needs root, this is uid %d", os.Geteuid()).
			With("run the service as root")
	}
	if _, err := b.queue.Since(ctx, time.Now()); err != nil {
		return err
	}
	who := b.cfg.Owner
	if who == "" {
		who = "slipway"
	} else if _, err := b.accounts.of(who); err != nil {
		return err
	}
	_, err := b.tokens.of(ctx, who)
	return err
}
