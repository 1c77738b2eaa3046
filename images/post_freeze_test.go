package images

import (
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"slipway/images/sif"
	"slipway/images/signing"
)

func withKeys(t *testing.T) *signing.Keys {
	t.Helper()
	keys, err := signing.New(signing.Config{Dir: t.TempDir() + "/keys", Now: time.Now, Log: slog.New(slog.DiscardHandler), Site: "here"})
	must(t, err)
	return keys
}

// TestSignedWhileItRuns: whoever wants an image while it is signed gets it, and it is signed once.
func TestSignedWhileItRuns(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(nastyChanges)
	l := openLibrary(t, Config{Dir: t.TempDir() + "/l", Keys: withKeys(t), Version: "1"})
	e := freeze(t, l, f, func(r *Request) { r.Name, r.Kind, r.User = "ana", "lab", "alice" })
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := l.About(t.Context(), e.Digest); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			for range 20 {
				if _, err := l.Ready(t.Context(), e.Digest); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	st, err := os.Stat(l.dir.Image(e.Digest))
	must(t, err)
	file, err := os.Open(l.dir.Image(e.Digest))
	must(t, err)
	defer file.Close()
	image, err := sif.Open(file, st.Size())
	if must(t, err); len(image.Signatures) != 1 {
		t.Errorf("%d signatures", len(image.Signatures))
	}
	v, err := l.Verify(t.Context(), e.Digest)
	must(t, err)
	if len(v.Signers) != 1 || len(v.Stated) != 1 || v.Stated[0].User != "alice" || v.Stated[0].Session != "s1" || v.Stated[0].Names[0] != "ana" || !v.Stated[0].Key.Own() {
		t.Errorf("%+v", v)
	}
	about, err := l.About(t.Context(), e.Digest)
	if must(t, err); about.SIF.Size != st.Size() || about.SIF != v.SIF || len(about.Signers) != 1 {
		t.Errorf("%+v, want the file of %d bytes", about.SIF, st.Size())
	}
}
