package timeseries

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// memory is a store.
type memory struct {
	records map[string]json.RawMessage
	refuses error
}

func (m *memory) PutAll(_ context.Context, _ string, values map[string]any) error {
	if m.refuses != nil {
		return m.refuses
	}
	for key, value := range values {
		raw, err := json.Marshal(value)
		if err != nil {
			return err
		}
		m.records[key] = raw
	}
	return nil
}

func (m *memory) Delete(_ context.Context, _, key string) error {
	if m.refuses == nil {
		delete(m.records, key)
	}
	return m.refuses
}

func (m *memory) All(context.Context, string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(m.records)) {
			if !yield(Record{Key: key, Value: m.records[key]}, nil) {
				return
			}
		}
	}
}

func newMemory() *memory { return &memory{records: map[string]json.RawMessage{}} }

func open(t *testing.T, store *memory, most int) *DB {
	t.Helper()
	db, err := Open(t.Context(), Config{
		Store: store, Bucket: "usage", Aggregates: [Columns]Aggregate{Mean, Max}, Most: most,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// two returns values of which two were measured.
func two(mean, most float64) Values {
	v := Unmeasured()
	v[0], v[1] = mean, most
	return v
}

// measure adds a number every so often.
func measure(db *DB, name string, every time.Duration, times int, value func(i int) float64) {
	for i := range times {
		db.Add(name, two(value(i), value(i)))
		time.Sleep(every)
	}
}

// words writes points as tests compare them.
func words(points []Point) string {
	var b strings.Builder
	for _, p := range points {
		fmt.Fprintf(&b, "%s+%s %g/%g ", p.At.Format("15:04:05"), p.Step, p.Values[0], p.Values[1])
	}
	return strings.TrimSpace(b.String())
}

// toHour waits for a full hour, so that points begin where tests expect them.
func toHour() { time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour))) }

func TestPointsAreMeansOrTheHighest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toHour()
		db := open(t, newMemory(), 0)
		measure(db, "a", 10*time.Second, 3, func(i int) float64 { return float64(i) })
		db.Add("a", Unmeasured())
		at := db.began.UTC().Format("15:04")
		want := at + ":00+30s 1/2 " + at + ":30+30s NaN/NaN"
		if got := words(db.Points("a", time.Time{})); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		if v, ok := db.Last("a", time.Minute); !ok || !math.IsNaN(v[0]) {
			t.Errorf("last: %v %t", v, ok)
		}
		time.Sleep(2 * time.Minute)
		if _, ok := db.Last("a", time.Minute); ok {
			t.Error("what is old is taken for new")
		}
		if got := db.Points("b", time.Time{}); got != nil {
			t.Errorf("of what was never measured: %v", got)
		}
	})
}

// TestBounds: whatever is measured, for however long, there are no more points than are allowed.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toHour()
		store := newMemory()
		db := open(t, store, 0)
		measure(db, "long", 5*time.Minute, 9*24*12, func(i int) float64 { return float64(i) })
		db.Save(t.Context())
		points := db.Points("long", time.Time{})
		if n := len(points); n > fineMost+coarseMost || n < coarseMost {
			t.Errorf("%d points of one series", n)
		}
		if age := time.Since(points[0].At); age > Kept+time.Hour || age < Kept-2*time.Hour {
			t.Errorf("the oldest point is %s old", age)
		}
		for i, p := range points[1:] {
			if end := points[i].At.Add(points[i].Step); p.At.Before(end) {
				t.Fatalf("a point begins at %s, before the one before ends at %s", p.At, end)
			}
		}
		if n := len(store.records["long"]); n > 40_000 {
			t.Errorf("%d bytes on the disk", n)
		}

		few := open(t, newMemory(), 1000)
		for i := range 2000 {
			few.Add(fmt.Sprint("short ", i), two(1, 1))
			time.Sleep(time.Second)
		}
		if few.points > 1000 {
			t.Errorf("%d points of all series", few.points)
		}
		names := few.Names()
		if !slices.Contains(names, "short 1999") || slices.Contains(names, "short 0") {
			t.Error("not those are dropped that have ended longest ago")
		}
		time.Sleep(Kept + time.Hour)
		few.Save(t.Context())
		if names := few.Names(); len(names) > 0 || few.points != 0 {
			t.Errorf("after a week there are %d series of %d points", len(names), few.points)
		}
	})
}

func TestSeriesOutliveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toHour()
		store := newMemory()
		db := open(t, store, 0)
		measure(db, "a", 30*time.Second, 5*60, func(i int) float64 { return float64(i % 7) })
		measure(db, "b", 10*time.Second, 1, func(int) float64 { return 2 })
		db.Save(t.Context())
		before := db.Points("a", time.Time{})
		after := open(t, store, 0)
		if got := after.Points("a", time.Time{}); words(got) != words(before) {
			t.Errorf("after a restart\n%s\nwant\n%s", words(got), words(before))
		}
		if _, ok := after.Last("a", time.Hour); ok {
			t.Error("what was measured before a restart is taken for new")
		}
		// what is measured in the same half minute goes into the same point
		after.Add("b", two(4, 4))
		if got, want := words(after.Points("b", time.Time{})), "+30s 3/4"; !strings.HasSuffix(got, want) || strings.Count(got, "+") != 1 {
			t.Errorf("%s, want one point %s", got, want)
		}
		after.Remove("a")
		after.Save(t.Context())
		store.records["broken"] = json.RawMessage(`{"fine": 1}`)
		again := open(t, store, 0)
		if names := again.Names(); !slices.Equal(names, []string{"b"}) {
			t.Errorf("after a removal: %q", names)
		}
		if again.Save(t.Context()); store.records["broken"] != nil {
			t.Error("what cannot be read stays in the store")
		}
	})
}

// TestClockJumps: points keep their age, and their distance, when the clock is set.
func TestClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toHour()
		store, jump := newMemory(), time.Duration(0)
		db := open(t, store, 0)
		db.wall = func() time.Time { return time.Now().Add(jump) }
		db.Add("ended", two(1, 1))
		measure(db, "a", 30*time.Second, 4, func(i int) float64 { return float64(i) })
		db.Save(t.Context())
		began := db.began.UTC()
		for _, jump = range []time.Duration{3 * time.Hour, -2 * time.Hour} {
			db.Add("a", two(9, 9))
			points := db.Points("a", time.Time{})
			if got := points[0].At.Sub(began); got != jump {
				t.Errorf("set by %s, the first point moves by %s", jump, got)
			}
			for i, p := range points[1:] {
				if apart := p.At.Sub(points[i].At); apart != 30*time.Second {
					t.Errorf("set by %s: points are %s apart", jump, apart)
				}
			}
		}
		db.Save(t.Context())
		if got := open(t, store, 0).Points("ended", time.Time{}); len(got) != 1 || !got[0].At.Equal(began.Add(-2*time.Hour)) {
			t.Errorf("saved by the clock of before: %v", got)
		}
		// the clock was ahead when they were saved, and is right after the restart
		jump = 5 * time.Hour
		db.Save(t.Context())
		after := open(t, store, 0)
		if got := after.Points("a", time.Time{}); len(got) > 0 {
			t.Errorf("there are points of a time that has not come: %v", got)
		}
		after.Add("a", two(1, 1))
		if got := after.Points("a", time.Time{}); len(got) != 1 {
			t.Errorf("and nothing is measured after them: %v", got)
		}
	})
}

func TestWhatCannotBeSavedIsSavedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		db := open(t, store, 0)
		db.Add("a", two(1, 1))
		db.Add("gone", two(1, 1))
		db.Save(t.Context())
		store.refuses = errors.New("the disk is full")
		db.Add("b", two(1, 1))
		db.Remove("gone")
		db.Save(t.Context())
		store.refuses = nil
		db.Save(t.Context())
		if names := slices.Sorted(maps.Keys(store.records)); !slices.Equal(names, []string{"a", "b"}) {
			t.Errorf("saved: %q", names)
		}
	})
}

// TestRunSavesAtTheEnd: an ordinary end of the service loses nothing.
func TestRunSavesAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		db := open(t, store, 0)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); db.Run(ctx) }()
		db.Add("a", two(1, 1))
		time.Sleep(saveEvery + time.Second)
		synctest.Wait()
		if len(store.records) != 1 {
			t.Error("nothing is saved from time to time")
		}
		db.Add("b", two(1, 1))
		cancel()
		<-ended
		if len(store.records) != 2 {
			t.Error("the end of the service loses what was measured last")
		}
	})
}
