// Package environments joins sessions with environments: it freezes a session's file tree into an environment, starts
// sessions and jobs from one, keeps what a session on another host has changed for its next start, and answers for the
// caller's environments: lists, names, shares, comparisons, pulls and pushes, the service's own registry, copies and
// exports.
//
// It is the one package that knows both the engine, which has sessions and knows of environments no more than a digest,
// and the library (package images), which has trees and knows of no sessions. Every method takes the caller, and the
// library decides what that one may see. A freeze outlives the request that asked for it, and nothing of it is left
// when it fails. The package must not start a workload, and it knows no HTTP but that of registries.
package environments

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"slipway/hubapi"
	"slipway/images"
	"slipway/images/records"
	"slipway/images/signing"
	"slipway/images/trial"
	"slipway/internal/agent/control"
	"slipway/internal/config"
	"slipway/internal/metrics"
	"slipway/internal/taskgroup"
	"slipway/internal/version"
	"slipway/spawner"
	"slipway/spawner/engine"
)

// Config is what a Service needs.
type Config struct {
	Site config.Config
	Keys *signing.Keys // that sign environments
	// Account returns what a hub's user is on this host.
	Account func(ctx context.Context, hub string, user spawner.User) (spawner.Account, error)
	// Principal returns the word by which a hub's user owns environments.
	Principal func(hub string, user spawner.User) string
	// GroupsOf returns the groups in which a user shares environments.
	GroupsOf func(hub string, user spawner.User) []string
	// QuotasOf returns what bounds the environments of a principal.
	QuotasOf func(principal string) []records.Quota
	// Try runs a command in an environment.
	Try func(ctx context.Context, c trial.Command) ([]byte, error)
	// Changes returns what asks the agent of a session on another host for what it has changed.
	Changes func(id spawner.ID) func(ctx context.Context, r control.ChangesRequest) (io.ReadCloser, error)
	// Trees and Engine return what is made after this: they are asked for when a session is looked at.
	Trees  func() Trees
	Engine func() *engine.Manager
	Logger *slog.Logger
}

// Service has the environments of a site.
type Service struct {
	cfg     Config
	log     *slog.Logger
	freezes *taskgroup.Group // end with the service: a freeze outlives the request that asked for it
	library *images.Library
	// capture returns a session's file tree, and what removes it again where it had to be copied.
	capture func(ctx context.Context, id spawner.ID, tell func(hubapi.Progress)) (source images.Source, done func(), err error)

	places places   // where environments go beside the library
	turns  turns    // of what reads whole environments
	bases  sync.Map // digests of environments by ids of images
}

// maxFiles is how many files a session may have changed when it is frozen. Some 850 bytes of memory are needed for each:
// 4 GB for this many.
const maxFiles = 5_000_000

// Open opens the environments. life ends with the service.
func Open(life context.Context, c Config) (*Service, error) {
	f := &Service{freezes: taskgroup.New(life), cfg: c, log: c.Logger}
	f.capture = f.captured
	e := f.cfg.Site.Environments
	var err error
	f.library, err = images.Open(images.Config{
		Dir: f.path("environments"), Logger: f.log, Strip: e.Strip, Keys: c.Keys, Version: version.Release,
		Quotas: f.quotas, MaxFiles: maxFiles,
		Keep: time.Duration(e.Retention), InUse: f.inUse, Try: c.Try, Fetch: f.fetcher(),
	})
	if err != nil {
		return nil, err
	}
	if err := f.openPlaces(); err != nil {
		return nil, errors.Join(err, f.library.Close())
	}
	return f, nil
}

// Run looks after the environments until ctx ends: their library, the images that are made ready ahead of a freeze, what
// sessions carry, copies and exports. Each part is given to start.
func (f *Service) Run(ctx context.Context, start func(func() error)) {
	start(func() error { return f.library.Run(ctx) })
	start(func() error { return f.prepareBases(ctx) })
	start(func() error { return f.tidyCarried(ctx) })
	f.places.run(ctx, start)
}

// Close closes the library, after the freezes that are under way have ended.
func (f *Service) Close() error {
	f.freezes.End()
	f.freezes.Wait()
	return f.library.Close()
}

// Stores returns numbers of the stores with copies, for Prometheus.
func (f *Service) Stores() []metrics.Store { return f.places.stores() }

// Exports returns numbers of the directories that somebody publishes, for Prometheus.
func (f *Service) Exports() []metrics.Export { return f.places.exports() }

// Library returns the library, for the backends that take environments from it.
func (f *Service) Library() *images.Library { return f.library }

func (f *Service) path(parts ...string) string {
	return filepath.Join(append([]string{f.cfg.Site.DataDir}, parts...)...)
}

// Find returns the digest of an environment that a hub's user may use, and notes that it is wanted. owner/name:tag is
// another's.
func (f *Service) Find(_ context.Context, hub string, user spawner.User, ref string) (digest string, err error) {
	e, err := f.LookAs(f.Viewer(hub, user), hub, ref)
	if err == nil {
		err = e.RunsHere()
	}
	if err != nil {
		return "", err
	}
	return e.Digest, f.library.Records.Touch(e.Owner, e.Digest)
}

// Thaw returns what a session starts from.
func (f *Service) Thaw(ctx context.Context, digest string) (spawner.Thaw, error) {
	from, err := f.library.Thaw(ctx, digest)
	return spawner.Thaw{Digest: digest, Image: from.Image, Fill: from.Fill}, err
}

// Viewer says as whom a hub's user looks for environments.
func (f *Service) Viewer(hub string, user spawner.User) records.Viewer {
	return records.Viewer{Owner: f.cfg.Principal(hub, user), Groups: f.cfg.GroupsOf(hub, user)}
}
