package htcondor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"slipway/spawner"
)

// learn notes what was learnt of a run. That a disk is full does not undo it: HTCondor can be asked again after a
// restart.
func (b *Backend) learn(r record) {
	if err := b.records.amend(r); err != nil {
		b.log.Warn("what was learnt of a job is not saved", "id", r.ID, "job", r.Job, "error", err)
		b.records.hold(r)
	}
}

// record is what is known of the current run of a workload, as it lies in its directory, root's alone. It is written
// before anything is asked of HTCondor.
type record struct {
	ID      spawner.ID `json:"id"`
	Run     string     `json:"run"`
	Session bool       `json:"session,omitempty"`
	Login   string     `json:"login"` // the account that the job is of
	User    string     `json:"user"`  // the login of the user for whom it is
	Program string     `json:"program"`
	Inputs  bool       `json:"inputs,omitempty"`
	Send    string     `json:"send,omitempty"` // an image that travels along
	Arch    string     `json:"arch,omitempty"` // of the image, as HTCondor calls it
	Bytes   int64      `json:"bytes"`          // of image and inputs
	Limit   int64      `json:"limit"`          // bytes of memory asked for

	Job string `json:"job,omitempty"` // of HTCondor, "5.0"; empty: it is not known that there is one
	End *end   `json:"end,omitempty"` // of a job that is in the queue no more
	// Withdrawn says that the job is being taken back: where it is in the queue no more, that has been done.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// lives reports whether a run is in the queue, as far as is known.
func (r record) lives() bool { return r.Job != "" && r.End == nil }

// end is what is known of the end of a job that has left the queue.
type end struct {
	Code   int    `json:"code"`
	Reason string `json:"reason,omitempty"`
	Remedy string `json:"remedy,omitempty"`
	Host   string `json:"host,omitempty"`
}

func (e end) observation() spawner.Observation {
	return spawner.Observation{Existence: spawner.Exited, ExitCode: e.Code, Reason: e.Reason, Remedy: e.Remedy, Host: e.Host}
}

const recordFile = "record.json"

// recordStore has the records of all workloads, in memory and on disk. Only this process changes them. It is safe for
// concurrent use.
type recordStore struct {
	dir  string
	mu   sync.Mutex // guards held, and which files are records
	held map[spawner.ID]record
}

// get returns a workload's record; false when it has no directory or none that came to be one. What is no record, such
// as what a crash of the host has cut off, counts as none.
func (s *recordStore) get(id spawner.ID) (record, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.held[id]; ok {
		return r, true, nil
	}
	data, err := os.ReadFile(filepath.Join(s.place(id), recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, false, nil
	}
	if err != nil {
		return record{}, false, fmt.Errorf("read the record of %s: %w", id, err)
	}
	var r record
	if json.Unmarshal(data, &r) != nil || r.ID != id {
		return record{}, false, nil
	}
	s.held[id] = r
	return r, true, nil
}

// put saves a record, whole or not at all.
func (s *recordStore) put(r record) error {
	return s.save(r, func() bool { return true })
}

// amend saves what was learnt of a run, unless the workload is in another by now, or is gone.
func (s *recordStore) amend(r record) error {
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

// hold keeps in memory what was learnt of a run and could not be saved. It can be learnt again.
func (s *recordStore) hold(r record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := s.held[r.ID]; ok && now.Run == r.Run {
		s.held[r.ID] = r
	}
}

// save puts a record in place if it still fits. What takes its time, the disk, is waited for before: others need the
// lock.
func (s *recordStore) save(r record, fits func() bool) error {
	part, err := s.write(r)
	if err != nil {
		return fmt.Errorf("save the record of %s: %w", r.ID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !fits() {
		return os.Remove(part)
	}
	if err := os.Rename(part, filepath.Join(s.place(r.ID), recordFile)); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	s.held[r.ID] = r
	return nil
}

// write writes a record beside its place, and gives the name. It is on the disk then.
func (s *recordStore) write(r record) (name string, err error) {
	data, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(s.place(r.ID), recordFile+".part-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// drop removes all of a workload, the record first: what has none was never submitted.
func (s *recordStore) drop(id spawner.ID) error {
	if err := s.forget(id); err != nil {
		return err
	}
	return os.RemoveAll(s.place(id))
}

// forget removes a record, both at once: who reads it in between would bring it back.
func (s *recordStore) forget(id spawner.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Remove(filepath.Join(s.place(id), recordFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	delete(s.held, id)
	return nil
}

// ids returns the workloads that have a directory.
func (s *recordStore) ids() ([]spawner.ID, error) {
	f, err := os.Open(s.dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	var ids []spawner.ID
	for _, name := range names {
		if validID.MatchString(name) {
			ids = append(ids, spawner.ID(name))
		}
	}
	return ids, err
}

// has reports whether a workload has a directory.
func (s *recordStore) has(id spawner.ID) bool {
	_, err := os.Lstat(s.place(id))
	return err == nil
}

// place is a workload's directory: root's, and others may pass through it to the sandbox that is theirs.
func (s *recordStore) place(id spawner.ID) string { return filepath.Join(s.dir, string(id)) }
