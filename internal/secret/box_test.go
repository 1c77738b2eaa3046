//go:build linux

package secret

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/testenv"
)

func TestBox(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys", "secret.key")
	box, err := OpenBox(file)
	if err != nil {
		t.Fatal(err)
	}
	sealed := box.Seal([]byte("hunter2"), "s-1")
	if bytes.Contains(sealed, []byte("hunter2")) || bytes.Equal(sealed, box.Seal([]byte("hunter2"), "s-1")) {
		t.Error("the seal shows what is in it")
	}
	again, err := OpenBox(file) // a restart
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := again.Open(sealed, "s-1"); err != nil || string(plain) != "hunter2" {
		t.Errorf("%q, %v", plain, err)
	}
	if _, err := again.Open(sealed, "s-2"); err == nil {
		t.Error("opened for another purpose")
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if _, err := again.Open(changed, "s-1"); err == nil {
			t.Fatalf("opened with byte %d changed", i)
		}
	}
	for _, short := range [][]byte{nil, sealed[:5], sealed[:20]} {
		if _, err := again.Open(short, "s-1"); err == nil {
			t.Errorf("opened %d bytes", len(short))
		}
	}
	other, err := OpenBox(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Open(sealed, "s-1"); err == nil {
		t.Error("opened with another key")
	}
}

func TestDerive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	box, err := OpenBox(file)
	if err != nil {
		t.Fatal(err)
	}
	again, err := OpenBox(file) // a restart
	if err != nil {
		t.Fatal(err)
	}
	key := box.Derive("a")
	if len(key) != 32 || !bytes.Equal(key, again.Derive("a")) {
		t.Errorf("%d bytes, another after a restart", len(key))
	}
	own, err := os.ReadFile(file)
	if err != nil || bytes.Equal(key, own) || bytes.Equal(key, box.Derive("b")) || bytes.Equal(key, NewBox().Derive("a")) {
		t.Errorf("the key for a purpose is another key too: %v", err)
	}
}

func TestBoxOfAProcess(t *testing.T) {
	box := NewBox()
	sealed := box.Seal([]byte("hunter2"), "login")
	if plain, err := box.Open(sealed, "login"); err != nil || string(plain) != "hunter2" {
		t.Errorf("%q, %v", plain, err)
	}
	if _, err := NewBox().Open(sealed, "login"); err == nil {
		t.Error("another process's box has the same key")
	}
}

func TestKeyFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	if _, err := OpenBox(file); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != keySize {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenBox(file); err == nil {
		t.Error("a key that others can read was taken")
	}
	if err := os.WriteFile(file, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenBox(file); err == nil {
		t.Error("a damaged key was taken")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".key-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestPlantedKeyFile: in a directory where others can write, a user may have made the key before the service did.
func TestPlantedKeyFile(t *testing.T) {
	testenv.Need(t, testenv.Root)
	file := filepath.Join(t.TempDir(), "key")
	if err := errors.Join(os.WriteFile(file, make([]byte, keySize), 0o600), os.Chown(file, 20001, 100)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenBox(file); err == nil || !strings.Contains(err.Error(), "20001") {
		t.Errorf("a user's key was taken: %v", err)
	}
}
