package bases

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"slipway/images/apptainer"
	"slipway/images/graft"
	"slipway/images/tree"
)

// Pack packs all that layers show together, with what makes it run in Apptainer. work is an empty directory.
func Pack(
	ctx context.Context, image apptainer.ImageConfig, layers []string, work string, cfg graft.Config,
) (graft.Result, error) {
	files, err := apptainer.Files(image)
	if err != nil {
		return graft.Result{}, err
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		mode := uint16(0o755)
		if filepath.Ext(path) == ".json" {
			mode = 0o644
		}
		cfg.Runtime = append(cfg.Runtime, graft.File{Path: path, Mode: mode, Content: []byte(files[path])})
	}
	point, empty := filepath.Join(work, "mount"), filepath.Join(work, "empty")
	if err := errors.Join(os.Mkdir(point, 0o700), os.Mkdir(empty, 0o700)); err != nil {
		return graft.Result{}, err
	}
	if len(layers) == 1 { // overlayfs takes no single one
		layers = append(slices.Clone(layers), empty)
	}
	root, err := tree.Merged(layers, point)
	if err != nil {
		return graft.Result{}, err
	}
	defer root.Close()
	cfg.Upper = tree.FDPath(int(root.Fd()))
	return graft.Graft(ctx, cfg)
}
