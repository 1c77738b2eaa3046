package hubapi

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway/internal/errs"
)

// TestAnExportGoesOnWhereItBroke: and is compared with the digest that the service tells.
func TestAnExportGoesOnWhereItBroke(t *testing.T) {
	content := []byte(strings.Repeat("0123456789", 1000))
	for name, tc := range map[string]struct {
		tag  string // by default the right one
		kind errs.Kind
	}{"right": {}, "another file": {tag: `"sha256:0"`, kind: errs.Invalid}} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
				tag := tc.tag
				if tag == "" {
					tag = fmt.Sprintf(`"sha256:%x"`, sha256.Sum256(content))
				}
				w.Header().Set("Etag", tag)
				w.Header().Set(EnvironmentHeader, "sha256:e")
				if tries++; tries == 1 {
					w.Header().Set("Content-Length", "10000")
					_, _ = w.Write(content[:4321])
					return
				}
				if r.Header.Get("Range") != "bytes=4321-" {
					t.Errorf("asked for %q", r.Header.Get("Range"))
				}
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
			})
			var out bytes.Buffer
			done, err := c.ExportEnvironment(t.Context(), "ana", ExportSIF, &out)
			if want := (Exported{"sha256:e", fmt.Sprintf("sha256:%x", sha256.Sum256(content)), int64(len(content))}); done != want {
				t.Errorf("it says %+v, not %+v", done, want)
			}
			if errs.KindOf(err) != tc.kind && err != nil || (err == nil) != (tc.kind == 0) || !bytes.Equal(out.Bytes(), content) || tries != 2 {
				t.Errorf("%d bytes after %d tries, %v", out.Len(), tries, err)
			}
		})
	}
}

// TestABrokenExportThatCannotGoOnIsNoWhole: what is made anew each time is not pieced together.
func TestABrokenExportThatCannotGoOnIsNoWhole(t *testing.T) {
	for name, tag := range map[string]string{"made anew": "", "changed": `"sha256:0"`} {
		c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
			if tag != "" {
				w.Header().Set("Etag", tag)
			}
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "half")
		})
		var out bytes.Buffer
		if _, err := c.ExportEnvironment(t.Context(), "ana", ExportOCI, &out); !errs.Is(err, errs.Conflict) || out.String() != "half" {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
	}
}
