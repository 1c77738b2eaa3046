package blobstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"slipway/images/blob"
	"slipway/internal/errs"
)

// Export lays SIFs out in a directory that somebody else publishes, such as a CVMFS repository or the root of an XRootD
// server:
//
//	<hex>.sif                      the file, never changed
//	<owner>/<name>/<tag>.sif       -> ../../<hex>.sif
//
// Links are relative, so the tree can be mounted anywhere, and each is replaced in one step.
type Export struct{ files *Dir }

// OpenExport opens such a directory, which must be there.
func OpenExport(path string) (*Export, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, unmounted(path, err)
	}
	files, err := OpenDir(DirConfig{Path: path, Suffix: ".sif", Mode: 0o644, Existing: true})
	if err != nil {
		return nil, err
	}
	return &Export{files}, nil
}

var (
	wordPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,127}$`)
	tagPattern  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
)

func (e *Export) dir(owner, name string) (string, error) {
	for field, value := range map[string]string{"owner": owner, "name": name} {
		if !wordPattern.MatchString(value) {
			return "", errs.Bad(field, value, "use a-z 0-9 . _ - and begin with a letter or digit")
		}
	}
	return filepath.Join(e.files.cfg.Path, owner, name), nil
}

// Publish puts a SIF into the directory, and lets a tag lead there.
func (e *Export) Publish(ctx context.Context, owner, name, tag, digest string, sif blob.Blob) error {
	dir, err := e.dir(owner, name)
	if err != nil {
		return err
	}
	if !tagPattern.MatchString(tag) {
		return errs.Bad("tag", tag, "use A-Z a-z 0-9 . _ - and begin with a letter, digit or _")
	}
	if err := e.files.Put(ctx, digest, sif); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	hex, _ := blob.Hex(digest)
	if err := relink(filepath.Join("..", "..", hex+".sif"), dir, tag+".sif"); err != nil {
		return fmt.Errorf("publish %s/%s: %w", owner, name, err)
	}
	return syncDir(dir)
}

// relink replaces a link in one step.
func relink(target, dir, name string) error {
	tmp, err := os.MkdirTemp(dir, temporary+"*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	link := filepath.Join(tmp, name)
	return errors.Join(os.Symlink(target, link), os.Rename(link, filepath.Join(dir, name)))
}

// Withdraw takes a tag away, and the directories that it leaves empty. The file stays until Remove.
func (e *Export) Withdraw(owner, name, tag string) error {
	dir, err := e.dir(owner, name)
	if err != nil {
		return err
	}
	if !tagPattern.MatchString(tag) {
		return errs.Bad("tag", tag, "name a tag that was published")
	}
	err = os.Remove(filepath.Join(dir, tag+".sif"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, empty := range []string{dir, filepath.Dir(dir)} {
		if err := os.Remove(empty); err != nil { // there is more in it, or it has gone
			break
		}
	}
	return syncDir(e.files.cfg.Path)
}

// Remove takes a file away. Whoever calls it knows that no name leads there.
func (e *Export) Remove(ctx context.Context, digest string) error { return e.files.Delete(ctx, digest) }
