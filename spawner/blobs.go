package spawner

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
)

// blobLife is for how long a file that no job has is kept, from when it was put or last asked for: who is told that it is there has so much
// time to submit with it.
const blobLife = 24 * time.Hour

// partial begins the names of files that are being written.
const partial = ".new-"

// blobName is how the content of a file is named.
var blobName = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func checkBlob(digest string) error {
	if !blobName.MatchString(digest) {
		return errs.Bad("digest", shorten(digest), "sha256: and 64 hexadecimal digits in lower case")
	}
	return nil
}

// blobs is the directory of the files that a user has put for her jobs. Each user has one of her own: that a file is there tells nothing of
// others. It lies beside the jobs' directories, on the same disk, for jobs have the files by hard links; it is root's.
func (m *Manager) blobs(o owner) string {
	name := sha256.Sum256([]byte(o.hub + "\x00" + string(o.user)))
	return filepath.Join(m.allBlobs(), hex.EncodeToString(name[:16]))
}

func (m *Manager) allBlobs() string {
	return filepath.Join(filepath.Dir(filepath.Clean(m.cfg.Dir)), "blobs")
}

func (m *Manager) blob(o owner, digest string) string {
	return filepath.Join(m.blobs(o), strings.TrimPrefix(digest, "sha256:"))
}

// HasBlob reports whether the caller has put a file of this digest. One that is there stays for a day.
func (m *Manager) HasBlob(_ context.Context, c Caller, digest string) bool {
	return c.maySubmit() && checkBlob(digest) == nil && m.touchBlob(owner{c.Hub, c.User}, digest)
}

func (m *Manager) touchBlob(o owner, digest string) bool {
	now := time.Now()
	return os.Chtimes(m.blob(o, digest), now, now) == nil
}

// PutBlob keeps a file for the caller's jobs. It is there whole, and is what its digest says, or not at all.
func (m *Manager) PutBlob(ctx context.Context, c Caller, digest string, r io.Reader) error {
	if !c.maySubmit() {
		return errs.New(errs.Forbidden, "files for jobs are put by users, from outside or from a session")
	}
	if err := errors.Join(checkBlob(digest), m.remembers()); err != nil {
		return err
	}
	o := owner{c.Hub, c.User}
	if m.touchBlob(o, digest) {
		return nil
	}
	if err := m.afford(o, demand{bytes: 1}); err != nil {
		return err
	}
	if err := os.MkdirAll(m.blobs(o), 0o700); err != nil {
		return fmt.Errorf("keep %s: %w", digest, err)
	}
	if err := m.writeBlob(ctx, o, digest, r); err != nil {
		return fmt.Errorf("keep %s: %w", digest, err)
	}
	m.mu.Lock()
	m.putters[o] = true
	m.mu.Unlock()
	m.weighBlobs(o)
	return nil
}

func (m *Manager) writeBlob(ctx context.Context, o owner, digest string, r io.Reader) error {
	room, err := m.cfg.Room(m.blobs(o))
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(m.blobs(o), partial+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(heeding{ctx, r}, min(control.FileLimit, max(room, 0))+1))
	is := "sha256:" + hex.EncodeToString(sum.Sum(nil))
	switch {
	case n > control.FileLimit:
		return errs.Bad("size", "more than "+FormatSize(control.FileLimit), "put it into your home or a storage, or into several files")
	case full(err) || n > room:
		return errFull
	case err != nil:
		return err
	case is != digest:
		return errs.New(errs.Invalid, "what was sent is %s, and not %s", is, digest).With("send it again: it was changed on its way, or while it was read")
	}
	if err := m.afford(o, demand{bytes: n}); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return os.Rename(f.Name(), m.blob(o, digest))
}

// findBlobs gives where the files lie that a request names by their digests.
func (m *Manager) findBlobs(c Caller, r JobRequest) (map[string]string, error) {
	if len(r.Blobs) == 0 {
		return r.links, nil
	}
	o, found := owner{c.Hub, c.User}, maps.Clone(r.links)
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
	err := os.Link(from, to)
	if !errors.Is(err, syscall.EMLINK) {
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

// weighBlobs counts what a user has put. Of what jobs have too, they bear their part.
func (m *Manager) weighBlobs(o owner) {
	g := goods{of: o}
	entries, _ := os.ReadDir(m.blobs(o))
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		if g.bytes, g.files = g.bytes+shareOf(info), g.files+1; names(info) == 1 {
			g.spare += info.Size()
		}
	}
	m.stock.note(ID(m.blobs(o)), g)
}

// names gives how many names a file has.
func names(info fs.FileInfo) uint64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return uint64(st.Nlink)
}

// sweepBlobs removes what no job has and nobody has asked for lately. Who submits with one meanwhile has it, or is told to put it again. A
// time that has not come yet is of a clock that was set back: it counts from now.
func (m *Manager) sweepBlobs(now time.Time) {
	dirs, err := os.ReadDir(m.allBlobs())
	if err != nil {
		return // made with the first
	}
	for _, d := range dirs {
		dir := filepath.Join(m.allBlobs(), d.Name())
		files, _ := os.ReadDir(dir)
		for _, f := range files {
			m.sweepBlob(filepath.Join(dir, f.Name()), f, now)
		}
	}
}

// weighAllBlobs counts anew what users have put.
func (m *Manager) weighAllBlobs() {
	m.mu.RLock()
	owners := maps.Clone(m.putters)
	for o := range m.index.owned {
		owners[o] = true
	}
	m.mu.RUnlock()
	for o := range owners {
		m.weighBlobs(o)
	}
}

func (m *Manager) sweepBlob(path string, f fs.DirEntry, now time.Time) {
	info, err := f.Info()
	if err != nil || names(info) != 1 {
		return
	}
	switch age := now.Sub(info.ModTime()); {
	case age < -blobLife:
		err = os.Chtimes(path, now, now)
	case age > blobLife:
		err = os.Remove(path)
	}
	if err != nil {
		m.log.Warn("cannot clear away a file that no job has", "path", path, "err", err)
	}
}
