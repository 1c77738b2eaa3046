package images

import (
	"context"
	"fmt"
	"os"

	"slipway/images/compare"
	"slipway/images/graft"
	"slipway/images/libdir"
	"slipway/images/records"
	"slipway/images/tree"
	"slipway/internal/errs"
)

// Compared says in what an environment's tree differs from its source's.
type Compared struct {
	compare.Result
	// Changed: the source is not, or not for certain, as it was when this environment was frozen, so differences may be
	// its own changes.
	Changed bool
}

// Compare compares an environment's tree with the source that it was frozen from, entry by entry and byte by byte. The
// source may run meanwhile.
func (l *Library) Compare(
	ctx context.Context, e records.Environment, src Source, progress func(paths, bytes int64),
) (Compared, error) {
	if err := src.validate(); err != nil {
		return Compared{}, err
	}
	if len(src.Layers) == 0 {
		return Compared{}, errs.New(
			errs.Missing,
			"the image that the session stands on is not in the engine any more, so its tree cannot be put together",
		).With("the administrator puts the image " + src.Base.Reference + " back")
	}
	v, err := l.view(e.Digest)
	if err != nil {
		return Compared{}, err
	}
	defer v.Close()
	cfg := compare.Config{
		Image: v.image, Progress: progress, Added: append([]string{"/.singularity.d"}, e.Manifest.Added...),
	}
	if cfg.Strip, err = tree.ExactStrip(e.Manifest.Strip); err != nil {
		return Compared{}, err
	}
	out, err := l.compareWith(ctx, e, src, cfg)
	if err != nil {
		return Compared{}, fmt.Errorf("compare %s with its session: %w", e.Digest, l.dir.Explain(err, 0))
	}
	return out, nil
}

// compareWith looks for changes of the source before and after it is compared.
func (l *Library) compareWith(
	ctx context.Context, e records.Environment, src Source, cfg compare.Config,
) (out Compared, err error) {
	before, err := l.stillThat(ctx, e, src)
	if err != nil {
		return out, err
	}
	if cfg.Session, err = l.merged(src); err != nil {
		return out, err
	}
	defer cfg.Session.Close()
	if out.Result, err = compare.Trees(ctx, cfg); err != nil {
		return out, err
	}
	after, err := l.stillThat(ctx, e, src)
	out.Changed = !before || !after
	return out, err
}

// merged returns the root of a source's tree, as the kernel merges it.
func (l *Library) merged(src Source) (*os.File, error) {
	if len(src.Layers) >= tree.MaxLayers {
		return nil, errs.New(
			errs.Conflict, "the session has %d layers, at most %d can be compared", len(src.Layers)+1, tree.MaxLayers,
		)
	}
	point, err := os.MkdirTemp(l.dir.Path("work"), "compare-")
	if err != nil {
		return nil, err
	}
	defer l.discard(point)
	return tree.Merged(append([]string{src.Upper}, src.Layers...), point)
}

// stillThat says whether a source is in the state that its last freeze found, and that was the freeze which gave e.
func (l *Library) stillThat(ctx context.Context, e records.Environment, src Source) (bool, error) {
	state, _, _, err := graft.Scan(ctx, src.Upper, l.strip)
	if err != nil {
		return false, err
	}
	id, err := l.identity(state, src)
	if err != nil {
		return false, err
	}
	var last lastFreeze
	if err := libdir.ReadJSON(l.dir.Path("sources", libdir.Escape(e.Owner), libdir.Escape(e.FromSession)+".json"), &last); err != nil {
		return false, nil // nobody knows: it counts as changed
	}
	return last.Identity == id && last.Frozen.Digest == e.Digest, nil
}
