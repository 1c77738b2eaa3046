package workqueue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestQueueMergesAndComesBack(t *testing.T) {
	q := New()
	q.Add("a")
	q.Add("a")
	q.Add("b")
	first, _ := q.Get(t.Context())
	q.Add(first) // while it is with a worker
	second, _ := q.Get(t.Context())
	if first != "a" || second != "b" {
		t.Fatalf("got %s then %s, want a then b", first, second)
	}
	if _, ok := q.take(); ok {
		t.Error("a key is with two workers at once")
	}
	q.Done("a")
	if id, ok := q.take(); !ok || id != "a" {
		t.Errorf("after done: %s %v, want a once more", id, ok)
	}
	q.Done("a")
	if id, ok := q.take(); ok {
		t.Errorf("%s comes back a third time", id)
	}
}

func TestQueueEarliestTimerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New()
		start := time.Now()
		q.AddAfter("a", time.Minute)
		q.AddAfter("a", time.Second)
		q.AddAfter("a", time.Hour)
		id, _ := q.Get(t.Context())
		if waited := time.Since(start); id != "a" || waited != time.Second {
			t.Errorf("%s after %s, want a after 1s", id, waited)
		}
		q.Done("a")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		if id, ok := q.Get(ctx); ok {
			t.Errorf("%s comes again", id)
		}
		q.Stop()
	})
}
