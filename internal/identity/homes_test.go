package identity

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"slipway/internal/errs"
)

func TestDirectoryOfTheHomes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := filepath.Join(t.TempDir(), "deep", "homes")
	if _, err := New(Config{First: 20000, Last: 20001, Homes: dir}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("%v, %v: want mode 0711 under any umask", info, err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{First: 20000, Last: 20001, Homes: dir}); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("writable for all: %v, want a refusal with the command", err)
	}
}
