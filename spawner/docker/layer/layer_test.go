package layer

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// TestHolesThatAnEngineIsSentAreBounded: layers have no holes.
func TestHolesThatAnEngineIsSentAreBounded(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "data")
	for size, want := range map[int64]bool{1 << 30: true, 1 << 40: false} {
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(file, size); err != nil {
			t.Fatal(err)
		}
		err := CheckHoles(dir)
		if (err == nil) != want || err != nil && (!errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "/data")) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestLayer: deletions have the names that engines know, and the same directory gives the same bytes.
func TestLayer(t *testing.T) {
	testenv.Need(t, testenv.Root)
	upper := t.TempDir()
	err := errors.Join(
		os.MkdirAll(filepath.Join(upper, "bin"), 0o755), os.MkdirAll(filepath.Join(upper, "opt/deep"), 0o755),
		os.WriteFile(filepath.Join(upper, "opt/deep/a"), []byte("a"), 0o644), os.Link(filepath.Join(upper, "opt/deep/a"), filepath.Join(upper, "opt/b")),
		unix.Mknod(filepath.Join(upper, "bin/whoami"), unix.S_IFCHR, 0),
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(filepath.Join(upper, "opt/deep"), "trusted.overlay.opaque", []byte("y"), 0); err != nil {
		t.Fatal(err)
	}
	var one, two bytes.Buffer
	if err := errors.Join(Write(t.Context(), &one, upper), Write(t.Context(), &two, upper)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("it is another one each time")
	}
	for _, name := range []string{"bin/.wh.whoami", "opt/deep/.wh..wh..opq"} {
		if !bytes.Contains(one.Bytes(), []byte(name+"\x00")) {
			t.Errorf("there is no %s", name)
		}
	}
}
