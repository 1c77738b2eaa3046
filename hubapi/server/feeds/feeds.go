// Package feeds streams how things go on, as text/event-stream: the steps of a session's or job's start, the points of
// a scan, and the progress of work that a request has asked for. A reader who comes back is told what has changed
// meanwhile. All streams end with the server; nothing is kept for anybody who reads slowly.
package feeds

import (
	"context"
	"iter"

	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/web"
	"slipway/spawner"
)

// Engine is what the package needs of the engine, which has the contract of each method.
type Engine interface {
	Each(ctx context.Context, c spawner.Caller, scan string, each func(w *spawner.Workload)) error
	Events(ctx context.Context, c spawner.Caller, id spawner.ID, launch string, after int64) (iter.Seq[spawner.Event], error)
	Queue(w spawner.Workload) spawner.Queue
	Detail(w spawner.Workload) string
}

// Feeds are the streams of a server. Run has to run.
type Feeds struct {
	engine  Engine
	web     *web.Core
	convert *convert.Converter
	scans   scanFeeds
}

// New makes Feeds.
func New(engine Engine, core *web.Core, to *convert.Converter) *Feeds {
	return &Feeds{engine: engine, web: core, convert: to}
}

// Run forgets scans that nobody watches any more, until ctx ends.
func (f *Feeds) Run(ctx context.Context) { f.scans.tidy(ctx) }
