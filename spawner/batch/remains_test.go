package batch

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/clock"
	"slipway/internal/errs"
)

// TestCutOffChanges: changes that came back with fewer bytes than their worker has told of are none.
func TestCutOffChanges(t *testing.T) {
	s := newCluster()
	b, launch := played(t, s)
	l := launch(1)
	must(t, b.Start(t.Context(), l))
	s.is("1.0", exits)
	clock.Sleep(t.Context(), 2*b.cfg.PollEvery)
	out := filepath.Join(b.records.Dir(l.ID), boxDir, "out")
	for name, text := range map[string]string{"end.json": `{"exit_code":0,"pack_size":3072}`, "changes.pack": strings.Repeat("x", 1024)} {
		must(t, os.WriteFile(filepath.Join(out, name), []byte(text), 0o600))
		owned(t, filepath.Join(out, name))
	}
	r, err := b.StagedOutput(t.Context(), l.ID)
	must(t, err)
	if _, err := r.Changes(t.Context()); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "only 1 KiB of the 3 KiB of it came back") {
		t.Errorf("changes: %v", err)
	}
	must(t, os.Truncate(filepath.Join(out, "changes.pack"), 3072))
	changes, err := r.Changes(t.Context())
	must(t, err)
	defer changes.Close()
	if n, err := io.Copy(io.Discard, changes); n != 3072 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}
