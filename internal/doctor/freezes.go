package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
	"slipway/spawner/docker"
)

// freezeChecks say how quick a freeze will be. Without what they look for it works as well.
func freezeChecks(dataDir string) []check {
	return []check{
		{"freezes share blocks below " + dataDir, true, func(context.Context) error { return sharesBlocks(dataDir) }},
	}
}

// readsEngine looks whether a freeze can read what a session has changed where the engine keeps it.
func readsEngine(ctx context.Context, engine *docker.Backend) error {
	err := engine.Reach(ctx)
	if errs.Is(err, errs.Missing) {
		return errs.New(errs.Missing, "freezes fetch whole trees through the engine's API, 10 s and more: %w", err).
			With("run the service on the engine's host, as root, and the engine without rootless mode and without userns-remap")
	}
	return err
}

// sharesBlocks tries whether two files there can have a block in common. The files have no names, so nothing is left.
func sharesBlocks(dir string) error {
	for !isDir(dir) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	from, err := nameless(dir)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := nameless(dir)
	if err != nil {
		return err
	}
	defer to.Close()
	if _, err := from.Write(make([]byte, 4096)); err != nil {
		return fmt.Errorf("write a block below %s: %w", dir, err)
	}
	err = unix.IoctlFileClone(int(to.Fd()), int(from.Fd()))
	switch {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOTTY), errors.Is(err, unix.EINVAL):
		return errs.New(errs.Missing, "the file system cannot: an environment that jobs or sessions use has a copy of its base image, for an hour after its last use").With("put data_dir on XFS or btrfs to save the space, and seconds before the first run of an environment")
	case err != nil:
		return fmt.Errorf("share a block below %s: %w", dir, err)
	}
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func nameless(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, unix.O_TMPFILE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errs.New(errs.Missing, "it cannot be tried here: %w", err).With("put data_dir on XFS or btrfs")
	}
	return f, nil
}
