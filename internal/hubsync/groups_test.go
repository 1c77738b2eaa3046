package hubsync

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"slipway/hubapi/hub"
	"slipway/spawner"
)

// of returns the groups that a user is known to be in; nil: it is not known.
func of(m *Membership, user spawner.User) []string {
	groups, known := m.Of(user)
	if !known {
		return nil
	}
	return append([]string{}, groups...)
}

// TestGroups: what the Hub says is known within moments; what it takes back ends at the next question; and what it does
// not confirm is not known when it is no longer fresh, also by an answer that was long on its way.
func TestGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, m := newFakeHub(), NewMembership(10*time.Minute)
		h.group = []hub.Group{{Name: "higgs", Users: []string{"alice", "bob"}}, {Name: "top", Users: []string{"alice"}}, {Name: "empty", Users: []string{}}}
		if got := of(m, "alice"); got != nil {
			t.Errorf("before the Hub was asked: %q", got)
		}
		log := running(t, Config{Hub: h, Engine: &fakeEngine{}, Groups: m, GroupsEvery: time.Minute})
		time.Sleep(firstAsk)
		synctest.Wait()
		if a, b, c := of(m, "alice"), of(m, "bob"), of(m, "carol"); !slices.Equal(a, []string{"higgs", "top"}) || !slices.Equal(b, []string{"higgs"}) || c == nil || len(c) > 0 {
			t.Errorf("alice is in %q, bob in %q, carol in %q", a, b, c)
		}
		h.mu.Lock()
		h.group = []hub.Group{{Name: "higgs", Users: []string{"bob"}}}
		h.mu.Unlock()
		time.Sleep(2 * time.Minute)
		if a, b := of(m, "alice"), of(m, "bob"); a == nil || len(a) > 0 || len(b) != 1 {
			t.Errorf("when she has left: alice is in %q, bob in %q", a, b)
		}
		h.set(func(posted) error { return down() })
		time.Sleep(8 * time.Minute)
		if b := of(m, "bob"); len(b) != 1 {
			t.Errorf("while it is fresh: bob is in %q", b)
		}
		time.Sleep(3 * time.Minute)
		if b, all := of(m, "bob"), m.Members("higgs"); b != nil || !slices.Equal(all, []spawner.User{"bob"}) {
			t.Errorf("of a Hub that is down: bob is in %q, and in higgs were %q", b, all)
		}
		h.set(nil)
		time.Sleep(2 * time.Minute)
		if b := of(m, "bob"); len(b) != 1 || log.count("WARN") != 1 || log.count("works again") != 1 {
			t.Errorf("of a Hub that is back: bob is in %q\n%s", b, log.String())
		}
	})
}

// TestASlowAnswerIsAsOldAsItsQuestion: nobody knows what has changed since the Hub was asked.
func TestASlowAnswerIsAsOldAsItsQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, m := newFakeHub(), NewMembership(time.Minute)
		h.slow, h.group = 50*time.Second, []hub.Group{{Name: "higgs", Users: []string{"bob"}}}
		running(t, Config{Hub: h, Engine: &fakeEngine{}, Groups: m, GroupsEvery: time.Hour})
		time.Sleep(53 * time.Second)
		before := of(m, "bob")
		time.Sleep(10 * time.Second)
		if after := of(m, "bob"); len(before) != 1 || after != nil {
			t.Errorf("bob is in %q after its answer, in %q ten seconds later", before, after)
		}
	})
}
