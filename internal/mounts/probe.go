package mounts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// answer is what a probe says of a directory, in one line of JSON.
type answer struct {
	Trouble string `json:"trouble,omitempty"` // empty: all is well
}

// ProbeCommand is the command of slipway that is Probe.
const ProbeCommand = "probe-directory"

// Probe looks at a directory or file and says what it found to w. It is the whole of the program `slipway
// probe-directory LOCK DIR`, in a process of its own because the directory's file system may never answer. Who does not
// get the lock waits: another looks at it already, and keeps the lock for as long as the kernel keeps it.
func Probe(w io.Writer, lock, dir string) error {
	f, err := os.OpenFile(lock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock, err)
	}
	var a answer
	if err := look(dir); err != nil {
		a.Trouble = err.Error()
	}
	return json.NewEncoder(w).Encode(a)
}

// The bounds of a look: what is not seen at once will not be seen later.
const (
	mostEntries = 200
	mostBytes   = 4 << 10
)

// look lists a directory and reads the beginning of one file in it, if there is any; or reads the beginning of a file.
// A directory whose name ends in /. may be empty, as autofs's is before anything is mounted.
func look(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return plain(err)
	}
	defer d.Close()
	if info, err := d.Stat(); err == nil && info.Mode().IsRegular() {
		return read(name)
	}
	entries, err := d.ReadDir(mostEntries)
	if errors.Is(err, io.EOF) && !strings.HasSuffix(name, "/.") {
		return errors.New("it is empty: nothing is mounted there")
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return plain(err)
	}
	for _, e := range entries {
		if e.Type().IsRegular() {
			return read(filepath.Join(name, e.Name()))
		}
	}
	return nil
}

// read reads the beginning of a file. One that only others may read says as much about its file system.
func read(name string) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return plain(err)
	}
	defer f.Close()
	if _, err := f.Read(make([]byte, mostBytes)); err != nil && !errors.Is(err, io.EOF) {
		return plain(err)
	}
	return nil
}

// plain gives the kernel's words alone: users know what was tried, and paths of the host are not theirs.
func plain(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
