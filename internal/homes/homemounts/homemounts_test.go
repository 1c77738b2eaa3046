package homemounts

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"slipway/hubapi"
	"slipway/internal/config"
	"slipway/internal/homes"
	"slipway/internal/identity"
	"slipway/internal/store"
	"slipway/spawner"
)

func emptyStore(t *testing.T) *store.Store {
	t.Helper()
	records, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "records", "db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = records.Close() })
	return records
}

// housed are Mounts that know whom they have told.
func housed(t *testing.T, records *store.Store) *Mounts {
	t.Helper()
	cfg, err := config.Parse([]byte("data: {areas: [{name: a, path: '/a/{name}', inside: /a}, " +
		"{name: b, path: '/b/{realm}', inside: /b}, {name: c, path: /c}]}"))
	if err != nil {
		t.Fatal(err)
	}
	realms := map[string]string{"main": "site", "other": "lab"}
	m := &Mounts{cfg: Config{
		Site: cfg, Store: records, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Realms:    realms,
		Principal: func(hub string, user spawner.User) string { return identity.Principal(realms[hub], string(user)) },
	}}
	if m.Places, err = PlacesOf(cfg, ""); err != nil {
		t.Fatal(err)
	}
	if m.alarm, err = m.recallAlarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestToldOncePerMark: at a start or by a round, and not by the next service; of a job's events nobody may look at.
func TestToldOncePerMark(t *testing.T) {
	records := emptyStore(t)
	at := func(percent int64) hubapi.Quota {
		return QuotaOf(homeName, "/home/alice", homes.Found{Limits: []homes.Limit{{Used: percent, Most: 100}}}, nil)
	}
	lab, job := spawner.Workload{
		Hub: "main", Owner: "alice", Kind: spawner.Lab,
	}, spawner.Workload{Hub: "main", Owner: "alice", Kind: spawner.Job}
	m := housed(t, records)
	if got := m.fullWords(job, at(85)); got != "" {
		t.Errorf("a job is told %q", got)
	}
	if got := m.fullWords(lab, at(85)); !strings.HasPrefix(got, "/home/alice is filling up") {
		t.Errorf("a session is told %q", got)
	}
	if got, mark := m.fullWords(lab, at(86)), m.passes("main", "alice", at(86)); got != "" || mark != 0 {
		t.Errorf("told again: %q, %d", got, mark)
	}
	if mark := m.passes("other", "alice", at(85)); mark != 80 {
		t.Errorf("another of her name is told of %d", mark)
	}
	m = housed(t, records)
	if mark := m.passes("main", "alice", hubapi.Quota{Name: homeName, Trouble: "away"}); mark != 0 {
		t.Errorf("of what cannot be looked at: %d", mark)
	}
	if got := m.fullWords(lab, at(87)); got != "" {
		t.Errorf("told again by the next service: %q", got)
	}
	if mark := m.passes("main", "alice", at(96)); mark != 95 {
		t.Errorf("the next mark: %d", mark)
	}
}

// TestWhatIsHers: areas of each user's own are refused where they are another's, whoever makes them; and who only looks
// makes nothing.
func TestWhatIsHers(t *testing.T) {
	m := housed(t, emptyStore(t))
	for i, want := range []bool{true, false, false} {
		if got := m.areaOf(i, "main", "alice", spawner.Account{}).Hers; got != want {
			t.Errorf("area %s: hers %t", m.cfg.Site.Data.Areas[i].Name, got)
		}
	}
	if !m.homeOf("main", "alice", spawner.Account{}).Create || m.homeNow("main", "alice", spawner.Account{}).Create {
		t.Error("a home is made by who only looks, or not at a start")
	}
}
