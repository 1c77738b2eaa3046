// Package graftmemory keeps what the last freeze of a source has left to the next: the environment whose packs it speaks
// of, and what the graft has stored where in them.
//
// It promises that a memory is used only while its packs are there. A freeze can do without one: it must not become
// anything that an environment's content follows from.
package graftmemory

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"slipway/images/blob"
	"slipway/images/graft"
	"slipway/images/libdir"
)

// Path names the memory of a source. A freeze that only carries a session's changes has one of its own.
func Path(dir libdir.Dir, owner, key string, carried bool) string {
	name := libdir.Escape(key) + ".memory"
	if carried {
		name = libdir.Escape(key) + ".carried.memory"
	}
	return dir.Path("sources", libdir.Escape(owner), name)
}

// Recall returns the memory at path, with the packs that it speaks of linked into a directory; nil when there is none that
// holds. sound says whether an environment is not known to be damaged.
func Recall(dir libdir.Dir, path, into string, sound func(digest string) bool) *graft.Memory {
	data, err := os.ReadFile(path)
	hexPart, rest, found := strings.Cut(string(data), "\n")
	digest := blob.Prefix + hexPart
	if _, whole := blob.Hex(digest); err != nil || !found || !whole || !sound(digest) {
		return nil
	}
	m, err := graft.ParseMemory([]byte(rest))
	if err != nil {
		return nil
	}
	for _, name := range m.Packs {
		if err := os.Link(filepath.Join(dir.Path("tails", hexPart), filepath.Base(name)), filepath.Join(into, filepath.Base(name))); err != nil {
			return nil // it went with the environment
		}
	}
	return m
}

// ForgetGone removes memories of environments that have gone.
func ForgetGone(dir libdir.Dir) error {
	files, err := filepath.Glob(dir.Path("sources", "*", "*.memory"))
	if err != nil {
		return err
	}
	for _, path := range files {
		name := make([]byte, sha256.Size*2)
		f, err := os.Open(path)
		if err != nil {
			continue // another freeze has put a new one in its place
		}
		_, err = io.ReadFull(f, name)
		_ = f.Close() // it was only read
		if _, gone := os.Lstat(dir.Path("tails", string(name))); err == nil && !errors.Is(gone, fs.ErrNotExist) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Save writes a memory. After a start of the host it does not hold, so nothing is flushed.
func Save(path, digest string, m *graft.Memory) error {
	f, err := os.CreateTemp(filepath.Dir(path), libdir.TempPrefix+"*")
	if err != nil {
		return err
	}
	_, err = f.Write(append([]byte(libdir.HexOrNone(digest)+"\n"), m.Encode()...))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
