package server

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"slipway/internal/devicelogin"
	"slipway/internal/sshauth"
	"slipway/spawner"
)

// A key of alice's, and one that is nobody's.
const (
	alicesKey   = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEXwuWTIVNeELOVsIJLRe4Zbl1BvMPLyTOaSaqLnw1Rn"
	freeKey     = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB3P6QkOqwzLAv4oYHhQ1+YxZ0m0Fq0f7hLzD7dWnQ1L"
	alicesPrint = "SHA256:423iD85SsZYNRth5L0O1cL3uvQTkQCw2IfTeOQ+To+U"
)

// memory is a store without a disk.
type memory struct {
	mu     sync.Mutex
	values map[string]json.RawMessage
}

type record = struct {
	Key   string
	Value json.RawMessage
}

func (m *memory) Put(_ context.Context, bucket, key string, value any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	raw, err := json.Marshal(value)
	m.values[bucket+"/"+key] = raw
	return err
}

func (m *memory) Delete(_ context.Context, bucket, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, bucket+"/"+key)
	return nil
}

func (m *memory) All(context.Context, string) iter.Seq2[record, error] {
	return func(func(record, error) bool) {}
}

func (m *memory) Sync(context.Context) error { return nil }

// sshFiles are an authority's, made once: an RSA key takes a while.
var sshFiles = sync.OnceValues(func() (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if _, err := sshauth.New(context.Background(), authorityConfig(filepath.Join(dir, "ssh"))); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(dir, "ssh"))
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, e := range entries {
		if all[e.Name()], err = os.ReadFile(filepath.Join(dir, "ssh", e.Name())); err != nil {
			return nil, err
		}
	}
	return all, nil
})

func authorityConfig(dir string) sshauth.Config {
	return sshauth.Config{
		Store: &memory{values: map[string]json.RawMessage{}}, Dir: dir, Host: "hub.test", Port: 2222, Logger: slog.New(slog.DiscardHandler),
		Hubs: []sshauth.Hub{{Name: "main", Realm: "site"}},
	}
}

// authority knows who may come in by ssh: nobody yet.
func authority(t *testing.T, logins *devicelogin.Logins) *sshauth.Authority {
	t.Helper()
	all, err := sshFiles()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "ssh")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg := authorityConfig(dir)
	cfg.Logins = logins
	a, err := sshauth.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func add(t *testing.T, a *sshauth.Authority, user, key string) {
	t.Helper()
	if _, err := a.AddKey(t.Context(), sshauth.Owner{Hub: "main", User: user}, key, user+"'s laptop"); err != nil {
		t.Fatal(err)
	}
}

// named is a running session of a server with a name.
func named(id spawner.ID, user spawner.User, name string) spawner.Workload {
	w := lab(id, user, "/user/"+string(user)+"/"+name+"/")
	w.Name = name
	return w
}
