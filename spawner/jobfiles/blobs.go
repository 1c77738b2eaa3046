package jobfiles

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/units"
	"slipway/spawner"
)

// blobLife is for how long a blob is kept that no job has, from when it was put or last asked for: whoever is told that
// it is there has so much time to submit with it.
const blobLife = 24 * time.Hour

// mostBlobs is how many blobs one user may have.
const mostBlobs = 10_000

// fullRemedy is what a user can do when the service's disk is full.
const fullRemedy = "tell your administrator, who makes room; then send it again"

// blobName is how the content of a file is named.
var blobName = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// CheckDigest refuses what is not the digest of a blob.
func CheckDigest(digest string) error {
	if !blobName.MatchString(digest) {
		return errs.Bad("digest", errs.Shorten(digest), "sha256: and 64 hexadecimal digits in lower case")
	}
	return nil
}

// blobDir returns the directory of a user's blobs. Each user has their own: that a blob is there tells nothing of
// others. It is root's.
func (s *Store) blobDir(o spawner.Principal) string {
	name := sha256.Sum256([]byte(o.Hub + "\x00" + string(o.User)))
	return filepath.Join(s.blobDirs(), hex.EncodeToString(name[:16]))
}

// blobDirs returns the directory of all users' directories of blobs.
func (s *Store) blobDirs() string { return s.beside("blobs") }

// blob returns where a user's blob lies.
func (s *Store) blob(o spawner.Principal, digest string) string {
	return filepath.Join(s.blobDir(o), strings.TrimPrefix(digest, "sha256:"))
}

// FindBlob returns where a user's blob lies, and reports whether it is there. It stays for a day
// from now.
func (s *Store) FindBlob(o spawner.Principal, digest string) (path string, found bool) {
	if CheckDigest(digest) != nil {
		return "", false
	}
	now := time.Now()
	path = s.blob(o, digest)
	return path, os.Chtimes(path, now, now) == nil
}

// OpenBlob opens a user's blob. The caller closes it.
func (s *Store) OpenBlob(o spawner.Principal, digest string) (io.ReadCloser, error) {
	if err := CheckDigest(digest); err != nil {
		return nil, err
	}
	f, err := os.Open(s.blob(o, digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errs.New(errs.NotFound, "you have put no file %s", digest).With("put it first, then submit again")
	}
	return f, err
}

// PutBlob keeps a blob for a user's jobs. It is there whole, and is what its digest says, or not at
// all.
func (s *Store) PutBlob(ctx context.Context, o spawner.Principal, digest string, r io.Reader) error {
	if s.usage.of(o).blobs >= mostBlobs {
		return errs.New(errs.OverQuota, "you have put %d files for jobs, which is the most that one may", mostBlobs).
			With("pack many into one; what no job has goes after a day, the others with `slipway jobs rm`")
	}
	err := s.makeBlobDir(o)
	if err == nil {
		err = s.writeBlob(ctx, o, digest, r)
	}
	switch {
	case Full(err):
		return fmt.Errorf("keep %s: %w", digest, errFull.With(fullRemedy))
	case err != nil:
		return fmt.Errorf("keep %s: %w", digest, err)
	}
	return nil
}

// writeBlob reserves what it writes before it writes it: many uploads at once do not exceed the user's quota.
func (s *Store) writeBlob(ctx context.Context, o spawner.Principal, digest string, r io.Reader) error {
	f, err := os.CreateTemp(s.blobDir(o), partial+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	quota := &quotaWriter{s: s, owner: o, to: f, most: s.cfg.Quota(o)}
	defer func() { s.usage.release(o, quota.taken) }()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(quota, sum), io.LimitReader(untilDone(ctx, r), control.FileLimit+1))
	is := "sha256:" + hex.EncodeToString(sum.Sum(nil))
	switch {
	case err != nil:
		return err
	case n > control.FileLimit:
		return errs.Bad("size", "more than "+units.MemoryWords(control.FileLimit),
			"put it into your home or a storage, or into several files")
	case is != digest:
		return errs.New(errs.Invalid, "what was sent is %s, and not %s", is, digest).
			With("send it again: it was changed on its way, or while it was read")
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), s.blob(o, digest)); err != nil {
		return err
	}
	s.MeasureBlob(o, digest)
	return nil
}
