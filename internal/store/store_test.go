package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
)

type thing struct {
	Name string `json:"name"`
	N    int    `json:"n"`
}

// place returns a path for a store that nothing else uses.
func place(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "store.db")
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func opened(t testing.TB, path string) *Store {
	t.Helper()
	s, err := open(t.Context(), path, quiet(), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func put(t testing.TB, s *Store, bucket, key string, v any) {
	t.Helper()
	if err := s.Put(t.Context(), bucket, key, v); err != nil {
		t.Fatal(err)
	}
}

// contents returns key -> compact JSON of a bucket.
func contents(t testing.TB, s *Store, bucket string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for r, err := range s.All(t.Context(), bucket) {
		if err != nil {
			t.Fatal(err)
		}
		got[r.Key] = string(r.Value)
	}
	return got
}

func TestRecordsSurviveReopening(t *testing.T) {
	path := place(t)
	s := opened(t, path)
	put(t, s, "a", "1", thing{"one", 1})
	put(t, s, "a", "2", thing{"two", 2})
	put(t, s, "a", "1", thing{"uno", 1})
	put(t, s, "b", "1", thing{"other", 3})
	if err := s.Delete(t.Context(), "a", "2"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = opened(t, path)
	if diff := cmp.Diff(map[string]string{"1": `{"name":"uno","n":1}`}, contents(t, s, "a")); diff != "" {
		t.Error(diff)
	}
	var got thing
	if err := s.Get(t.Context(), "b", "1", &got); err != nil || got != (thing{"other", 3}) {
		t.Errorf("Get = %v, %v", got, err)
	}
}

func TestWhatIsNotThere(t *testing.T) {
	s := opened(t, place(t))
	if err := s.Get(t.Context(), "a", "gone", &thing{}); !errs.Is(err, errs.NotFound) {
		t.Errorf("Get = %v, want not found", err)
	}
	if err := s.Delete(t.Context(), "a", "gone"); err != nil {
		t.Errorf("Delete = %v, want success", err)
	}
	if got := contents(t, s, "empty"); len(got) != 0 {
		t.Errorf("All = %v, want nothing", got)
	}
}

func TestKeysAreJustKeys(t *testing.T) {
	s := opened(t, place(t))
	want := map[string]string{}
	for i, key := range []string{"alice", "Alice", "ä", "a'; DROP TABLE records; --", "a/b", "", "日本"} {
		put(t, s, "users", key, i)
		want[key] = fmt.Sprint(i)
	}
	if diff := cmp.Diff(want, contents(t, s, "users")); diff != "" {
		t.Error(diff)
	}
}

func TestAllMayBeWrittenInsideTheLoop(t *testing.T) {
	s := opened(t, place(t))
	for _, key := range []string{"c", "a", "b"} {
		put(t, s, "x", key, 1)
	}
	var seen []string
	for r, err := range s.All(t.Context(), "x") {
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, r.Key)
		put(t, s, "x", r.Key+"2", 2)
		if r.Key == "b" {
			break
		}
	}
	if diff := cmp.Diff([]string{"a", "b"}, seen); diff != "" {
		t.Error(diff)
	}
	if got := len(contents(t, s, "x")); got != 5 {
		t.Errorf("%d records, want 5", got)
	}
}

func TestPutAllIsAllOrNothing(t *testing.T) {
	s := opened(t, place(t))
	if err := s.PutAll(t.Context(), "x", map[string]any{"1": 1, "2": 2, "3": make(chan int)}); err == nil {
		t.Error("a channel was saved")
	}
	if got := contents(t, s, "x"); len(got) != 0 {
		t.Errorf("what failed left %v", got)
	}
	if err := s.PutAll(t.Context(), "x", map[string]any{"1": 1, "2": 2}); err != nil {
		t.Error(err)
	}
	if got := contents(t, s, "x"); len(got) != 2 {
		t.Errorf("saved were %v", got)
	}
}

func TestBatchIsAllOrNothing(t *testing.T) {
	s := opened(t, place(t))
	boom := errors.New("boom")
	err := s.Batch(t.Context(), func(tx *Tx) error {
		if err := tx.Put(t.Context(), "x", "1", 1); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("Batch = %v, want the error of fn", err)
	}
	if got := contents(t, s, "x"); len(got) != 0 {
		t.Errorf("a failed batch left %v", got)
	}
	err = s.Batch(t.Context(), func(tx *Tx) error {
		if err := tx.Put(t.Context(), "x", "1", 1); err != nil {
			return err
		}
		var n int
		if err := tx.Get(t.Context(), "x", "1", &n); err != nil {
			return err
		}
		return tx.Put(t.Context(), "x", "2", n+1)
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"1": "1", "2": "2"}, contents(t, s, "x")); diff != "" {
		t.Error(diff)
	}
}

func TestBadValues(t *testing.T) {
	s := opened(t, place(t))
	if err := s.Put(t.Context(), "x", "1", func() {}); err == nil || !strings.Contains(err.Error(), "x/1") {
		t.Errorf("Put of a func = %v, want an error that names the key", err)
	}
	put(t, s, "x", "1", "text")
	if err := s.Get(t.Context(), "x", "1", &thing{}); err == nil || !strings.Contains(err.Error(), "x/1") {
		t.Errorf("Get into another type = %v, want an error that names the key", err)
	}
}

func TestEndedContext(t *testing.T) {
	s := opened(t, place(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Put(ctx, "x", "1", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v, want canceled", err)
	}
	if got := contents(t, s, "x"); len(got) != 0 {
		t.Errorf("a canceled put left %v", got)
	}
}

func TestUpdatesInBatchesDoNotLoseEachOther(t *testing.T) {
	s := opened(t, place(t))
	put(t, s, "x", "n", 0)
	done := make(chan error)
	for range 8 {
		go func() {
			done <- s.Batch(t.Context(), func(tx *Tx) error {
				var n int
				if err := tx.Get(t.Context(), "x", "n", &n); err != nil {
					return err
				}
				return tx.Put(t.Context(), "x", "n", n+1)
			})
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := contents(t, s, "x")["n"]; got != "8" {
		t.Errorf("n = %s, want 8", got)
	}
}

func BenchmarkPut(b *testing.B) {
	s := opened(b, place(b))
	value := json.RawMessage(`{"argv":"` + strings.Repeat("x", 2000) + `"}`)
	for i := 0; b.Loop(); i++ {
		put(b, s, "workloads", fmt.Sprintf("s-%d", i%1000), value)
	}
}

func BenchmarkAll(b *testing.B) {
	s := opened(b, place(b))
	value := json.RawMessage(`{"argv":"` + strings.Repeat("x", 2000) + `"}`)
	for i := range 1000 {
		put(b, s, "workloads", fmt.Sprintf("s-%d", i), value)
	}
	for b.Loop() {
		if n := len(contents(b, s, "workloads")); n != 1000 {
			b.Fatalf("%d records", n)
		}
	}
}
