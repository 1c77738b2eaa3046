// Package datacheck looks at a user's data from where her programs run, with what they have: CVMFS, storage by XRootD
// and its caches, mounted storage, tokens, the proxy, and the clock.
//
// Promises: it ends within its deadline, whatever hangs, and says of what did; it writes nothing but a probe file on
// storage that may be written to, under a name of its own, and none where that could not be removed. It removes the
// file also when it is interrupted; of one that it cannot remove it says so, and one that was left because the look was
// killed a later look removes. No finding holds a secret.
//
// It must not heal anything, and must not know who asked: it gives findings.
package datacheck

import (
	"context"
	"fmt"
	"sync"
	"time"

	"slipway/hubapi"
	"slipway/internal/datacheck/rootclient"
	"slipway/internal/secret"
)

// Storage is how storage is reached; rootclient.Client is one, and says what the errors mean.
type Storage interface {
	List(ctx context.Context, server, path string) ([]rootclient.Entry, error)
	Read(ctx context.Context, server, path string, limit int) (int, error)
	Write(ctx context.Context, server, path string, data []byte) error
	Remove(ctx context.Context, server, path string) error
}

// Config is what a look needs.
type Config struct {
	Plan    hubapi.DataPlan
	Asked   time.Time                       // when the plan was asked for, by this clock
	Storage func(token secret.Text) Storage // shows that token; an empty one: none
	// Issuer asks an issuer from here for its time, and Remote has the service ask it.
	Issuer func(ctx context.Context, url string) (time.Time, error)
	Remote func(ctx context.Context, name string) (hubapi.IssuerLook, error)
	// List lists a directory of a server by a program of the image, for servers that take no tokens. Nil: there is
	// none.
	List func(ctx context.Context, server, path string) error
	// asks the service how full the user's directories are; nil: nobody knows
	Room        func(ctx context.Context) (hubapi.Quotas, error)
	Credentials string // the directory of tokens and the proxy
	Proxy       string // the proxy's file; empty: that in Credentials
	// argv of what calls mounts.Probe, but for its last two arguments
	Probe    []string
	Scratch  string        // an empty directory
	CVMFS    string        // where repositories are; empty: /cvmfs
	Deadline time.Duration // for all of it, tidying up included
	Now      func() time.Time
}

const (
	defaultDeadline = 30 * time.Second
	oneDeadline     = 8 * time.Second // for one thing to answer
	muchSkew        = time.Minute
)

// check is one thing to look at, which may be told of in several findings.
type check struct {
	name string
	look func(ctx context.Context) []hubapi.DataCheck
}

// Run looks at all at once.
func Run(ctx context.Context, cfg Config) hubapi.DataReport {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Deadline == 0 {
		cfg.Deadline = defaultDeadline
	}
	if cfg.CVMFS == "" {
		cfg.CVMFS = "/cvmfs"
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, cfg.Deadline-grace)
	defer cancel()
	report := hubapi.DataReport{At: cfg.Now().UTC().Truncate(time.Second), Checks: []hubapi.DataCheck{}}
	for _, found := range all(ctx, cfg.checks()) {
		report.Checks = append(report.Checks, found...)
	}
	report.Took = time.Since(began).Round(time.Millisecond).Seconds()
	return report
}

func (cfg Config) checks() []check {
	d := &doctor{cfg}
	list := []check{{"clock", d.clock}, {"tokens", d.tokens}, {"proxy", d.proxy}, {"room", d.room}}
	for _, i := range cfg.Plan.Issuers {
		list = append(
			list, check{"issuer " + i.Name, func(ctx context.Context) []hubapi.DataCheck { return d.issuer(ctx, i) }},
		)
	}
	list = append(list, check{"CVMFS", d.cvmfs})
	for _, e := range cfg.Plan.Storage {
		list = append(list, check{
			"mounts of storage " + e.Name, func(ctx context.Context) []hubapi.DataCheck { return d.mounts(ctx, e) },
		})
		list = append(
			list, check{"storage " + e.Name, func(ctx context.Context) []hubapi.DataCheck { return d.storage(ctx, e) }},
		)
	}
	return list
}

type doctor struct{ Config }

// grace is the end of the time there is, kept for what must be put in order: a probe file is removed.
const grace = tidyTime + time.Second

// all waits for each, but not for one that does not heed the end of its context.
func all(ctx context.Context, checks []check) [][]hubapi.DataCheck {
	var (
		mu    sync.Mutex
		found = make([][]hubapi.DataCheck, len(checks))
		left  sync.WaitGroup
		done  = make(chan struct{})
	)
	for i, c := range checks {
		found[i] = []hubapi.DataCheck{
			fail(c.name, "the look at it has not ended in time", "try again; if it stays so, tell your administrator"),
		}
		left.Go(func() {
			said := c.look(ctx)
			mu.Lock()
			defer mu.Unlock()
			found[i] = said
		})
	}
	go func() { left.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		select {
		case <-done:
		case <-time.After(grace):
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return append([][]hubapi.DataCheck(nil), found...)
}

func good(check, format string, args ...any) hubapi.DataCheck {
	return hubapi.DataCheck{Check: check, Result: hubapi.CheckOK, Finding: fmt.Sprintf(format, args...)}
}

func warn(check, finding, remedy string) hubapi.DataCheck {
	return hubapi.DataCheck{Check: check, Result: hubapi.CheckWarn, Finding: finding, Remedy: remedy}
}

func fail(check, finding, remedy string) hubapi.DataCheck {
	return hubapi.DataCheck{Check: check, Result: hubapi.CheckFail, Finding: finding, Remedy: remedy}
}

// words says a length of time as people do.
func words(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(time.Second).String()
	default:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
}
