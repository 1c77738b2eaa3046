package service

import (
	"context"
	"log/slog"
	"net/url"
	"slices"

	"slipway/hubapi"
	"slipway/internal/config"
	"slipway/internal/mounts"
	"slipway/internal/xrd"
	"slipway/internal/xrd/mount"
	"slipway/spawner"
)

// storage is the site's storage elements as callers of the API reach them.
type storage struct {
	elements *xrd.Storage
	mounter  *mount.Mounter           // nil: nothing is mounted
	looker   *mounts.Looker           // its mounts'
	remote   func(id spawner.ID) bool // whether a workload runs on another host
}

func newStorage(cfg config.Data, log *slog.Logger) *storage {
	return &storage{elements: xrd.New(xrd.Config{Elements: StorageElements(cfg), Logger: log})}
}

// StorageElements returns the storage elements of a configuration.
func StorageElements(cfg config.Data) []xrd.Element {
	var out []xrd.Element
	for _, e := range cfg.Storage {
		out = append(out, xrd.Element{Name: e.Name, Origin: e.Origin, Path: e.Path, Cache: e.Cache, Mount: e.Mount, Write: e.Write})
	}
	return out
}

// servicesForJobs are those that jobs reach also where this host has them: what the administrator names, and the
// storage elements and their caches.
func servicesForJobs(cfg config.Config) []string {
	all := slices.Clone(cfg.Local.Reach)
	for _, e := range cfg.Data.Storage {
		for _, server := range []string{e.Origin, e.Cache} {
			if u, err := url.Parse(server); err == nil && u.Host != "" {
				all = append(all, u.Host)
			}
		}
	}
	return all
}

// URL is server.Storage's.
func (s *storage) URL(lfn string, write, direct bool) (hubapi.DataURL, error) {
	p, err := s.elements.URL(lfn, xrd.Use{Write: write, Direct: direct})
	return hubapi.DataURL{URL: p.URL, Element: p.Element, Path: p.Path, Origin: p.Origin, Cached: p.Cached, Why: p.Why}, err
}

// List is server.Storage's.
func (s *storage) List(_ context.Context, c spawner.Caller) []hubapi.Storage {
	var out []hubapi.Storage
	for _, e := range s.elements.Elements() {
		cache := s.elements.Cache(e)
		out = append(out, hubapi.Storage{
			Name: e.Name, Origin: e.Origin, Path: e.Path, Write: e.Write, Cache: e.Cache, CacheUp: cache.Up, Trouble: cache.Trouble, Mounts: s.mountsOf(c, e.Name),
		})
	}
	return out
}
