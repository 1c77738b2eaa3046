package service

import (
	"testing"
	"time"

	"slipway/spawner"
)

// TestDataLooksAreFewAMinute: who asks again and again has one look going, and the next a minute later; a look that did
// not begin does not count.
func TestDataLooksAreFewAMinute(t *testing.T) {
	l, now := &dataLooks{}, time.Now()
	for _, c := range []struct {
		what   string
		after  time.Duration
		before func()
		begins bool
		wait   time.Duration
	}{
		{"the first", 0, nil, true, 0},
		{"while it goes on", time.Second, nil, false, 0},
		{"once it has ended", 20 * time.Second, func() { l.ended("s-1", "", now) }, false, 40 * time.Second},
		{"a minute later", time.Minute, nil, true, 0},
		{"the session did not answer", 70 * time.Second, func() { l.failed("s-1") }, true, 0},
		{"nothing comes of it", 70*time.Second + lookTime, nil, true, 0},
	} {
		if c.before != nil {
			c.before()
		}
		if begins, wait := l.begin("s-1", now.Add(c.after)); begins != c.begins || wait != c.wait {
			t.Errorf("%s: %t, %s", c.what, begins, wait)
		}
	}
	if begins, _ := l.begin("s-2", now); !begins {
		t.Error("another session waits")
	}
}

// TestDataIsToldRarely: what is amiss is told once, and whatever a session says does not fill its events.
func TestDataIsToldRarely(t *testing.T) {
	l, now := &dataLooks{}, time.Now()
	told := 0
	for i := range 1000 {
		if l.ended("s-1", []string{"one", "other", ""}[i%3], now.Add(time.Duration(i)*time.Second)) {
			told++
		}
	}
	if told != 2 {
		t.Errorf("told %d times in 1000 s", told)
	}
	if l.ended("s-2", "", now) || !l.ended("s-2", "one", now) || l.ended("s-2", "one", now.Add(time.Hour)) {
		t.Error("what stays amiss is not told once")
	}
	if l.ended("s-2", "other", now.Add(time.Minute)) || !l.ended("s-2", "other", now.Add(tellEvery)) {
		t.Error("what is new is not told in its time")
	}
}

// TestDataLooksGo: nothing is remembered of a session that is gone.
func TestDataLooksGo(t *testing.T) {
	l := &dataLooks{}
	l.know("s-1")
	l.know("s-2")
	gone := func(id spawner.ID) bool { return id == "s-1" }
	if dropped := l.drop(gone); len(dropped) != 1 || dropped[0] != "s-1" || len(l.of) != 1 || len(l.drop(gone)) != 0 {
		t.Errorf("dropped %v, left %v", dropped, l.of)
	}
}
