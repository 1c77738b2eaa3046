package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNamesOfProcessesAreHarmless: a process calls itself what it likes, and an administrator reads it on a terminal.
func TestNamesOfProcessesAreHarmless(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "7"), 0o755); err != nil {
		t.Fatal(err)
	}
	for said, want := range map[string]string{"python3\n": "python3", "\x1b[2J\x1b]0;pw": "?[2J?]0;pw", "a\nlevel=ERR": "a?level=ERR", "\u202eevil": "?evil", "\xff\xfe": "\ufffd\ufffd"} {
		if err := os.WriteFile(filepath.Join(root, "7", "comm"), []byte(said), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := comm(root, 7); got != want || strings.ContainsAny(got, "\x1b\n") {
			t.Errorf("%q is shown as %q, want %q", said, got, want)
		}
	}
}
