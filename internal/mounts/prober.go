package mounts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"slipway/internal/errs"
)

// ProberConfig is what a Prober needs.
type ProberConfig struct {
	Dir      string        // holds the directories that are looked at
	Names    []string      // theirs, or of files below them; Itself is Dir
	Deadline time.Duration // for one to answer
	Every    time.Duration // all are looked at; zero: a minute
	Program  []string      // argv of what calls Probe, but for its last two arguments
	Locks    string        // a directory of root's alone
	Logger   *slog.Logger
}

// Itself is the name of ProberConfig.Dir.
const Itself = "."

// Result is what was found of one directory.
type Result struct {
	Name    string
	Trouble string // in words that follow the name; empty: it answers
	Took    time.Duration
	Silent  bool // it did not answer in time
	Stuck   bool // a process that looks at it can neither be ended nor waited for
}

// String says what is the matter.
func (r Result) String() string { return r.Name + " " + r.Trouble }

// Prober knows which directories answer.
type Prober struct {
	cfg   ProberConfig
	asker *Asker
	first chan struct{} // closed after the first round
	turn  sync.Mutex    // held in a round

	mu      sync.Mutex
	results map[string]Result
	round   bool // there was one
}

// NewProber makes a Prober.
func NewProber(cfg ProberConfig) *Prober {
	cfg.Every = cmp.Or(cfg.Every, time.Minute)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	asker := NewAsker(AskerConfig{Program: cfg.Program, Deadline: cfg.Deadline})
	return &Prober{cfg: cfg, asker: asker, first: make(chan struct{}), results: map[string]Result{}}
}

// Run looks at all again and again until ctx ends.
func (p *Prober) Run(ctx context.Context) error {
	tick := time.NewTicker(p.cfg.Every)
	defer tick.Stop()
	for {
		p.Round(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// atOnce bounds the processes that look.
const atOnce = 16

// Round looks at all directories once. It takes little more than one deadline for every sixteen (atOnce) of them that
// do not answer, and ends with ctx.
func (p *Prober) Round(ctx context.Context) {
	p.turn.Lock()
	defer p.turn.Unlock()
	var work sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for _, name := range p.cfg.Names {
		work.Go(func() {
			select {
			case free <- struct{}{}:
			case <-ctx.Done():
				return
			}
			defer func() { <-free }()
			if r := p.ask(ctx, name); ctx.Err() == nil {
				p.note(r)
			}
		})
	}
	work.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.round && ctx.Err() == nil {
		p.round = true
		close(p.first)
	}
}

// Ask looks at one directory now.
func (p *Prober) Ask(ctx context.Context, name string) Result {
	p.turn.Lock()
	defer p.turn.Unlock()
	r := p.ask(ctx, name)
	p.note(r)
	return r
}

func (p *Prober) note(r Result) {
	p.mu.Lock()
	before, known := p.results[r.Name]
	p.results[r.Name] = r
	p.mu.Unlock()
	switch {
	case r.Trouble != "" && (before.Trouble != r.Trouble || !known):
		p.cfg.Logger.Warn(
			"a directory with data cannot be used now", "directory", filepath.Join(p.cfg.Dir, r.Name), "trouble",
			r.Trouble,
		)
	case r.Trouble == "" && before.Trouble != "":
		p.cfg.Logger.Info("a directory with data can be used again", "directory", filepath.Join(p.cfg.Dir, r.Name))
	}
}

// ask looks at one directory, unless a process is there still that does since long.
func (p *Prober) ask(ctx context.Context, name string) Result {
	began := time.Now()
	said, err := p.asker.Ask(ctx, name, name, filepath.Join(p.cfg.Locks, lockName(name)), p.cfg.Dir+"/"+name)
	if errs.Is(err, errs.Unavailable) || ctx.Err() != nil {
		stuck, _ := p.asker.hanging(name, name)
		return Result{Name: name, Trouble: "does not answer", Took: p.cfg.Deadline, Silent: true, Stuck: stuck > 0}
	}
	var a answer
	if err == nil && json.Unmarshal(said, &a) != nil {
		err = fmt.Errorf("the process that looks ended with %q", strings.TrimSpace(string(said)))
	}
	switch {
	case err != nil:
		return Result{Name: name, Trouble: "could not be looked at: " + err.Error()}
	case a.Trouble != "":
		return Result{Name: name, Trouble: "cannot be used: " + a.Trouble, Took: time.Since(began)}
	}
	return Result{Name: name, Took: time.Since(began)}
}

// lockName makes a file's name of a directory's.
func lockName(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:8]) + ".lock"
}

// Results returns what is known, in the order of the configuration. Before the first round has ended it waits, at most
// for the deadline.
func (p *Prober) Results(ctx context.Context) []Result {
	late := time.NewTimer(p.cfg.Deadline + endTime)
	defer late.Stop()
	select {
	case <-p.first:
	case <-late.C:
	case <-ctx.Done():
	}
	return p.Known()
}

// Known returns what is known, without waiting.
func (p *Prober) Known() []Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Result
	for _, name := range p.cfg.Names {
		if r, known := p.results[name]; known {
			out = append(out, r)
		}
	}
	return out
}

// Of returns what is known of one directory.
func (p *Prober) Of(name string) (Result, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, known := p.results[name]
	return r, known
}

// Stuck counts the processes that look and can neither be ended nor waited for.
func (p *Prober) Stuck() int {
	n := 0
	for _, name := range p.cfg.Names {
		stuck, _ := p.asker.hanging(name, name)
		n += stuck
	}
	return n
}
