package service

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"slipway/internal/errs"
	"slipway/internal/store"
)

func TestNoKeyIsMadeWhereCredentialsAreSealed(t *testing.T) {
	dir := t.TempDir()
	db, err := store.Open(t.Context(), filepath.Join(dir, "records", "slipway.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	file := filepath.Join(dir, "key")
	if _, err := openBox(t.Context(), db, file); err != nil {
		t.Fatal(err)
	}
	if err := db.Put(t.Context(), "wallet", "wlcg alice", map[string]any{"principal": "alice", "name": "wlcg", "sealed": []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if _, err := openBox(t.Context(), db, file); err != nil {
		t.Error(err)
	}
	if err := os.Rename(file, file+".away"); err != nil {
		t.Fatal(err)
	}
	if _, err := openBox(t.Context(), db, file); !errs.Is(err, errs.Missing) {
		t.Errorf("a new key: %v", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a new key is on the disk")
	}
}
