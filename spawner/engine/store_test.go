package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/engine"
)

// memory is a store in memory, with faults on demand. It outlives a Manager, as a disk does.
type memory struct {
	mu      sync.Mutex
	records map[string][]byte
	full    bool
	unsafe  map[string]int64 // the first revision that was written since the last Sync
	broken  error            // what Sync answers
}

func (s *memory) Sync(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		clear(s.unsafe)
	}
	return s.broken
}

// safe reports whether a crash of the host now would lose nothing of a workload up to a revision. What is done for it
// goes on meanwhile.
func (s *memory) safe(id spawner.ID, rev int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, written := s.unsafe["workloads/"+string(id)]
	return !written || first > rev
}

func (s *memory) Put(_ context.Context, bucket, key string, value any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return errs.New(errs.NoSpace, "the disk is full")
	}
	b, err := json.Marshal(value)
	s.records[bucket+"/"+key] = b
	if s.unsafe == nil {
		s.unsafe = map[string]int64{}
	}
	if _, written := s.unsafe[bucket+"/"+key]; bucket == "workloads" && !written {
		s.unsafe[bucket+"/"+key] = recordOf(value).Rev
	}
	return err
}

// PutAll puts all or nothing.
func (s *memory) PutAll(ctx context.Context, bucket string, values map[string]any) error {
	for key, value := range values {
		if err := s.Put(ctx, bucket, key, value); err != nil {
			return err
		}
	}
	return nil
}

func (s *memory) Delete(_ context.Context, bucket, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, bucket+"/"+key)
	return nil
}

func (s *memory) All(_ context.Context, bucket string) iter.Seq2[engine.Record, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []engine.Record
	for k, v := range s.records {
		if key, of := strings.CutPrefix(k, bucket+"/"); of {
			all = append(all, engine.Record{Key: key, Value: v})
		}
	}
	return func(yield func(engine.Record, error) bool) {
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// rev returns how often a workload was saved.
func (s *memory) rev(t *testing.T, id spawner.ID) int64 {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var saved struct{ Rev int64 }
	if err := json.Unmarshal(s.records["workloads/"+string(id)], &saved); err != nil {
		t.Fatal(err)
	}
	return saved.Rev
}

func (s *memory) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bytes.Buffer
	for _, v := range s.records {
		b.Write(v)
	}
	return b.String()
}

// messages returns the texts of events.
func messages(events []spawner.Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, e.Message)
	}
	return slices.Clip(out)
}
