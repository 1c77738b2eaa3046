package squash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
	"slipway/internal/errs"
)

// hidden is what strip rules match in a merged tree: the paths, and the attributes of the directories above them.
type hidden struct {
	paths   []string
	parents map[string]tree.Attr
}

// findHidden looks only where a rule can match.
func findHidden(ctx context.Context, root *os.File, strip *tree.Strip) (*hidden, error) {
	h := &hidden{parents: map[string]tree.Attr{}}
	return h, h.look(ctx, root, "", strip.Top())
}

func (h *hidden) look(ctx context.Context, dir *os.File, rel string, rules tree.Live) error {
	list, err := tree.Names(dir)
	if err != nil {
		return fmt.Errorf("list /%s: %w", rel, err)
	}
	for _, name := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		stripped, below := rules.Enter(name)
		if stripped {
			if err := h.note(dir, rel); err != nil {
				return err
			}
			h.paths = append(h.paths, tree.Join(rel, name))
			continue
		}
		if len(below) > 0 {
			if err := h.descend(ctx, dir, name, rel, below); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *hidden) descend(ctx context.Context, dir *os.File, name, rel string, below tree.Live) error {
	st, err := tree.StatAt(dir, name)
	if err != nil || !tree.IsDir(&st) {
		return err
	}
	sub, err := tree.Child(dir, name, st.Dev)
	if err != nil {
		return err
	}
	defer sub.Close()
	// Parents are noted on the way down, so that they are there from the top when something below is hidden.
	count := len(h.paths)
	if err := h.look(ctx, sub, tree.Join(rel, name), below); err != nil {
		return err
	}
	if len(h.paths) > count {
		return h.note(dir, rel)
	}
	return nil
}

func (h *hidden) note(dir *os.File, rel string) error {
	if _, known := h.parents[rel]; known {
		return nil
	}
	st, err := tree.StatFile(dir)
	if err != nil {
		return err
	}
	xs, err := tree.ReadXattrs(tree.FDPath(int(dir.Fd())))
	if err != nil {
		return fmt.Errorf("/%s: %w", rel, err)
	}
	h.parents[rel] = tree.Attr{Stat: st, Xattrs: xs}
	return nil
}

// coverIn writes whiteouts for the hidden paths into the topmost layer. Directories on the way that the layer lacks are
// made with the attributes that they have in the merged tree; no directory's times change.
func (h *hidden) coverIn(layer string) error {
	for _, path := range h.paths {
		if err := h.parent(layer, path); err != nil {
			return err
		}
		if err := unix.Mknod(layer+"/"+path, unix.S_IFCHR, 0); err != nil {
			return fmt.Errorf("hide /%s: %w", path, err)
		}
	}
	for path, a := range h.parents {
		if err := tree.SetTimes(layer+"/"+path, &a.Stat); err != nil {
			return fmt.Errorf("restore /%s: %w", path, err)
		}
	}
	return nil
}

// coverSkipped writes whiteouts into the topmost layer for what others would show of the names that were left out of it.
func coverSkipped(layers []string, point string, skipped []string) error {
	if len(skipped) == 0 {
		return nil
	}
	shown, err := shownOf(layers, point, skipped)
	for _, path := range shown {
		if err == nil {
			err = cover(layers[0] + path)
		}
	}
	return err
}

// shownOf gives those of the paths that the merged tree has. A whiteout of another could be seen in it.
func shownOf(layers []string, point string, paths []string) ([]string, error) {
	root, err := tree.Merged(layers, point)
	if err != nil {
		return nil, err
	}
	shown := slices.DeleteFunc(paths, func(path string) bool { return !exists(root, path[1:]) })
	return shown, root.Close()
}

// cover makes a whiteout. Its directory keeps its times.
func cover(path string) error {
	var dir unix.Stat_t
	err := unix.Lstat(filepath.Dir(path), &dir)
	if err == nil {
		err = unix.Mknod(path, unix.S_IFCHR, 0)
	}
	if err == nil {
		err = tree.SetTimes(filepath.Dir(path), &dir)
	}
	if err != nil {
		return fmt.Errorf("hide %s: %w", path, err)
	}
	return nil
}

func (h *hidden) parent(layer, path string) error {
	for i := range path {
		if path[i] != '/' {
			continue
		}
		dir := path[:i]
		err := os.Mkdir(layer+"/"+dir, 0o700)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("hide /%s: %w", path, err)
		}
		a, known := h.parents[dir]
		if !known {
			return errs.New(errs.Internal, "hide /%s: the attributes of /%s are unknown", path, dir)
		}
		if err := a.Apply(layer + "/" + dir); err != nil {
			return fmt.Errorf("make /%s: %w", dir, err)
		}
	}
	return nil
}
