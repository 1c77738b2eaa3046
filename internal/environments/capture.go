package environments

import (
	"context"
	"os"
	"slices"

	"slipway/hubapi"
	"slipway/images"
	"slipway/spawner"
)

// captured returns a session's file tree, as the library of environments wants it. Where the engine's directories cannot
// be read, or the session runs on another host, the tree is copied first; done removes the copy.
func (f *Service) captured(
	ctx context.Context, id spawner.ID, tell func(hubapi.Progress),
) (source images.Source, done func(), err error) {
	w, err := f.cfg.Engine().Get(ctx, spawner.Caller{System: true}, id)
	if err != nil {
		return images.Source{}, nil, err
	}
	if w.Remote {
		return f.captureRemoteSession(ctx, w, tell)
	}
	source, fetch, err := f.cfg.Trees().Capture(ctx, id)
	if err != nil {
		return images.Source{}, nil, err
	}
	if fetch == nil {
		return source, func() {}, nil
	}
	return f.copied(ctx, source, fetch, tell)
}

// Trees has the file trees of images and sessions on this host.
type Trees interface {
	// Images returns the references of the images that there are.
	Images(ctx context.Context) ([]string, error)
	// Layers returns an image, with nothing over it.
	Layers(ctx context.Context, ref string, tell func(message string, percent int)) (images.Source, error)
	// Capture returns a session's tree. Fetch is nil where its directories can be read as they lie.
	Capture(ctx context.Context, id spawner.ID) (source images.Source, fetch Fetch, err error)
}

// Fetch gets a tree that this process cannot read where it lies: it makes the directory of its changes below dir, and
// tells those of its image.
type Fetch func(ctx context.Context, dir string, tell func(message string, percent int)) (upper string, layers []string, err error)

// copied has a session's tree fetched into a directory of its own.
func (f *Service) copied(
	ctx context.Context, source images.Source, get Fetch, tell func(hubapi.Progress),
) (images.Source, func(), error) {
	dir, err := os.MkdirTemp(f.path("fetch"), "")
	if err != nil {
		return images.Source{}, nil, err
	}
	done := func() {
		if err := os.RemoveAll(dir); err != nil {
			f.log.Error("a session's copied tree cannot be removed", "path", dir, "error", err)
		}
	}
	source.Upper, source.Layers, err = get(ctx, dir, func(message string, percent int) {
		tell(hubapi.Progress{Stage: "fetching", Message: message, Percent: float64(percent)})
	})
	if err != nil {
		done()
		return images.Source{}, nil, err
	}
	return source, done, nil
}

// prepareBases converts the catalogue's images that the engine has, one after the other, so that no freeze waits for
// it, nor the first session on another host.
func (f *Service) prepareBases(ctx context.Context) error {
	have, err := f.cfg.Trees().Images(ctx)
	if err != nil {
		f.log.Warn("the images are not known, so they are converted when somebody freezes", "error", err)
		return nil
	}
	for _, i := range f.cfg.Site.Images {
		if ctx.Err() != nil || !slices.Contains(have, i.Ref) {
			continue
		}
		image, err := f.cfg.Trees().Layers(ctx, i.Ref, func(string, int) {})
		if err == nil {
			err = f.library.Prepare(ctx, image, nil)
		}
		if err == nil && f.remoteImages()[i.Ref] {
			_, err = f.Base(ctx, i.Ref, func(string, int) {})
		}
		if err != nil && ctx.Err() == nil {
			f.log.Warn("an image cannot be converted ahead of a freeze", "image", i.Ref, "error", err)
		}
	}
	return nil
}
