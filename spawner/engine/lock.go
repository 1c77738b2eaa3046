package engine

import "sync"

// lock guards what the Manager has in memory. Who changes it holds the lock alone, from the decision to the end of
// saving, so that the order of records is the order of changes and no change is lost. Who only reads never waits for
// the disk: until a change is saved, it sees what was before.
type lock struct {
	turn   sync.Mutex   // to change, one after the other
	memory sync.RWMutex // held alone only while memory changes
}

// Lock waits for the turn to read and change.
func (l *lock) Lock() {
	l.turn.Lock()
	l.memory.Lock()
}

// Unlock ends the turn.
func (l *lock) Unlock() {
	l.memory.Unlock()
	l.turn.Unlock()
}

// RLock is to read.
func (l *lock) RLock() { l.memory.RLock() }

// RUnlock ends reading.
func (l *lock) RUnlock() { l.memory.RUnlock() }

// save does what takes time while readers go on. The caller keeps its turn: nothing changes meanwhile.
func (l *lock) save(do func() error) error {
	l.memory.Unlock()
	defer l.memory.Lock()
	return do()
}
