package jobfiles

import (
	"sync"

	"slipway/spawner"
)

// Usage is what a user keeps on the disk.
type Usage struct {
	Bytes  int64 // also what is being written
	Unused int64 // of Bytes: of blobs that no job has
	blobs  int
}

// Size is what some jobs keep on the disk.
type Size struct {
	Bytes int64
	Files int
}

// usage counts what users keep on the disk: their jobs' input files, logs and output files, and their blobs. It is
// found by looking at the directories, when a job has ended and at times all of them, and never for a request. A file
// that several have is shared out among them.
type usage struct {
	mu    sync.Mutex
	items map[string]item // by a job's ID, or the path of a bundle or a blob
	users map[spawner.Principal]Usage
	due   map[spawner.Principal]bool // whose blobs are to be measured again: jobs that had some of them are gone
}

// item is what one job keeps, a bundle, or a blob.
type item struct {
	owner  spawner.Principal
	size   Size
	unused int64 // of its bytes
	blob   bool
}

func newUsage() *usage {
	return &usage{items: map[string]item{}, users: map[spawner.Principal]Usage{}, due: map[spawner.Principal]bool{}}
}

// note says what a job keeps now, or a bundle or blob does.
func (u *usage) note(name string, i item) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dropLocked(name)
	u.items[name] = i
	u.addLocked(i, 1)
}

// addLocked adds i to what its owner keeps n times, or takes it off.
func (u *usage) addLocked(i item, n int64) {
	t := u.users[i.owner]
	t.Bytes, t.Unused = t.Bytes+n*i.size.Bytes, t.Unused+n*i.unused
	if i.blob {
		t.blobs += int(n)
	}
	if u.users[i.owner] = t; t == (Usage{}) {
		delete(u.users, i.owner)
	}
}

// reserve counts bytes that are going to be written, unless the user would keep more than most with them; 0: any
// number. It returns what they keep already.
func (u *usage) reserve(o spawner.Principal, bytes, most int64) (have int64, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	have = u.users[o].Bytes
	if most > 0 && have+bytes > most {
		return have, false
	}
	u.addLocked(item{owner: o, size: Size{Bytes: bytes}}, 1)
	return have, true
}

// release takes reserved bytes off: they are counted as what they are now, or were not written.
func (u *usage) release(o spawner.Principal, bytes int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.addLocked(item{owner: o, size: Size{Bytes: bytes}}, -1)
}

// remeasure has the blobs of the user measured again who has an item; remeasured returns such users, once.
func (u *usage) remeasure(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if i, known := u.items[name]; known && u.users[i.owner].blobs > 0 {
		u.due[i.owner] = true
	}
}

func (u *usage) remeasured() map[spawner.Principal]bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	due := u.due
	u.due = map[spawner.Principal]bool{}
	return due
}

// drop says that a job keeps nothing any more, or a bundle or blob does.
func (u *usage) drop(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dropLocked(name)
}

func (u *usage) dropLocked(name string) {
	i, known := u.items[name]
	if !known {
		return
	}
	delete(u.items, name)
	u.addLocked(i, -1)
}

// of returns what a user keeps.
func (u *usage) of(o spawner.Principal) Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.users[o]
}

// size returns what an item keeps.
func (u *usage) size(name string) Size {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.items[name].size
}

// Usage returns what a user keeps. Any lock may be held.
func (s *Store) Usage(o spawner.Principal) Usage { return s.usage.of(o) }

// SizeOf returns what a job keeps, but for its bundle. Any lock may be held.
func (s *Store) SizeOf(id spawner.ID) Size { return s.usage.size(string(id)) }

// SizeOfBundle returns what a bundle keeps. Any lock may be held.
func (s *Store) SizeOfBundle(b spawner.ID) Size { return s.usage.size(s.bundle(b)) }

// Uncount counts a job no more whose record is gone. Any lock may be held.
func (s *Store) Uncount(id spawner.ID) { s.usage.drop(string(id)) }

// UncountBundle counts a bundle no more. What it had of blobs, these bear alone. Any lock may be held.
func (s *Store) UncountBundle(b spawner.ID) {
	s.usage.remeasure(s.bundle(b))
	s.usage.drop(s.bundle(b))
}
