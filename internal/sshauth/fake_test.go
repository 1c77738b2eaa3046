package sshauth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"slipway/internal/devicelogin"
	"slipway/internal/store"
)

var _ Store = (*store.Store)(nil)
var _ Store = (*memory)(nil)

// memory is a store without a disk.
type memory struct {
	mu     sync.Mutex
	values map[string][]byte
	broken bool
}

func newMemory() *memory { return &memory{values: map[string][]byte{}} }

func (m *memory) Put(_ context.Context, bucket, key string, value any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken {
		return errors.New("the disk is full")
	}
	raw, err := json.Marshal(value)
	m.values[bucket+"/"+key] = raw
	return err
}

func (m *memory) Delete(_ context.Context, bucket, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken {
		return errors.New("the disk is full")
	}
	delete(m.values, bucket+"/"+key)
	return nil
}

func (m *memory) All(_ context.Context, bucket string) iter.Seq2[record, error] {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []record
	for key, value := range m.values {
		if in, ok := strings.CutPrefix(key, bucket+"/"); ok {
			all = append(all, record{in, value})
		}
	}
	slices.SortFunc(all, func(a, b record) int { return strings.Compare(a.Key, b.Key) })
	return func(yield func(record, error) bool) {
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (m *memory) Sync(context.Context) error { return nil }

func (m *memory) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for key, value := range m.values {
		b.WriteString(key + string(value))
	}
	return b.String()
}

// files are made once: an RSA key takes a while.
var files = sync.OnceValues(func() (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	if _, err := openKeyring(dir, "hub.example.org", slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, f := range keyFiles() {
		if all[f.name], err = os.ReadFile(filepath.Join(dir, f.name)); err != nil {
			return nil, err
		}
	}
	return all, nil
})

// withFiles returns a directory with all files of an authority.
func withFiles(t testing.TB) string {
	t.Helper()
	all, err := files()
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
	return dir
}

func configOf(t testing.TB, s Store) Config {
	t.Helper()
	return Config{
		Store: s, Dir: withFiles(t), Host: "hub.example.org", Port: 2222, Logger: slog.New(slog.DiscardHandler),
		Hubs: []Hub{{"main", "site"}, {"second", "site"}, {"other", "elsewhere"}},
		Logins: devicelogin.New([]devicelogin.Page{
			{Hub: "main", URL: "https://hub.example.org/services/slipway/login"},
			{Hub: "other", URL: "https://other.example.org/services/slipway/login"},
		}),
	}
}

func opened(t testing.TB, cfg Config) *Authority {
	t.Helper()
	a, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func authority(t testing.TB) *Authority { t.Helper(); return opened(t, configOf(t, newMemory())) }

func signer(t testing.TB) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func public(t testing.TB, key any) ssh.PublicKey {
	t.Helper()
	p, err := ssh.NewPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func rsaKey(t testing.TB, bits int) ssh.PublicKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return public(t, &key.PublicKey)
}

func ecdsaKey(t testing.TB, c elliptic.Curve) ssh.PublicKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return public(t, &key.PublicKey)
}

func alice() Owner { return Owner{Hub: "main", User: "alice"} }
func bob() Owner   { return Owner{Hub: "main", User: "bob"} }
