// Package timeseries keeps measurements over time: of each series the last two hours by half minutes, and the last week
// by ten minutes.
//
// Promises: memory and disk are bounded, whatever is measured and for how long; what was not measured is not a number,
// and never 0; what was saved is there after a restart; points keep their age when the clock is set. The package does
// not know what is measured, and must not: a series has a name, and up to four columns.
package timeseries

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway/internal/clock"
)

// Columns is how many numbers a point has at most.
const Columns = 4

// Values are the numbers of a point, by column. What was not measured is NaN.
type Values [Columns]float64

// Unmeasured returns values of which none was measured.
func Unmeasured() Values {
	nan := math.NaN()
	return Values{nan, nan, nan, nan}
}

// Aggregate says what one point has of the numbers of its time.
type Aggregate int

// The aggregates.
const (
	Mean Aggregate = iota
	Max
)

// Point is what was measured in the time from At on.
type Point struct {
	At     time.Time
	Step   time.Duration // of that length
	Values Values
}

const (
	// Kept is for how long a point is kept.
	Kept = coarseMost * coarseStep * time.Second
	// DefaultMost is 40 MB of memory, and 53 MB on the disk.
	DefaultMost = 2_000_000

	saveEvery  = 10 * time.Minute // how much a service that is killed loses at most
	saveAtOnce = 32               // series that are saved in one go: others wait meanwhile
)

// Record is one key and its JSON value.
type Record = struct {
	Key   string
	Value json.RawMessage
}

// Store keeps series over restarts of the service. internal/store has it.
type Store interface {
	PutAll(ctx context.Context, bucket string, values map[string]any) error
	Delete(ctx context.Context, bucket, key string) error
	All(ctx context.Context, bucket string) iter.Seq2[Record, error]
}

// Config is what a DB needs.
type Config struct {
	Store  Store
	Bucket string // its own in the store
	// Aggregates are those of the columns.
	Aggregates [Columns]Aggregate
	Most       int // points of all series together; 0: DefaultMost
	Logger     *slog.Logger
}

// DB is a number of series. Its methods may be called at once.
type DB struct {
	cfg   Config
	began time.Time
	wall  func() time.Time // what the clock says, which may be set

	mu      sync.Mutex // guards all below
	series  map[string]*series
	points  int             // of all series
	removed map[string]bool // series that are gone, and may be in the store still
	shifted int64           // the shift by which the store has the series
}

// Open returns the series that are in the store. What cannot be read of them is dropped: it is no more than a picture.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	cfg.Most = cmp.Or(cfg.Most, DefaultMost)
	db := &DB{cfg: cfg, began: time.Now(), wall: time.Now, series: map[string]*series{}, removed: map[string]bool{}}
	for r, err := range cfg.Store.All(ctx, cfg.Bucket) {
		if err != nil {
			return nil, err
		}
		s, err := unmarshal(r.Value, db.now())
		if err != nil {
			cfg.Logger.Warn("a series of measurements cannot be read, and is dropped", "name", r.Key, "err", err)
			db.removed[r.Key] = true
			continue
		}
		db.series[r.Key], db.points = s, db.points+s.size()
	}
	db.makeRoom()
	return db, nil
}

// now is the time, in seconds, by a clock that nobody sets: it agrees with the other one when the DB is opened.
func (db *DB) now() int64 { return db.began.Unix() + int64(time.Since(db.began)/time.Second) }

// shift is by how much the other clock was set since.
func (db *DB) shift() int64 { return db.wall().Unix() - db.now() }

// Add notes what is measured now.
func (db *DB) Add(name string, v Values) {
	db.mu.Lock()
	defer db.mu.Unlock()
	s := db.series[name]
	if s == nil {
		s = &series{}
		db.series[name] = s
	}
	before := s.size()
	s.add(db.now(), v, db.cfg.Aggregates)
	db.points += s.size() - before
	delete(db.removed, name)
	db.makeRoom()
}

// makeRoom drops the series to which nothing was added for longest, until the others fit.
func (db *DB) makeRoom() {
	if db.points <= db.cfg.Most {
		return
	}
	names := slices.SortedFunc(maps.Keys(db.series), func(a, b string) int {
		return cmp.Or(cmp.Compare(db.series[a].last, db.series[b].last), strings.Compare(a, b))
	})
	for _, name := range names[:len(names)-1] {
		// some room, for looking for it takes a while
		if db.points <= db.cfg.Most-db.cfg.Most/20 {
			return
		}
		db.drop(name)
	}
}

func (db *DB) drop(name string) {
	if s := db.series[name]; s != nil {
		db.points -= s.size()
		delete(db.series, name)
		db.removed[name] = true
	}
}

// Remove forgets a series.
func (db *DB) Remove(name string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.drop(name)
}

// Names returns the names of all series, sorted.
func (db *DB) Names() []string {
	db.mu.Lock()
	defer db.mu.Unlock()
	return slices.Sorted(maps.Keys(db.series))
}

// Points returns a series since a time, the oldest point first.
func (db *DB) Points(name string, since time.Time) []Point {
	db.mu.Lock()
	defer db.mu.Unlock()
	s, shift := db.series[name], db.shift()
	if s == nil {
		return nil
	}
	var all []Point
	s.each(func(p point, step uint32) {
		at := time.Unix(int64(p.At)+shift, 0).UTC()
		if length := time.Duration(step) * time.Second; at.Add(length).After(since) {
			all = append(all, Point{At: at, Step: length, Values: p.public()})
		}
	})
	return all
}

// Last returns what was added to a series last, unless that is longer ago than age.
func (db *DB) Last(name string, age time.Duration) (Values, bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	s := db.series[name]
	if s == nil || !s.fresh || db.now()-s.last > int64(age/time.Second) {
		return Unmeasured(), false
	}
	return s.latest, true
}

// Run saves from time to time, and when ctx ends.
func (db *DB) Run(ctx context.Context) {
	for clock.Sleep(ctx, saveEvery) {
		db.Save(ctx)
	}
	db.Save(context.WithoutCancel(ctx))
}

// Save saves what has changed, and forgets what is too old. What cannot be saved now is tried again with the next.
func (db *DB) Save(ctx context.Context) {
	values, removed := db.unsaved()
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(values)), saveAtOnce) {
		some := map[string]any{}
		for _, name := range chunk {
			some[name] = values[name]
		}
		if err := db.cfg.Store.PutAll(ctx, db.cfg.Bucket, some); err != nil {
			db.cfg.Logger.Warn("measurements cannot be saved now; it is tried again", "err", err)
			db.again(chunk, nil)
		}
	}
	for _, name := range removed {
		if err := db.cfg.Store.Delete(ctx, db.cfg.Bucket, name); err != nil {
			db.cfg.Logger.Warn("measurements cannot be removed now; it is tried again", "err", err)
			db.again(nil, removed)
			return
		}
	}
}

// unsaved returns what is to be written and what to be removed, and takes it for done.
func (db *DB) unsaved() (values map[string]stored, removed []string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	shift, oldest := db.shift(), db.now()-int64(Kept/time.Second)
	values = map[string]stored{}
	for name, s := range db.series {
		before := s.size()
		s.forget(oldest)
		db.points += s.size() - before
		switch {
		case s.last < oldest:
			db.drop(name)
		case s.unsaved || shift != db.shifted:
			values[name], s.unsaved = s.marshal(shift), false
		}
	}
	db.shifted = shift
	removed = slices.Sorted(maps.Keys(db.removed))
	clear(db.removed)
	return values, removed
}

// again notes what could not be done.
func (db *DB) again(values, removed []string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, name := range values {
		if s := db.series[name]; s != nil {
			s.unsaved = true
		}
	}
	for _, name := range removed {
		if db.series[name] == nil {
			db.removed[name] = true
		}
	}
}
