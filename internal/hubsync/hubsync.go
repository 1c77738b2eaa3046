// Package hubsync keeps a Hub and the engine in agreement: it tells the Hub what happens in a start, when sessions were
// last active and what can be started here, and asks it which servers it knows and who is in its groups.
//
// The package promises that a Hub that is down costs nothing but its own news: nothing waits for it, nothing piles up,
// and the newest of everything is told when it is back. From a question that was not answered whole nothing is
// concluded. It decides nothing about sessions: that is the engine's.
package hubsync

import (
	"context"
	"iter"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"slipway/hubapi/hub"
	"slipway/internal/secret"
	"slipway/spawner"
)

// Hub is what is said to a Hub. hub.Client says it.
type Hub interface {
	Users(ctx context.Context) ([]hub.User, error)
	Groups(ctx context.Context) ([]hub.Group, error)
	PostActivity(ctx context.Context, user string, servers map[string]time.Time) error
	PostEvent(ctx context.Context, user, server string, token secret.Text, e hub.Event) error
	PostFlavors(ctx context.Context, address string, flavors any) error
}

// Engine is what is asked of the engine. engine.Manager answers it.
type Engine interface {
	Get(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error)
	Events(ctx context.Context, c spawner.Caller, id spawner.ID, launch string, after int64) (iter.Seq[spawner.Event], error)
	LastActive(hub string) []spawner.ActiveSession
	ReconcileHub(ctx context.Context, r spawner.Roster) (spawner.HubReconcileReport, error)
}

// Config says what is kept in agreement with one Hub.
type Config struct {
	Name   string // the hub's, as the engine knows it
	Hub    Hub
	Engine Engine

	Activity bool          // tell the Hub when sessions were last active
	Every    time.Duration // between two comparisons with the Hub's list. Zero: none
	Age      time.Duration // younger sessions are not judged by one
	Stop     bool          // one stops sessions that the Hub does not know

	FlavorsURL string     // where what can be started is told. Empty: nowhere
	Flavors    func() any // gives it, for JSON

	Groups      *Membership   // is told who is in the Hub's groups. Nil: nobody asks
	GroupsEvery time.Duration // between two questions

	Logger *slog.Logger
}

// Syncer keeps one Hub and the engine in agreement.
type Syncer struct {
	cfg Config
	log *slog.Logger
}

// New makes a Syncer.
func New(cfg Config) *Syncer { return &Syncer{cfg: cfg, log: cfg.Logger.With("hub", cfg.Name)} }

// Run does so until ctx ends.
func (s *Syncer) Run(ctx context.Context) error {
	var all sync.WaitGroup
	if s.cfg.Activity {
		all.Go(func() { s.postActivity(ctx) })
	}
	if s.cfg.Every > 0 {
		all.Go(func() { s.reconcile(ctx) })
	}
	if s.cfg.FlavorsURL != "" && s.cfg.Flavors != nil {
		all.Go(func() { s.pushFlavors(ctx) })
	}
	if s.cfg.Groups != nil {
		all.Go(func() { s.followGroups(ctx) })
	}
	all.Wait()
	return nil
}

// about returns d, more or less: so that the questions of several services and hubs do not fall together.
func about(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5+1) }
