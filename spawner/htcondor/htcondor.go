// Package htcondor runs sessions and jobs as jobs of an HTCondor pool, of which the service's host is an access point.
//
// Promises: a run of a workload is at most one job, whatever is killed and whatever HTCondor does of itself: who was
// submitted is found again by the ads' attributes, and a job that has begun once is never begun again by the pool; what
// the pool holds, evicts or refuses is told in plain words; a job is its user's at the access point, by a token minted
// for that user; nothing that a user names can change a line of what is submitted.
//
// It talks to HTCondor by the commands that stand on the host (argv, no shell) and reads their JSON. Each workload has
// a directory here: its record, which is root's, and below it the sandbox, which is the user's and is read without
// following a link. What is not HTCondor's own is package batch's: this one is its first System. The package must not know
// what the agent runs; what starts it on the worker node is package internal/worker.
package htcondor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/spawner/batch"
	"slipway/spawner/batch/command"
	"slipway/spawner/htcondor/classad"
	"slipway/spawner/htcondor/commands"
	"slipway/spawner/htcondor/pool"
)

// Config is what a backend of HTCondor is made of.
type Config struct {
	batch.Config
	Domain string // of the users' identities, as the pool has it; empty: its UID_DOMAIN
	Key    string // the name of the key that signs tokens; empty: POOL

	Requirements    string            // of the site, on every job: a ClassAd expression
	Rank            string            // likewise
	Extra           map[string]string // lines of the site for every job, such as "+ProjectName": `"cms"`
	AccountingGroup string            // such as group_physics; empty: the pool's default

	Lease  time.Duration // for how long a job survives that its node is cut off; zero: 20 min
	Disk   int64         // bytes that a job asks for, beside its image and its inputs; zero: 4 GiB
	Output int64         // bytes that a run may bring back; zero: 20 GiB
	Pool   *pool.Pool    // tells what the pool's machines have, for Judge and Why; nil: nobody does
}

// system is HTCondor at one access point. It is safe for concurrent use.
type system struct {
	cfg    Config
	run    command.Runner
	marker batch.Marker
	tokens *tokens

	asking sync.Mutex // guards asked
	asked  string     // the pool's UID_DOMAIN, once it is known
}

var _ batch.System = (*system)(nil)

const title = "HTCondor"

// New makes the backend. It asks nothing of HTCondor: that is Check's.
func New(cfg Config) (*batch.Backend, error) {
	cfg = cfg.filled()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	b, err := batch.New(cfg.Config, newSystem(cfg, commands.In(cfg.Bin)))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(cfg.Dir, tokensDir), 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of HTCondor's tokens: %w", err)
	}
	return b, nil
}

// newSystem makes HTCondor of what runs its commands.
func newSystem(cfg Config, run command.Runner) *system {
	s := &system{cfg: cfg, run: run, marker: cfg.Marker()}
	s.tokens = newTokens(filepath.Join(cfg.Dir, tokensDir), s.mint)
	return s
}

func (c Config) filled() Config {
	if c.Key == "" {
		c.Key = "POOL"
	}
	if c.Lease == 0 {
		c.Lease = 20 * time.Minute
	}
	if c.Patience == 0 {
		c.Patience = c.Lease // for then none of it runs
	}
	if c.Disk == 0 {
		c.Disk = 4 << 30
	}
	if c.Output == 0 {
		c.Output = 20 << 30
	}
	c.Name, c.Submitter, c.Events = "htcondor", "condor_submit", eventsFile
	c.Config = c.Config.Filled(title)
	return c
}

// check refuses what could not be written into the description of a job.
func (c Config) check() error {
	switch {
	case c.Domain != "" && !batch.SafeWord.MatchString(c.Domain):
		return errs.Bad("htcondor.domain", c.Domain, "the pool's UID_DOMAIN, such as example.org")
	case !batch.SafeWord.MatchString(c.Key):
		return errs.Bad("htcondor.key", c.Key, "the name of a key in the pool's directory of passwords, such as POOL")
	case c.AccountingGroup != "" && !batch.SafeWord.MatchString(c.AccountingGroup):
		return errs.Bad("htcondor.accounting_group", c.AccountingGroup, "a name such as group_physics.cms")
	}
	if err := c.Config.Check(); err != nil {
		return err
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

// Title is the batch system's name as its people write it.
func (s *system) Title() string { return title }

// Check has a token made, which is what a submission needs.
func (s *system) Check(ctx context.Context, login string) error {
	_, err := s.tokens.of(ctx, cmp.Or(login, "slipway"))
	return err
}
