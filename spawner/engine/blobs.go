package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/memsize"
	"slipway/spawner"
)

// blobLife is for how long a file that no job has is kept, from when it was put or last asked for: who is told that it is there has so much
// time to submit with it.
const blobLife = 24 * time.Hour

// mostBlobs is how many files one user may have put.
const mostBlobs = 10_000

// partial begins the names of files that are being written.
const partial = ".new-"

// fullRemedy is what a user can do of whom the service's disk takes nothing more.
const fullRemedy = "tell your administrator, who makes room; then send it again"

// removePartial removes what uploads have left that a kill of the service has ended: they begin anew. Nobody else writes here, and no upload
// of this service has begun yet.
func (m *Manager) removePartial() {
	left, _ := filepath.Glob(filepath.Join(m.allBlobs(), "*", partial+"*")) // the pattern is sound
	for _, path := range left {
		if err := os.Remove(path); err != nil {
			m.log.Warn("cannot remove what a broken upload has left", "path", path, "err", err)
		}
	}
}

// blobName is how the content of a file is named.
var blobName = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func checkBlob(digest string) error {
	if !blobName.MatchString(digest) {
		return errs.Bad("digest", errs.Shorten(digest), "sha256: and 64 hexadecimal digits in lower case")
	}
	return nil
}

// blobs is the directory of the files that a user has put for her jobs. Each user has one of her own: that a file is there tells nothing of
// others. It lies beside the jobs' directories, on the same disk, for jobs have the files by hard links; it is root's.
func (m *Manager) blobs(o spawner.Principal) string {
	name := sha256.Sum256([]byte(o.Hub + "\x00" + string(o.User)))
	return filepath.Join(m.allBlobs(), hex.EncodeToString(name[:16]))
}

func (m *Manager) allBlobs() string {
	return filepath.Join(filepath.Dir(filepath.Clean(m.cfg.Dir)), "blobs")
}

func (m *Manager) blob(o spawner.Principal, digest string) string {
	return filepath.Join(m.blobs(o), strings.TrimPrefix(digest, "sha256:"))
}

// HasBlob reports whether the caller has put a file of this digest. One that is there stays for a day.
func (m *Manager) HasBlob(_ context.Context, c spawner.Caller, digest string) bool {
	return c.MaySubmit() && checkBlob(digest) == nil && m.touchBlob(spawner.Principal{Hub: c.Hub, User: c.User}, digest)
}

func (m *Manager) touchBlob(o spawner.Principal, digest string) bool {
	now := time.Now()
	return os.Chtimes(m.blob(o, digest), now, now) == nil
}

// PutBlob keeps a file for the caller's jobs. It is there whole, and is what its digest says, or not at all.
func (m *Manager) PutBlob(ctx context.Context, c spawner.Caller, digest string, r io.Reader) error {
	if !c.MaySubmit() {
		return errs.New(errs.Forbidden, "files for jobs are put by users, from outside or from a session")
	}
	if err := errors.Join(checkBlob(digest), m.remembers()); err != nil {
		return err
	}
	o := spawner.Principal{Hub: c.Hub, User: c.User}
	if m.touchBlob(o, digest) {
		return nil
	}
	if err := m.afford(o, demand{bytes: 1}); err != nil {
		return err
	}
	if m.diskUsage.of(o).blobs >= mostBlobs {
		return errs.New(errs.OverQuota, "you have put %d files for jobs, which is the most that one may", mostBlobs).
			With("pack many into one; what no job has goes after a day, the others with `slipway jobs rm`")
	}
	err := m.makeBlobDir(o)
	if err == nil {
		err = m.writeBlob(ctx, o, digest, r)
	}
	switch {
	case full(err):
		return fmt.Errorf("keep %s: %w", digest, errFull.With(fullRemedy))
	case err != nil:
		return fmt.Errorf("keep %s: %w", digest, err)
	}
	return nil
}

// Blob opens a file that the caller has put. The caller closes it.
func (m *Manager) Blob(_ context.Context, c spawner.Caller, digest string) (io.ReadCloser, error) {
	if !c.MaySubmit() {
		return nil, errs.New(errs.Forbidden, "files for jobs are users'")
	}
	if err := checkBlob(digest); err != nil {
		return nil, err
	}
	f, err := os.Open(m.blob(spawner.Principal{Hub: c.Hub, User: c.User}, digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errs.New(errs.NotFound, "you have put no file %s", digest).With("put it first, then submit again")
	}
	return f, err
}

// writeBlob takes what it writes from what the user may keep, before it writes it: many files that are put at once are not more than one.
func (m *Manager) writeBlob(ctx context.Context, o spawner.Principal, digest string, r io.Reader) error {
	f, err := os.CreateTemp(m.blobs(o), partial+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	meter := m.meter(o, f)
	defer func() { m.diskUsage.release(o, meter.taken) }()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(meter, sum), io.LimitReader(heeding{ctx, r}, control.FileLimit+1))
	is := "sha256:" + hex.EncodeToString(sum.Sum(nil))
	switch {
	case err != nil:
		return err
	case n > control.FileLimit:
		return errs.Bad("size", "more than "+memsize.Words(control.FileLimit), "put it into your home or a storage, or into several files")
	case is != digest:
		return errs.New(errs.Invalid, "what was sent is %s, and not %s", is, digest).With("send it again: it was changed on its way, or while it was read")
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), m.blob(o, digest)); err != nil {
		return err
	}
	m.weighBlob(o, m.blob(o, digest))
	return nil
}

// findBlobs returns where the files lie that a request names by their digests.
func (m *Manager) findBlobs(c spawner.Caller, r submission) (map[string]string, error) {
	if len(r.Blobs) == 0 {
		return r.links, nil
	}
	o, found := spawner.Principal{Hub: c.Hub, User: c.User}, maps.Clone(r.links)
	if found == nil {
		found = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Blobs)) {
		digest := r.Blobs[name]
		if err := errors.Join(checkFileName(name), checkBlob(digest)); err != nil {
			return nil, err
		}
		if _, twice := r.Files[name]; twice {
			return nil, errs.Bad("blobs", name, "another name: files has one of this name too")
		}
		if !m.touchBlob(o, digest) {
			return nil, errs.New(errs.NotFound, "input file %s: you have put no file %s", name, digest).With("put it first, then submit again")
		}
		found[name] = m.blob(o, digest)
	}
	return found, nil
}

// linkFile gives a file one more name. Where it has as many as a file system lets one have, it is copied, and the copy takes its place for
// those who come later.
func linkFile(from, to string) error {
	switch err := os.Link(from, to); {
	case errors.Is(err, fs.ErrNotExist):
		return errs.New(errs.NotFound, "it was removed just now").With("put it again, then submit again")
	case !errors.Is(err, syscall.EMLINK):
		return err
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := writeFile(from, f); err != nil {
		return err
	}
	return os.Link(from, to)
}
