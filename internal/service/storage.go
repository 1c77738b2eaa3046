package service

import (
	"context"
	"log/slog"

	"slipway/hubapi"
	"slipway/internal/config"
	"slipway/internal/mounts"
	"slipway/internal/service/clients"
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
	return &storage{elements: xrd.New(xrd.Config{Elements: clients.StorageElements(cfg), Logger: log})}
}

// URL is server.Storage's.
func (s *storage) URL(lfn string, write, direct bool) (hubapi.DataURL, error) {
	p, err := s.elements.URL(lfn, xrd.Use{Write: write, Direct: direct})
	return hubapi.DataURL{
		URL: p.URL, Element: p.Element, Path: p.Path, Origin: p.Origin, Cached: p.Cached, Why: p.Why,
	}, err
}

// List is server.Storage's.
func (s *storage) List(_ context.Context, c spawner.Caller) []hubapi.Storage {
	var out []hubapi.Storage
	for _, e := range s.elements.Elements() {
		cache := s.elements.Cache(e)
		out = append(out, hubapi.Storage{
			Name: e.Name, Origin: e.Origin, Path: e.Path, Write: e.Write, Cache: e.Cache, CacheUp: cache.Up,
			Trouble: cache.Trouble, Mounts: s.mountsOf(c, e.Name),
		})
	}
	return out
}
