package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"slipway/images/blob"
	"slipway/images/blobstore"
	"slipway/internal/errs"
)

// longestCommand bounds a program of the site: publishing a large change to CVMFS takes minutes.
const longestCommand = time.Hour

// apply puts what is new in its place, and takes names away before what they lead to.
func (o *Publisher) apply(ctx context.Context, wanted []Entry, gone []published, add []opened) error {
	files, err := blobstore.OpenExport(o.cfg.Directory)
	if err != nil {
		return err
	}
	for _, p := range add {
		if err := o.put(ctx, files, p); err != nil {
			return fmt.Errorf("publish %s: %w", p.link(), err)
		}
	}
	names, trees, sifs := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, e := range wanted {
		names[e.link()], trees[e.Digest] = true, true
	}
	for _, p := range o.state.There {
		if slices.Contains(wanted, p.Entry) {
			sifs[p.SIF] = true
		}
	}
	for _, p := range add {
		sifs[p.SIF] = true
	}
	for _, p := range gone {
		if err := o.take(ctx, files, p, names, trees, sifs); err != nil {
			return fmt.Errorf("take %s away: %w", p.link(), err)
		}
	}
	return nil
}

func (o *Publisher) put(ctx context.Context, files *blobstore.Export, p opened) error {
	if o.cfg.SIF {
		if err := files.Publish(ctx, p.Owner, p.Name, p.Tag, p.SIF, p.file); err != nil {
			return err
		}
	}
	if !o.cfg.Unpacked {
		return nil
	}
	return o.cfg.Unpack(ctx, o.cfg.Directory, p.Digest, p.link())
}

// take removes an entry, but for what another one needs. What is gone already is no error.
func (o *Publisher) take(
	ctx context.Context, files *blobstore.Export, p published, names, trees, sifs map[string]bool,
) error {
	if !names[p.link()] || !o.cfg.Unpacked {
		if err := os.Remove(filepath.Join(o.cfg.Directory, p.link())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if !names[p.link()] || !o.cfg.SIF {
		if err := files.Withdraw(p.Owner, p.Name, p.Tag); err != nil {
			return err
		}
	}
	if p.SIF != "" && !sifs[p.SIF] {
		if err := files.Remove(ctx, p.SIF); err != nil {
			return err
		}
	}
	if trees[p.Digest] && o.cfg.Unpacked {
		return nil
	}
	return o.removeTree(p.Digest)
}

// removeTree takes a tree away in one step, and then its files.
func (o *Publisher) removeTree(digest string) error {
	name, ok := blob.Hex(digest)
	if !ok {
		return errs.Bad("digest", digest, "give a whole sha256 digest")
	}
	beside := filepath.Join(o.cfg.Directory, ".flat", name[:2])
	old := filepath.Join(beside, ".old-"+name)
	if err := os.RemoveAll(old); err != nil { // of a service that was killed
		return err
	}
	if err := os.Rename(filepath.Join(beside, name), old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.RemoveAll(old); err != nil {
		return err
	}
	for _, empty := range []string{beside, filepath.Dir(beside)} {
		if err := os.Remove(empty); err != nil { // there is more in it, or it has gone
			break
		}
	}
	return nil
}

// run runs a program of the site's; none is no error.
func (o *Publisher) run(ctx context.Context, argv []string) error {
	if len(argv) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, longestCommand)
	defer cancel()
	var said bytes.Buffer
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Stdout, c.Stderr, c.WaitDelay = &said, &said, 10*time.Second
	if err := c.Run(); err != nil {
		text := said.Bytes()
		return errs.New(errs.Unavailable, "run %q: %w: %s", argv, err, bytes.TrimSpace(text[max(0, len(text)-500):]))
	}
	return nil
}
