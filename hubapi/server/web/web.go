// Package web is what the rooms of the server share of an HTTP request: who asks (Authenticate), how bodies are read
// and errors are said (Serve, Plain, Refuse), how much may be under way at once (Bounded, HTTPServer), and the line in
// the log (Watch).
//
// It promises that no token, query or body reaches the log, that an internal error shows its reader a request id only,
// and that a clean shutdown ends every stream. It has no routes, and knows nothing of what they do.
package web

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"

	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/hubs"
	"slipway/internal/accesstokens"
	"slipway/internal/loglimit"
	"slipway/internal/metrics"
	"slipway/internal/taskgroup"
	"slipway/spawner"
)

// Engine is what the package needs of the engine, which has the contract of each method.
type Engine interface {
	Get(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error)
}

// Config is what a Core needs.
type Config struct {
	Engine  Engine
	Hubs    *hubs.Set
	Tokens  *accesstokens.Tokens // nil: the service gives none out
	Audit   *audit.Log
	Metrics *metrics.Metrics // nil: requests are not counted
	// TrustedProxies are those whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	Logger         *slog.Logger
}

// Core is what all requests of a server have in common.
type Core struct {
	cfg      Config
	hubs     *hubs.Set
	log      *slog.Logger
	outside  *slog.Logger // for what strangers can cause, see LogFor
	budget   *budget
	streams  *taskgroup.Group // ends when the streams are to end; its tasks are what runs in the background
	underway atomic.Int64
	busy     sync.WaitGroup // requests in progress, also hijacked ones
}

// New makes a Core.
func New(cfg Config) *Core {
	return &Core{
		cfg: cfg, hubs: cfg.Hubs, log: cfg.Logger, outside: loglimit.Logger(cfg.Logger), budget: newBudget(),
		streams: taskgroup.New(context.Background()),
	}
}

// Background runs f, which is to return soon after its context has ended: that is when the streams are to end.
func (s *Core) Background(f func(ctx context.Context)) { s.streams.Go(f) }

// End ends all streams, and what runs in the background.
func (s *Core) End() { s.streams.End() }

// Wait waits until no request is in progress, and nothing runs in the background.
func (s *Core) Wait() {
	s.busy.Wait()
	s.streams.Wait()
}

// Ending is closed when the service ends.
func (s *Core) Ending() <-chan struct{} { return s.streams.Done() }

// Stream returns a context that also ends when the server does.
func (s *Core) Stream(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.streams.Context(), cancel)
	return ctx, func() { stop(); cancel() }
}
