package records

import (
	"io"
	"maps"
	"os"
	"slices"
	"sync"

	"slipway/images/libdir"
)

// recordIndex keeps the records in memory that were read, by their files: each freeze looks at all of its owner's, and
// reading two thousand takes longer than a small freeze. A record is written by renaming another file over it, so one
// whose file has not changed is known.
type recordIndex struct {
	mu    sync.Mutex
	known map[string]knownRecord
	bytes int64
}

type knownRecord struct {
	stamp  libdir.Stamp
	Record Record
}

// maxIndexed bounds the files that are kept, in bytes; they take a few times that in memory.
const maxIndexed = 64 << 20

// read returns the record in a file. decode must come to the same record whoever asks.
func (x *recordIndex) read(path string, decode func([]byte) (Record, error)) (Record, error) {
	if r, ok := x.find(path); ok {
		return r, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return Record{}, err
	}
	defer f.Close()
	at, err := libdir.StampOf(f)
	if err != nil {
		return Record{}, err
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return Record{}, err
	}
	r, err := decode(data)
	if err != nil {
		return Record{}, err
	}
	x.set(path, knownRecord{at, r})
	return r.clone(), nil
}

func (x *recordIndex) find(path string) (Record, bool) {
	now, _ := libdir.StampAt(path) // that of a file that is gone is nobody's
	x.mu.Lock()
	defer x.mu.Unlock()
	k, ok := x.known[path]
	if ok && k.stamp != now {
		x.bytes -= k.stamp.Size
		delete(x.known, path)
		ok = false
	}
	return k.Record.clone(), ok
}

func (x *recordIndex) set(path string, k knownRecord) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.known == nil || x.bytes+k.stamp.Size > maxIndexed {
		x.known, x.bytes = map[string]knownRecord{}, 0
	}
	x.bytes += k.stamp.Size - x.known[path].stamp.Size
	x.known[path] = k
}

// clone returns a record whose labels and use can be changed.
func (r Record) clone() Record {
	r.Labels = slices.Clone(r.Labels)
	r.Use.Imported, r.Use.CVMFS, r.Use.Attempts = maps.Clone(r.Use.Imported), slices.Clone(r.Use.CVMFS), slices.Clone(r.Use.Attempts)
	return r
}
