package engine

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"slipway/spawner"
)

// blobOwnerFile is the file that tells whose the files are that lie beside it: their directory's name does not.
const blobOwnerFile = ".owner"

// makeBlobDir makes the directory for what a user puts, unless it is there.
func (m *Manager) makeBlobDir(o spawner.Principal) error {
	dir := m.blobs(o)
	if _, err := os.Lstat(filepath.Join(dir, blobOwnerFile)); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	text, err := json.Marshal([]string{o.Hub, string(o.User)})
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, blobOwnerFile), bytes.NewReader(text))
}

// blobDirs returns the users who have put files. Of a directory that does not tell whose it is, nothing is counted until its user puts one more.
func (m *Manager) blobDirs() (owners []spawner.Principal) {
	dirs, _ := os.ReadDir(m.allBlobs()) // made with the first
	for _, d := range dirs {
		var o []string
		text, err := os.ReadFile(filepath.Join(m.allBlobs(), d.Name(), blobOwnerFile))
		if err == nil && json.Unmarshal(text, &o) == nil && len(o) == 2 {
			owners = append(owners, spawner.Principal{Hub: o[0], User: spawner.User(o[1])})
		}
	}
	return owners
}

// weighBlobs counts anew what a user has put.
func (m *Manager) weighBlobs(o spawner.Principal) {
	entries, _ := os.ReadDir(m.blobs(o))
	for _, e := range entries {
		if e.Name()[0] != '.' {
			m.weighBlob(o, filepath.Join(m.blobs(o), e.Name()))
		}
	}
}

// weighBlob counts a file that a user has put. Of one that jobs have too, it bears its part.
func (m *Manager) weighBlob(o spawner.Principal, path string) {
	info, err := os.Lstat(path)
	if err != nil {
		m.diskUsage.drop(spawner.ID(path))
		return
	}
	g := goods{of: o, bytes: shareOf(info), files: 1, blob: true}
	if names(info) == 1 {
		g.spare = g.bytes
	}
	m.diskUsage.note(spawner.ID(path), g)
	if _, err := os.Lstat(path); err != nil { // it was removed meanwhile
		m.diskUsage.drop(spawner.ID(path))
	}
}

// names returns how many names a file has.
func names(info fs.FileInfo) uint64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return uint64(st.Nlink)
}

// expireBlobs removes what no job has and nobody has asked for lately. Who submits with one meanwhile has it, or is told to put it again. A
// time that has not come yet is of a clock that was set back: it counts from now.
func (m *Manager) expireBlobs(now time.Time) {
	dirs, err := os.ReadDir(m.allBlobs())
	if err != nil {
		return // made with the first
	}
	for _, d := range dirs {
		dir := filepath.Join(m.allBlobs(), d.Name())
		files, _ := os.ReadDir(dir)
		for _, f := range files {
			m.expireBlob(filepath.Join(dir, f.Name()), f, now)
		}
	}
}

// weighAllBlobs counts anew what users have put.
func (m *Manager) weighAllBlobs() {
	for _, o := range m.blobDirs() {
		m.weighBlobs(o)
	}
}

func (m *Manager) expireBlob(path string, f fs.DirEntry, now time.Time) {
	info, err := f.Info()
	if err != nil || names(info) != 1 || f.Name() == blobOwnerFile {
		return
	}
	switch age := now.Sub(info.ModTime()); {
	case age < -blobLife:
		err = os.Chtimes(path, now, now)
	case age > blobLife:
		err = os.Remove(path)
		m.diskUsage.drop(spawner.ID(path))
	}
	if err != nil {
		m.log.Warn("cannot clear away a file that no job has", "path", path, "err", err)
	}
}
