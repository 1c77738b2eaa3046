package credentials

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/internal/oidc"
	"slipway/internal/secret"
)

// disk is a Store in memory, which knows what a crash of the host would leave.
type disk struct {
	mu     sync.Mutex
	rows   map[string]json.RawMessage
	synced map[string]json.RawMessage
	dirty  []string
	full   bool
}

func newDisk() *disk {
	return &disk{rows: map[string]json.RawMessage{}, synced: map[string]json.RawMessage{}}
}

func (d *disk) Put(_ context.Context, bucket, key string, value any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full {
		return errs.New(errs.NoSpace, "the disk is full")
	}
	raw, err := json.Marshal(value)
	d.rows[key], d.dirty = raw, append(d.dirty, key)
	return err
}

func (d *disk) Delete(_ context.Context, _, key string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.rows, key)
	d.dirty = append(d.dirty, key)
	return nil
}

func (d *disk) Sync(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range d.dirty {
		if raw, ok := d.rows[key]; ok {
			d.synced[key] = raw
		} else {
			delete(d.synced, key)
		}
	}
	d.dirty = nil
	return nil
}

func (d *disk) All(context.Context, string) iter.Seq2[Record, error] {
	d.mu.Lock()
	defer d.mu.Unlock()
	rows := maps.Clone(d.rows)
	return func(yield func(Record, error) bool) {
		for _, k := range slices.Sorted(maps.Keys(rows)) {
			if !yield(Record{Key: k, Value: rows[k]}, nil) {
				return
			}
		}
	}
}

// crash returns the disk as it is after the host has crashed.
func (d *disk) crash() *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &disk{rows: maps.Clone(d.synced), synced: maps.Clone(d.synced)}
}

// fakeIssuer gives "<subject>/<n>" as refresh tokens, each good once, and access tokens that hold for its life.
type fakeIssuer struct {
	takes     time.Duration
	swapTakes time.Duration // an exchange
	life      time.Duration
	exchange  bool
	check     func(oidc.Tokens) error // what Check says, if it says anything

	mu      sync.Mutex
	last    map[string]int // by subject: the number of the refresh token that is good
	down    error
	shut    error  // of exchanges
	wants   string // what an exchanged token is for beside what it was asked for
	swaps   int
	under   map[string]int // refreshes under way, by subject
	doubled []string       // subjects with two at a time
	calls   []time.Time
	revoked []string
}

func newFakeIssuer(life time.Duration) *fakeIssuer {
	return &fakeIssuer{life: life, takes: 200 * time.Millisecond, last: map[string]int{}, under: map[string]int{}}
}

func (*fakeIssuer) URL() string { return "https://issuer.example" }

func (f *fakeIssuer) Offers(context.Context) (oidc.Offers, error) {
	return oidc.Offers{Device: true, Exchange: f.exchange, Revoke: true}, nil
}

func (f *fakeIssuer) set(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *fakeIssuer) Refresh(_ context.Context, refresh secret.Text) (oidc.Tokens, error) {
	subject, number, _ := strings.Cut(refresh.Reveal(), "/")
	var takes time.Duration
	f.set(func() {
		takes = f.takes
		f.calls = append(f.calls, time.Now())
		if f.under[subject]++; f.under[subject] > 1 {
			f.doubled = append(f.doubled, subject)
		}
	})
	<-time.After(takes)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.under[subject]--
	switch {
	case f.down != nil:
		return oidc.Tokens{}, f.down
	case number != fmt.Sprint(f.last[subject]):
		return oidc.Tokens{}, errs.New(errs.Forbidden, "the issuer refuses: %w", &oidc.Refusal{Code: "invalid_grant"})
	}
	f.last[subject]++
	next := fmt.Sprintf("%s/%d", subject, f.last[subject])
	return oidc.Tokens{Access: secret.New("access-" + next), Refresh: secret.New(next), Expires: time.Now().Add(f.life)}, nil
}

func (f *fakeIssuer) Exchange(ctx context.Context, access secret.Text, audience string, scopes []string) (oidc.Tokens, error) {
	var takes time.Duration
	var err error
	extra := ""
	f.set(func() { f.swaps++; takes, err, extra = f.swapTakes, f.shut, f.wants })
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return oidc.Tokens{}, ctx.Err()
	}
	if err != nil {
		return oidc.Tokens{}, err
	}
	got := oidc.Tokens{Access: secret.New("for " + audience + " " + access.Reveal()), Expires: time.Now().Add(f.life), Scopes: scopes}
	if extra != "" {
		got.Scopes = append(slices.Clone(scopes), extra)
	}
	return got, nil
}

func (f *fakeIssuer) Check(_ context.Context, t oidc.Tokens, want oidc.Want) (oidc.Facts, error) {
	if f.check != nil {
		if err := f.check(t); err != nil {
			return oidc.Facts{}, err
		}
	}
	facts := oidc.Facts{Expires: t.Expires, Scopes: t.Scopes}
	text := t.Access.Reveal()
	if rest, ok := strings.CutPrefix(text, "for "); ok {
		audience, access, _ := strings.Cut(rest, " ")
		facts.Audiences, text = []string{audience}, access
	}
	facts.Subject, _, _ = strings.Cut(strings.TrimPrefix(text, "access-"), "/")
	if want.Subject != "" && want.Subject != facts.Subject {
		return oidc.Facts{}, errs.New(errs.Invalid, "of another person than before")
	}
	return facts, nil
}

func (f *fakeIssuer) Revoke(_ context.Context, refresh secret.Text) error {
	f.set(func() { f.revoked = append(f.revoked, refresh.Reveal()) })
	return nil
}

func (f *fakeIssuer) BeginDevice(context.Context) (oidc.Device, error) {
	<-time.After(f.takes + time.Millisecond)
	return oidc.Device{URL: "https://issuer.example/activate", Code: "CODE", Expires: time.Now().Add(time.Minute)}, nil
}

func (f *fakeIssuer) AwaitDevice(ctx context.Context, _ oidc.Device) (oidc.Tokens, error) {
	return f.Refresh(ctx, secret.New("device/0"))
}

func managerOver(t *testing.T, d Store, box Sealer, f Issuer, change ...func(*Config)) *Manager {
	t.Helper()
	cfg := Config{Store: d, Sealer: box, Sources: []Source{{Name: "wlcg", Issuer: f, Hub: true}}, Logger: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&cfg)
	}
	w, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// entryOf returns the one entry of a user.
func entryOf(t *testing.T, w *Manager, principal string) Entry {
	t.Helper()
	list, err := w.List(t.Context(), principal)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d entries: %v", len(list), err)
	}
	return list[0]
}

func fileOf(t *testing.T, w *Manager, principal, name string) string {
	t.Helper()
	files, err := w.Files(t.Context(), principal)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name == name {
			return f.Data.Reveal()
		}
	}
	return ""
}
