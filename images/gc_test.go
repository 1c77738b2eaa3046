package images

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"slipway/images/blob"
	"slipway/images/libdir"
	"slipway/images/manifest"
	"slipway/images/pin"
	"slipway/images/records"
	"slipway/internal/testenv"
)

// yard is a library in which sweeps go on all the time, and whose clock leaps by months between any two steps of what
// users do: nothing stays there for its youth.
type yard struct {
	t      *testing.T
	l      *Library
	step   sync.RWMutex // held to read in a step of a user, which no leap interrupts; to write in a leap
	mu     sync.Mutex   // guards the rest
	leaps  time.Duration
	jobs   map[string]int // environments that jobs run in
	sweeps int
	swept  *sync.Cond // of mu
}

func newYard(t *testing.T) *yard {
	y := &yard{t: t, jobs: map[string]int{}}
	y.swept = sync.NewCond(&y.mu)
	y.l = openLibrary(t, Config{Dir: t.TempDir() + "/l", Keep: time.Hour, InUse: y.inUse, Now: func() time.Time {
		y.mu.Lock()
		defer y.mu.Unlock()
		return time.Now().Add(y.leaps)
	}})
	return y
}

func (y *yard) inUse(context.Context) (out []string, err error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for digest, n := range y.jobs {
		if n > 0 {
			out = append(out, digest)
		}
	}
	return out, nil
}

func (y *yard) run(digest string, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.jobs[digest] += n
}

// sweep sweeps until ctx ends.
func (y *yard) sweep(ctx context.Context) {
	for ctx.Err() == nil {
		if err := y.l.tidy(context.Background()); err != nil {
			y.t.Errorf("sweep: %v", err)
		}
		y.mu.Lock()
		y.sweeps++
		y.swept.Broadcast()
		y.mu.Unlock()
	}
}

// wholeSweep waits until a sweep has begun and gone by.
func (y *yard) wholeSweep() {
	y.mu.Lock()
	defer y.mu.Unlock()
	for n := y.sweeps + 2; y.sweeps < n; {
		y.swept.Wait()
	}
}

// leapt has the clock leap between two steps of all users, and a sweep go by.
func (y *yard) leapt() {
	y.step.Lock()
	y.mu.Lock()
	y.leaps += 2 * keepBase
	y.mu.Unlock()
	y.step.Unlock()
	y.wholeSweep()
}

// submit makes an environment and gives it to a job, which the owner then takes no care of any more.
func (y *yard) submit(owner string, make func() (records.Environment, error)) (string, bool) {
	y.step.RLock()
	e, err := make()
	y.step.RUnlock()
	if err != nil {
		y.t.Errorf("%s: %v", owner, err)
		return "", false
	}
	y.leapt()
	y.step.RLock()
	defer y.step.RUnlock()
	found, err := y.l.Records.Find(records.Viewer{Owner: owner}, "", e.Name)
	if err == nil {
		err = y.l.Records.Touch(owner, found.Digest)
	}
	if err == nil {
		_, err = y.l.Records.Remove(owner, e.Name)
	}
	y.wholeSweep()
	if err != nil {
		y.t.Errorf("%s: %v", owner, err)
		return "", false
	}
	y.run(found.Digest, 1)
	return found.Digest, true
}

// use looks whether an environment can be run and thawed.
func (y *yard) use(what, digest string) {
	if _, err := y.l.Ready(y.t.Context(), digest); err != nil {
		y.t.Errorf("%s: %v", what, err)
		return
	}
	from, err := y.l.Thaw(y.t.Context(), digest)
	if err == nil {
		err = from.Fill(y.t.Context(), y.t.TempDir())
	}
	if err != nil {
		y.t.Errorf("%s: thaw: %v", what, err)
	}
}

// TestNothingInUseIsSwept has users freeze, pull, submit, thaw and push while all else is swept away.
func TestNothingInUseIsSwept(t *testing.T) {
	f := newFixture(t, nastyBase)
	y := newYard(t)
	elsewhere := newLibrary(t)
	there := freeze(t, elsewhere, f, nil)
	ctx, stop := context.WithCancel(t.Context())
	var sweeper, users sync.WaitGroup
	sweeper.Go(func() { y.sweep(ctx) })
	for i := range 3 {
		users.Go(func() {
			owner, src := fmt.Sprint("user", i), f.source()
			src.Upper = filepath.Join(f.dir, owner)
			for n := range testenv.Rounds(4, 12) {
				if err := write(src.Upper+"/opt/mark", fmt.Sprint(n/2)); err != nil { // every other freeze finds what may have gone meanwhile
					t.Error(err)
				}
				digest, ok := y.submit(owner, func() (records.Environment, error) {
					return y.l.Freeze(t.Context(), Request{Owner: owner, Key: "s", Name: "ana", Source: src})
				})
				if !ok {
					return
				}
				y.leapt()
				y.use("a job of "+owner, digest)
				release := y.l.Hold(digest) // as a push does
				y.run(digest, -1)
				y.leapt()
				y.use("a push of "+owner, digest)
				release()
			}
		})
	}
	users.Go(func() {
		for range testenv.Rounds(2, 4) {
			digest, ok := y.submit("puller", func() (records.Environment, error) { return pulled(y.l, elsewhere, there.Digest) })
			if !ok {
				return
			}
			y.leapt()
			y.use("a job of the puller", digest)
			y.run(digest, -1)
			y.leapt()
		}
	})
	users.Wait()
	y.leapt()
	y.leapt()
	stop()
	sweeper.Wait()
	for _, pattern := range []string{"blobs/*", "documents/*", "statements/*", "records/*/*", "bases/*.sqfs"} {
		if left, err := filepath.Glob(y.l.dir.Path(pattern)); err != nil || len(left) > 0 {
			t.Errorf("left: %q, %v", left, err)
		}
	}
}

// pulled has a library take in an environment of another.
func pulled(into, from *Library, digest string) (records.Environment, error) {
	p, err := from.Parts(digest)
	if err != nil {
		return records.Environment{}, err
	}
	return into.Adopt(context.Background(), Adoption{
		Owner: "puller", Name: "theirs", From: "there", Document: p.Encoded, Unsigned: true,
		Open: func(digest string) (blob.Blob, error) { return p.Blob(context.Background(), digest) },
	})
}

// TestWhatWasFoundStays: whoever has been told that something is here can count on it, however old it is and though
// nothing leads to it.
func TestWhatWasFoundStays(t *testing.T) {
	f := newFixture(t, nastyBase)
	for name, find := range map[string]func(*Library, records.Environment, manifest.Document) bool{
		"nobody": nil,
		"the last freeze of a session": func(l *Library, e records.Environment, _ manifest.Document) bool {
			var last lastFreeze
			must(t, libdir.ReadJSON(l.dir.Path("sources", "alice", "s1.json"), &last))
			_, ok := l.last(Request{Owner: "alice", Key: "s1", Source: f.source()}, last.Identity)
			return ok
		},
		"the base of an image": func(l *Library, _ records.Environment, d manifest.Document) bool {
			key, err := l.baseKey(f.source())
			must(t, err)
			_, ok := l.knownBase(key)
			return ok
		},
		"the base of a pull": func(l *Library, _ records.Environment, d manifest.Document) bool {
			return l.HasBase(t.Context(), d.Base.Part)
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := &clock{time.Now()}
			l := openLibrary(t, Config{Dir: t.TempDir() + "/l", Now: now.now})
			e := freeze(t, l, f, nil)
			d, err := l.document(e.Digest)
			must(t, err)
			_, err = l.Records.Remove("alice", e.Digest)
			must(t, err)
			now.at = now.at.Add(2 * keepBase)
			if find != nil && !find(l, e, d) {
				t.Fatal("it is not there")
			}
			_, err = l.Sweep(t.Context(), false)
			if must(t, err); find == nil {
				if l.complete(e.Digest, e.Size) || l.baseIsThere(d.Base.Part) {
					t.Error("what nobody found is kept")
				}
				return
			}
			if !find(l, e, d) {
				t.Error("it was swept away")
			}
		})
	}
}

// TestARecordThatCannotBeReadKeepsItsImage: damage of one file must not remove another.
func TestARecordThatCannotBeReadKeepsItsImage(t *testing.T) {
	f := newFixture(t, nastyBase)
	now := &clock{time.Now()}
	l := openLibrary(t, Config{Dir: t.TempDir() + "/l", Now: now.now})
	e := freeze(t, l, f, nil)
	record := l.dir.Path("records", "alice", libdir.HexOrNone(e.Digest)+".json")
	sound, err := os.ReadFile(record)
	must(t, err, os.WriteFile(record, bytes.ToUpper(sound), 0o600))
	now.at = now.at.Add(2 * keepBase)
	swept, err := l.Sweep(t.Context(), false)
	if must(t, err); len(swept.Environments)+len(swept.Bases) != 0 {
		t.Errorf("with a damaged record: %+v", swept)
	}
	document := l.dir.Path("documents", libdir.HexOrNone(e.Digest)+".json")
	must(t, os.WriteFile(record, sound, 0o600), os.WriteFile(document, []byte("{}"), 0o600))
	swept, err = l.Sweep(t.Context(), false)
	if must(t, err); len(swept.Environments)+len(swept.Bases) != 0 {
		t.Errorf("with a damaged document: %+v", swept)
	}
}

// TestSweepsAreCounted: an image that a kill left without a record is told while it is too young to go, and counted
// when it has gone.
func TestSweepsAreCounted(t *testing.T) {
	f := newFixture(t, nastyBase)
	now := &clock{time.Now()}
	l := openLibrary(t, Config{Dir: t.TempDir() + "/l", Now: now.now})
	e := freeze(t, l, f, nil)
	must(t, os.Remove(l.dir.Path("records", "alice", libdir.HexOrNone(e.Digest)+".json")))
	st, err := os.Stat(l.dir.Image(e.Digest))
	must(t, err, l.tidy(t.Context()))
	if s := l.Sweeps(); s.Environments != 0 || s.Waiting.Environments != 1 || s.Waiting.Bytes != st.Size() {
		t.Errorf("young: %+v", s)
	}
	now.at = now.at.Add(pin.Grace + tidyEvery)
	_, err = l.Sweep(t.Context(), true)
	must(t, err, l.tidy(t.Context()))
	if s := l.Sweeps(); s.Environments != 1 || s.Bytes != st.Size() || s.Waiting.Environments != 0 {
		t.Errorf("old: %+v", s)
	}
}
