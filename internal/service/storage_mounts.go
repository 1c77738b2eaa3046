package service

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"slipway/hubapi"
	"slipway/internal/config"
	"slipway/internal/credentials"
	"slipway/internal/mounts"
	"slipway/internal/secret"
	"slipway/internal/xrd/mount"
	"slipway/spawner"
	"slipway/spawner/launch"
)

// storageRunDir holds the credentials of mounts. It is no disk.
const storageRunDir = "/run/slipway/storage"

// makeMounter makes what mounts storage for workloads; nil where nothing is to be mounted.
func (s *service) makeMounter(ctx context.Context) error {
	if !slices.ContainsFunc(s.cfg.Data.Storage, func(e config.StorageElement) bool { return e.Mount }) {
		return nil
	}
	s.storage.looker = mounts.NewLooker([]string{s.self, mounts.LookCommand})
	var err error
	s.storage.mounter, err = mount.New(mount.Config{
		Dir: s.path("storage"), RunDir: filepath.Join(storageRunDir, s.cfg.Instance), Storage: s.storage.elements,
		Papers: s.papers, Trust: s.cfg.Credentials.X509.Trust,
		Look: s.storage.looker.At, Tell: func(id, text string) { s.engine.Tell(ctx, spawner.ID(id), text) },
		Logger: s.log,
	})
	return err
}

// papers returns a user's credentials for a storage element, by her principal.
func (s *service) papers(ctx context.Context, principal, element string) (mount.Papers, error) {
	if s.held.manager == nil {
		return mount.Papers{}, nil
	}
	files, err := s.held.manager.Files(ctx, principal)
	if err != nil {
		return mount.Papers{}, err
	}
	return papersFor(element, s.cfg.Data.Storage, files), nil
}

// papersFor picks what goes to a storage element: the token that is for it, or else, where it names no issuer, the
// user's main one. An element that names its issuer never sees a token of another.
func papersFor(element string, storage []config.StorageElement, files []credentials.File) mount.Papers {
	byName := map[string]secret.Text{}
	for _, f := range files {
		byName[f.Name] = f.Data
	}
	p := mount.Papers{Token: byName["token-"+element], Proxy: byName["x509"]}
	anyIssuer := slices.ContainsFunc(
		storage, func(e config.StorageElement) bool { return e.Name == element && e.Issuer == "" },
	)
	if anyIssuer {
		p.Token = byName["token"]
	}
	return p
}

// jobPatience is how long a job's start waits for its storage, which is told to be missing then.
const jobPatience = 20 * time.Second

// storageMounts is the engine's spawner.Storage.
type storageMounts struct {
	mounter   *mount.Mounter
	principal func(hub string, user spawner.User) string
}

// Open is spawner.Storage's.
func (m storageMounts) Open(w spawner.Workload, tell func(string)) (string, error) {
	dir, err := m.mounter.Open(m.session(w), tell)
	if err == nil && w.Kind.Batch() {
		m.mounter.Await(string(w.ID), jobPatience)
	}
	return dir, err
}

// Close is spawner.Storage's.
func (m storageMounts) Close(id spawner.ID) { m.mounter.Close(string(id)) }

// Forget is spawner.Storage's.
func (m storageMounts) Forget(id spawner.ID) error { return m.mounter.Forget(string(id)) }

func (m storageMounts) session(w spawner.Workload) mount.Session {
	return mount.Session{ID: string(w.ID), User: m.principal(w.Hub, w.Owner)}
}

// engineStorage returns the engine what mounts storage; nil: nothing does.
func (s *service) engineStorage() launch.Storage {
	if s.storage.mounter == nil {
		return nil
	}
	return storageMounts{s.storage.mounter, s.principal}
}

// runMounter keeps the mounts of workloads that may be running on this host.
func (s *service) runMounter(ctx context.Context, begin func(func() error)) {
	if s.storage.mounter == nil {
		return
	}
	own := storageMounts{s.storage.mounter, s.principal}
	begin(func() error {
		defer s.storage.looker.Close()
		return s.storage.mounter.Run(ctx, func() []mount.Session {
			all, _ := s.engine.List(ctx, spawner.Caller{System: true}) // it fails for no such caller
			var live []mount.Session
			for _, w := range all {
				if !w.Remote && w.Phase.Active() && w.Phase != spawner.Pending && w.Phase != spawner.Leased {
					live = append(live, own.session(w))
				}
			}
			return live
		})
	})
}

// mountsOf tells where the workload that asks has an element as a directory.
func (s *storage) mountsOf(c spawner.Caller, element string) []hubapi.DataMount {
	out := []hubapi.DataMount{}
	if s.mounter == nil || c.Workload == "" || s.remote(c.Workload) {
		return out
	}
	for _, m := range s.mounter.Status(string(c.Workload)) {
		if m.Element == element {
			out = append(out, hubapi.DataMount{Path: m.Path, Cached: m.Cached, Trouble: m.Trouble})
		}
	}
	return out
}

func (s *service) runsRemotely(id spawner.ID) bool {
	w, err := s.engine.Get(context.Background(), spawner.Caller{System: true}, id)
	return err != nil || w.Remote
}
