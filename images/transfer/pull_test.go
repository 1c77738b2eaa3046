package transfer

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/images/blob"
	"slipway/images/oci"
	"slipway/images/registry/registrytest"
	"slipway/internal/errs"
)

// own serves an environment by the service's own registry.
func own(t *testing.T, p parts, env Environment) http.Handler {
	m := registrytest.New()
	for _, data := range [][]byte{p.config, p.base, p.tail, env.Provenance} {
		m.Add(data)
	}
	m.Add([]byte(oci.Empty))
	m.Tag("v1", "amd64", env.Document, p.sif)
	m.Document(oci.Referrer(oci.Describe(oci.TypeManifest, env.Document), oci.TypeProvenance, env.Provenance), "")
	return registrytest.Handler(t, "", map[string]*registrytest.Memory{"alice/ana": m})
}

// TestPullWithstandsFaults does each harm to a pull from the service's own registry.
func TestPullWithstandsFaults(t *testing.T) {
	const size = 3 << 20
	p, env := environment(1, noise(50, 1000), size)
	tail := "GET /v2/alice/ana/blobs/" + blob.Digest(p.tail)
	tests := map[string]struct {
		rules []*rule
		most  int64 // bytes that may be received more than once
	}{
		"nothing":                {},
		"500 to the document":    {rules: []*rule{{match: "/manifests/", times: 3, harm: status(500)}}},
		"document cut":           {rules: []*rule{{match: "/manifests/", times: 1, harm: cutAnswer(20)}}, most: 20},
		"500 to the blob":        {rules: []*rule{{match: tail, times: 2, harm: status(502)}}},
		"blob cut in the middle": {rules: []*rule{{match: tail, times: 1, harm: cutAnswer(size / 2)}}, most: 1 << 20},
		"cut again and again":    {rules: []*rule{{match: tail, times: 20, harm: cutAnswer(100 << 10)}}, most: 1 << 20},
		"range forgotten": {rules: []*rule{{match: tail, times: 1, harm: cutAnswer(size / 2)}, {match: tail, times: 1, harm: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			r.Header.Del("Range")
			next.ServeHTTP(w, r)
		}}}, most: size},
		"range refused":     {rules: []*rule{{match: tail, times: 1, harm: cutAnswer(size / 2)}, {match: tail, times: 1, harm: status(416)}}, most: size},
		"429":               {rules: []*rule{{match: tail, times: 1, harm: status(429, "Retry-After", "1")}}},
		"statements hidden": {rules: []*rule{{match: "/referrers/", times: 2, harm: status(500)}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f, host := serve(t, own(t, p, env), tt.rules...)
			c, _ := client(t, nil)
			got := pull(t, c, reference(t, host, "alice/ana:v1"), p)
			if len(got.Provenance) != 1 {
				t.Errorf("provenance %q", got.Provenance)
			}
			for _, r := range tt.rules {
				if r.times > 0 {
					t.Errorf("a fault was not met: %q", f.seen)
				}
			}
			if extra := f.passed() - size - 5000; extra > tt.most {
				t.Errorf("%d bytes were received in vain", extra)
			}
		})
	}
}

func TestPullRefuses(t *testing.T) {
	p, env := environment(1, noise(50, 1000), 2<<20)
	blobs := "GET /v2/alice/ana/blobs/"
	document := "GET /v2/alice/ana/manifests/sha256"
	big := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		_, _ = w.Write(make([]byte, oci.MaxManifest+100))
	}
	more := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(discard{}, r)
		_, _ = w.Write(make([]byte, 3<<20))
	}
	tests := map[string]struct {
		rule rule
		into Into
		ref  string
		kind errs.Kind
		text string
	}{
		"wrong bytes":          {rule: rule{match: blobs + blob.Digest(p.tail), times: -1, harm: wrong}, kind: errs.Invalid, text: "another digest"},
		"more than described":  {rule: rule{match: blobs + blob.Digest(p.tail), times: -1, harm: more}, kind: errs.Invalid, text: "more than"},
		"a changed document":   {rule: rule{match: document, times: -1, harm: wrong}, kind: errs.Invalid, text: "another digest"},
		"a document too large": {rule: rule{match: "manifests/v1", times: -1, harm: big}, kind: errs.Invalid, text: "bytes"},
		"no base anywhere":     {rule: rule{match: blobs + blob.Digest(p.base), times: -1, harm: status(404)}, kind: errs.NotFound, text: "vnd.slipway.base"},
		"no such tag":          {ref: "alice/ana:v9", kind: errs.NotFound, text: "v9"},
		"a stranger":           {ref: "bob/ana:v1", kind: errs.NotFound, text: "bob/ana"},
		"too large":            {into: Into{Limit: 1 << 20}, kind: errs.OverQuota, text: "1048576"},
		"a byte an attempt":    {rule: rule{match: blobs, times: -1, harm: cutAnswer(1)}, kind: errs.Unavailable, text: "tried"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, host := serve(t, own(t, p, env), &tt.rule)
			c, _ := client(t, func(cfg *Config) { cfg.Attempts = 3 })
			if tt.ref == "" {
				tt.ref = "alice/ana:v1"
			}
			tt.into.Dir, tt.into.Architecture = t.TempDir(), "amd64"
			got, err := c.Pull(context.Background(), reference(t, host, tt.ref), tt.into, nil)
			if !errs.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%+v, kind %v: %v", got, errs.KindOf(err), err)
			}
			if left, _ := filepath.Glob(filepath.Join(tt.into.Dir, "*"+partial)); tt.kind == errs.Invalid && len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

func TestPullOfWhatIsNoEnvironment(t *testing.T) {
	m := registrytest.New()
	m.Document(oci.SIF("not a digest", blob.Digest(nil), 1), "sif")
	m.Document(oci.Index(nil), "empty")
	m.Document(oci.Referrer(oci.Describe(oci.TypeManifest, nil), "text/plain", nil), "other")
	m.Document(oci.Index([]oci.Image{{Architecture: "amd64", Environment: oci.Describe(oci.TypeManifest, []byte("away"))}}), "away")
	_, host := serve(t, registrytest.Handler(t, "", map[string]*registrytest.Memory{"a/b": m}))
	c, _ := client(t, nil)
	for tag, kind := range map[string]errs.Kind{"sif": errs.Invalid, "empty": errs.NotFound, "other": errs.Invalid, "away": errs.NotFound} {
		if _, err := c.Pull(context.Background(), reference(t, host, "a/b:"+tag), Into{Dir: t.TempDir(), Architecture: "amd64"}, nil); !errs.Is(err, kind) {
			t.Errorf("%s: %v", tag, err)
		}
	}
}

// TestAPullThatWasKilledGoesOn cancels a pull in the middle of its tail.
func TestAPullThatWasKilledGoesOn(t *testing.T) {
	const size = 8 << 20
	p, env := environment(1, noise(50, 1000), size)
	f, host := serve(t, own(t, p, env))
	c, _ := client(t, nil)
	dir, ref := t.TempDir(), reference(t, host, "alice/ana:v1")
	ctx, cancel := context.WithCancel(context.Background())
	_, err := c.Pull(ctx, ref, Into{Dir: dir, Architecture: "amd64"}, func(now Progress) {
		if now.Done > size/2 {
			cancel()
		}
	})
	if err == nil {
		t.Fatal("it was not canceled")
	}
	part := filepath.Join(dir, strings.TrimPrefix(blob.Digest(p.tail), "sha256:")+partial)
	have := len(read(t, part))
	if have < size/4 || have >= size {
		t.Fatalf("%d bytes are there", have)
	}
	f.passed()
	got, err := c.Pull(context.Background(), ref, Into{Dir: dir, Architecture: "amd64"}, nil)
	if err != nil || !bytes.Equal(read(t, got.Files[blob.Digest(p.tail)]), p.tail) {
		t.Fatalf("%+v, %v", got, err)
	}
	// What was on its way when the first was canceled counts as well.
	if n := f.passed(); n > int64(size-have)+1<<20 {
		t.Errorf("%d bytes came, %d were missing", n, size-have)
	}

	again, err := c.Pull(context.Background(), ref, Into{Dir: dir, Architecture: "amd64"}, nil)
	if n := f.passed(); err != nil || n > 10000 || len(again.Files) != 3 {
		t.Errorf("with all there: %d bytes, %v", n, err)
	}
}

// TestAPartialFileThatWasDamagedIsReceivedAnew also makes it too long.
func TestAPartialFileThatWasDamagedIsReceivedAnew(t *testing.T) {
	p, env := environment(1, noise(50, 1000), 2<<20)
	_, host := serve(t, own(t, p, env))
	c, _ := client(t, nil)
	for name, left := range map[string][]byte{"damaged": make([]byte, 1<<20), "too long": make([]byte, 3<<20), "whole": p.tail, "damaged whole": make([]byte, 2<<20)} {
		dir := t.TempDir()
		path := filepath.Join(dir, strings.TrimPrefix(blob.Digest(p.tail), "sha256:"))
		if err := os.WriteFile(path+partial, left, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Pull(context.Background(), reference(t, host, "alice/ana:v1"), Into{Dir: dir, Architecture: "amd64"}, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !bytes.Equal(read(t, path), p.tail) {
			t.Errorf("%s: other bytes", name)
		}
	}
}

func TestTwoPullsOfOneBlob(t *testing.T) {
	dir := t.TempDir()
	f, err := lock(filepath.Join(dir, "x"+partial))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := lock(f.Name()); !errs.Is(err, errs.Conflict) {
		t.Errorf("%v", err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := lock(filepath.Join(dir, "link")); err == nil {
		t.Error("a link was followed")
	}
}

// TestWhatIsNotAdmittedIsNotReceived: the word comes before the way.
func TestWhatIsNotAdmittedIsNotReceived(t *testing.T) {
	p, env := environment(1, noise(50, 1000), 100<<10)
	f, host := serve(t, own(t, p, env))
	c, _ := client(t, nil)
	var document []byte
	var said [][]byte
	refused := errs.New(errs.Forbidden, "not here")
	into := Into{Dir: t.TempDir(), Architecture: "amd64", Admit: func(d []byte, provenance [][]byte) error {
		document, said = d, provenance
		return refused
	}}
	_, err := c.Pull(t.Context(), reference(t, host, "alice/ana:v1"), into, nil)
	if !errs.Is(err, errs.Forbidden) || !bytes.Equal(document, env.Document) || len(said) != 1 || !bytes.Equal(said[0], env.Provenance) {
		t.Errorf("asked with %q and %q, %v", document, said, err)
	}
	left, err := os.ReadDir(into.Dir)
	if err != nil || len(left) > 0 || f.passed() > 50<<10 {
		t.Errorf("left %v after %d bytes, %v", left, f.passed(), err)
	}
}
