package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"slipway/images/blob"
	"slipway/images/blobstore"
	"slipway/internal/backoff"
	"slipway/internal/clock"
)

const lookEvery = 10 * time.Second

// Entry is a name and what it stands for. Owner, name and tag are words that may stand in paths.
type Entry struct {
	Owner  string `json:"owner"`
	Name   string `json:"name"`
	Tag    string `json:"tag"`
	Digest string `json:"digest"` // of the environment
}

// link names an entry's unpacked tree, from the directory.
func (e Entry) link() string { return e.Owner + "/" + e.Name + ":" + e.Tag }

// Config is what a Publisher is made of.
type Config struct {
	Name      string
	Directory string // which must be there
	SIF       bool   // SIFs are wanted
	Unpacked  bool   // trees are
	State     string // file of what was published
	// Begin, Publish and Abort are programs with arguments that are run before and after a change, such as
	// cvmfs_server's; each may be empty. Abort is run when a change could not be finished.
	Begin, Publish, Abort []string
	// Wanted lists what is to be published.
	Wanted func() ([]Entry, error)
	// SIFOf opens an environment's signed file.
	SIFOf func(ctx context.Context, digest string) (file string, b blob.Blob, err error)
	// Unpack writes an environment's tree below root and a link to it.
	Unpack func(ctx context.Context, root, digest, link string) error
	Logger *slog.Logger
}

// published is an entry and its renderings.
type published struct {
	Entry
	SIF  string `json:"sif,omitempty"` // digest of the file
	Tree bool   `json:"tree,omitempty"`
}

// state is what is known of the directory.
type state struct {
	There []published `json:"there"`
	// Doubtful are those that a change which was not finished may have put there, or taken away.
	Doubtful []published `json:"doubtful,omitempty"`
	Open     bool        `json:"open,omitempty"` // Begin was run, and neither Publish nor Abort since
}

// Publisher publishes environments in one directory.
type Publisher struct {
	cfg Config

	mu      sync.Mutex
	state   state
	problem error // of the last try
}

// New reads what was published before.
func New(cfg Config) (*Publisher, error) {
	o := &Publisher{cfg: cfg}
	data, err := os.ReadFile(cfg.State)
	if errors.Is(err, fs.ErrNotExist) {
		return o, os.MkdirAll(filepath.Dir(cfg.State), 0o700)
	}
	if err == nil {
		err = json.Unmarshal(data, &o.state)
	}
	if err != nil {
		return nil, fmt.Errorf("read what was published at %s: %w", cfg.Name, err)
	}
	var there []published
	for _, p := range o.state.There {
		if o.leads(p) {
			there = append(there, p)
		} else {
			o.state.Doubtful = append(o.state.Doubtful, p)
		}
	}
	o.state.There = there
	return o, nil
}

// leads says whether a name leads to all renderings that are wanted now.
func (o *Publisher) leads(p published) bool {
	sif, tree := o.cfg.SIF, o.cfg.Unpacked
	if _, err := os.Stat(filepath.Join(o.cfg.Directory, p.Owner, p.Name, p.Tag+".sif")); sif && err != nil {
		return false
	}
	if _, err := os.Stat(filepath.Join(o.cfg.Directory, p.link())); tree && err != nil {
		return false
	}
	return (p.SIF != "") == sif && p.Tree == tree
}

// Run publishes until ctx ends.
func (o *Publisher) Run(ctx context.Context) error {
	failed := backoff.Backoff{First: 5 * time.Second, Most: 30 * time.Minute}
	for {
		err := o.round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		o.mu.Lock()
		o.problem = err
		o.mu.Unlock()
		wait := lookEvery
		if err == nil {
			failed.Reset()
		} else {
			wait = failed.Next()
			o.cfg.Logger.Warn(
				"environments cannot be published now", "export", o.cfg.Name, "again", wait.Round(time.Second), "error",
				err,
			)
		}
		if !clock.Sleep(ctx, wait) {
			return nil
		}
	}
}

// Stats says how a Publisher is.
type Stats struct {
	Name      string
	Published int   // names
	Problem   error // of the last try; nil: there was none
}

// Stats says how the Publisher is.
func (o *Publisher) Stats() Stats {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Stats{Name: o.cfg.Name, Published: len(o.state.There), Problem: o.problem}
}

// Of returns the names under which an environment is published.
func (o *Publisher) Of(digest string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	for _, p := range o.state.There {
		if p.Digest == digest {
			out = append(out, p.Owner+"/"+p.Name+":"+p.Tag)
		}
	}
	return out
}

// round brings the directory to what is wanted.
func (o *Publisher) round(ctx context.Context) error {
	wanted, err := o.cfg.Wanted()
	if err != nil {
		return err
	}
	var add []Entry
	for _, e := range wanted {
		if !slices.ContainsFunc(o.state.There, func(p published) bool { return p.Entry == e }) {
			add = append(add, e)
		}
	}
	var keep, gone []published
	for _, p := range o.state.There {
		if slices.Contains(wanted, p.Entry) {
			keep = append(keep, p)
		} else {
			gone = append(gone, p)
		}
	}
	gone = append(gone, o.state.Doubtful...)
	if len(add)+len(gone) == 0 {
		return nil
	}
	return o.change(ctx, wanted, keep, gone, add)
}

// change is one publication. What it touches is written down as doubtful before. One environment that cannot be read
// keeps no other one from being published.
func (o *Publisher) change(ctx context.Context, wanted []Entry, keep, gone []published, add []Entry) error {
	open, unread := o.openAll(ctx, add)
	defer closeAll(open)
	if len(open)+len(gone) == 0 {
		return unread
	}
	doubtful := slices.Clone(gone)
	for _, p := range open {
		doubtful = append(doubtful, p.published)
	}
	if o.state.Open {
		if err := o.run(ctx, o.cfg.Abort); err != nil {
			return err
		}
	}
	if err := o.save(state{There: keep, Doubtful: doubtful, Open: true}); err != nil {
		return err
	}
	if err := o.run(ctx, o.cfg.Begin); err != nil {
		return err
	}
	err := o.apply(ctx, wanted, gone, open)
	if err == nil {
		err = o.run(ctx, o.cfg.Publish)
	}
	if err != nil {
		return err // Open stays: Abort is run before the next try
	}
	for _, p := range open {
		keep = append(keep, p.published)
	}
	o.cfg.Logger.Info("environments were published", "export", o.cfg.Name, "added", len(open), "removed", len(gone))
	return errors.Join(unread, o.save(state{There: keep}))
}

// opened is an entry with its file.
type opened struct {
	published
	file blob.Blob
}

// openAll opens what can be read, and says of the rest why not.
func (o *Publisher) openAll(ctx context.Context, add []Entry) (out []opened, unread error) {
	for _, e := range add {
		p := opened{published: published{Entry: e, Tree: o.cfg.Unpacked}}
		if o.cfg.SIF {
			var err error
			if p.SIF, p.file, err = o.cfg.SIFOf(ctx, e.Digest); err != nil {
				unread = errors.Join(unread, fmt.Errorf("publish %s: %w", e.link(), err))
				continue
			}
		}
		out = append(out, p)
	}
	return out, unread
}

func closeAll(list []opened) {
	for _, p := range list {
		if p.file != nil {
			_ = p.file.Close() // it was only read
		}
	}
}

func (o *Publisher) save(s state) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := blobstore.WriteFile(o.cfg.State, data); err != nil {
		return fmt.Errorf("write down what is published at %s: %w", o.cfg.Name, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.state = s
	return nil
}
