package batch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"slipway/spawner"
)

// Record is what is known of the current run of a workload, as it lies in its directory, root's alone. It is written
// before anything is asked of the batch system.
type Record struct {
	ID      spawner.ID `json:"id"`
	Run     string     `json:"run"`
	Session bool       `json:"session,omitempty"`
	Login   string     `json:"login"` // the account that the job is of
	User    string     `json:"user"`  // the login of the user for whom it is
	Program string     `json:"program"`
	Inputs  bool       `json:"inputs,omitempty"`
	Send    string     `json:"send,omitempty"` // an image that travels along
	Arch    string     `json:"arch,omitempty"` // of the image, as the batch system calls it
	Bytes   int64      `json:"bytes"`          // of image and inputs
	Limit   int64      `json:"limit"`          // bytes of memory asked for

	Job string `json:"job,omitempty"` // of the batch system, such as "5.0"; empty: it is not known that there is one
	End *End   `json:"end,omitempty"` // of a job that is in the queue no more
	// Withdrawn says that the job is being taken back: where it is in the queue no more, that has been done.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// Lives reports whether a run is in the queue, as far as is known.
func (r Record) Lives() bool { return r.Job != "" && r.End == nil }

// End is what is known of the end of a job that has left the queue.
type End struct {
	Code   int    `json:"code"`
	Reason string `json:"reason,omitempty"`
	Remedy string `json:"remedy,omitempty"`
	Host   string `json:"host,omitempty"`
	// Evicted says that the batch system took its place away.
	Evicted bool `json:"evicted,omitempty"`
}

// Observation returns what is to be seen of a workload that ended so.
func (e End) Observation() spawner.Observation {
	return spawner.Observation{
		Existence: spawner.Exited, ExitCode: e.Code, Reason: e.Reason, Remedy: e.Remedy, Host: e.Host,
		Evicted: e.Evicted,
	}
}

const RecordFile = "record.json"

// Records has the records of all workloads, in memory and on disk. Only this process changes them. It is safe for
// concurrent use.
type Records struct {
	dir  string
	mu   sync.Mutex // guards held, and which files are records
	held map[spawner.ID]Record
}

// NewRecords returns the records of the workloads that have a directory in dir.
func NewRecords(dir string) *Records {
	return &Records{dir: dir, held: map[spawner.ID]Record{}}
}

// ValidID keeps a workload's ID from being anything but one plain name in a path and in a constraint.
var ValidID = regexp.MustCompile(`^[a-z]-[a-z0-9]{1,40}$`)

// Get returns a workload's record; false when it has no directory or none that came to be one. What is no record, such
// as what a crash of the host has cut off, counts as none.
func (s *Records) Get(id spawner.ID) (Record, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.held[id]; ok {
		return r, true, nil
	}
	data, err := os.ReadFile(filepath.Join(s.Dir(id), RecordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	}
	if err != nil {
		return Record{}, false, fmt.Errorf("read the record of %s: %w", id, err)
	}
	var r Record
	if json.Unmarshal(data, &r) != nil || r.ID != id {
		return Record{}, false, nil
	}
	s.held[id] = r
	return r, true, nil
}

// Put saves a record, whole or not at all.
func (s *Records) Put(r Record) error {
	return s.save(r, func() bool { return true })
}

// Amend saves what was learnt of a run, unless the workload is in another by now, or is gone.
func (s *Records) Amend(r Record) error {
	fits := func() bool {
		now, ok := s.held[r.ID]
		return ok && now.Run == r.Run
	}
	err := s.save(r, fits)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // its directory
	}
	return err
}

// Hold keeps in memory what was learnt of a run and could not be saved. It can be learnt again.
func (s *Records) Hold(r Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := s.held[r.ID]; ok && now.Run == r.Run {
		s.held[r.ID] = r
	}
}

// save puts a record in place if it still fits. What takes its time, the disk, is waited for before: others need the
// lock.
func (s *Records) save(r Record, fits func() bool) error {
	part, err := s.write(r)
	if err != nil {
		return fmt.Errorf("save the record of %s: %w", r.ID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !fits() {
		return os.Remove(part)
	}
	if err := os.Rename(part, filepath.Join(s.Dir(r.ID), RecordFile)); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	s.held[r.ID] = r
	return nil
}

// write writes a record beside its place, and returns its name. It is on the disk then.
func (s *Records) write(r Record) (name string, err error) {
	data, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(s.Dir(r.ID), RecordFile+".part-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// Drop removes all of a workload, the record first: what has none was never submitted.
func (s *Records) Drop(id spawner.ID) error {
	if err := s.forget(id); err != nil {
		return err
	}
	return os.RemoveAll(s.Dir(id))
}

// forget removes a record, both at once: who reads it in between would bring it back.
func (s *Records) forget(id spawner.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Remove(filepath.Join(s.Dir(id), RecordFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	delete(s.held, id)
	return nil
}

// IDs returns the workloads that have a directory.
func (s *Records) IDs() ([]spawner.ID, error) {
	f, err := os.Open(s.dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	var ids []spawner.ID
	for _, name := range names {
		if ValidID.MatchString(name) {
			ids = append(ids, spawner.ID(name))
		}
	}
	return ids, err
}

// Has reports whether a workload has a directory.
func (s *Records) Has(id spawner.ID) bool {
	_, err := os.Lstat(s.Dir(id))
	return err == nil
}

// Dir is a workload's directory: root's, and others may pass through it to the sandbox that is theirs.
func (s *Records) Dir(id spawner.ID) string { return filepath.Join(s.dir, string(id)) }
