package library

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const libc = "libc.so.6"

func TestBind(t *testing.T) {
	l, err := Open("", libc)
	if err != nil {
		t.Fatal(err)
	}
	var length func(string) uintptr
	if err := l.Bind("strlen", &length); err != nil || length("four") != 4 {
		t.Errorf("strlen: %v", err)
	}
	var none func()
	if err := l.Bind("cuNoSuchThing", &none); err == nil || none != nil || !strings.Contains(err.Error(), "has no function cuNoSuchThing") {
		t.Errorf("a missing function: %v", err)
	}
	if l.TryBind("cuNoSuchThing", &none) {
		t.Error("a missing function was found")
	}
}

func TestOpenSaysWhy(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"", dir} {
		if _, err := Open(d, "libno-such.so.1"); !errors.Is(err, ErrNotFound) {
			t.Errorf("missing in %q: %v", d, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "libnoise.so.1"), []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, "libnoise.so.1"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("no library: %v", err)
	}
}
