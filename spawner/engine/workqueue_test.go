package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestQueueMergesAndComesBack(t *testing.T) {
	q := newQueue()
	q.add("a")
	q.add("a")
	q.add("b")
	first, _ := q.get(t.Context())
	q.add(first) // while it is with a worker
	second, _ := q.get(t.Context())
	if first != "a" || second != "b" {
		t.Fatalf("got %s then %s, want a then b", first, second)
	}
	if _, ok := q.take(); ok {
		t.Error("a key is with two workers at once")
	}
	q.done("a")
	if id, ok := q.take(); !ok || id != "a" {
		t.Errorf("after done: %s %v, want a once more", id, ok)
	}
	q.done("a")
	if id, ok := q.take(); ok {
		t.Errorf("%s comes back a third time", id)
	}
}

func TestQueueEarliestTimerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		start := time.Now()
		q.addAfter("a", time.Minute)
		q.addAfter("a", time.Second)
		q.addAfter("a", time.Hour)
		id, _ := q.get(t.Context())
		if waited := time.Since(start); id != "a" || waited != time.Second {
			t.Errorf("%s after %s, want a after 1s", id, waited)
		}
		q.done("a")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		if id, ok := q.get(ctx); ok {
			t.Errorf("%s comes again", id)
		}
		q.stop()
	})
}
