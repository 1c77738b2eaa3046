package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/images/blob"
	"slipway/images/oci"
	"slipway/internal/errs"
	"slipway/internal/secret"
)

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// pull gets an environment back, and makes sure that it is what was pushed.
func pull(t *testing.T, c *Client, ref Reference, want parts, have ...[]byte) Pulled {
	t.Helper()
	got, err := c.Pull(context.Background(), ref, Into{Dir: t.TempDir(), Architecture: "amd64", Have: func(d oci.Descriptor) bool {
		return slices.ContainsFunc(have, func(data []byte) bool { return blob.Digest(data) == d.Digest.String() })
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Document, want.document()) || got.Digest != blob.Digest(want.document()) {
		t.Errorf("the document is %s", got.Document)
	}
	for _, data := range [][]byte{want.config, want.base, want.tail} {
		path, ok := got.Files[blob.Digest(data)]
		if known := slices.ContainsFunc(have, func(h []byte) bool { return bytes.Equal(h, data) }); known == ok {
			t.Errorf("content that is here: %v, received: %v", known, ok)
		} else if ok && !bytes.Equal(read(t, path), data) {
			t.Errorf("%s holds something else", path)
		}
	}
	return got
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestPushAndPull(t *testing.T) {
	ctx := context.Background()
	_, host := serve(t, inMemory())
	c, _ := client(t, nil)
	ref := reference(t, host, "alice/ana:v1")
	want, env := environment(1, noise(50, 3<<20), 1<<20+7)
	env.SIF = want.file()
	var last Progress
	pushed, err := c.Push(ctx, ref, env, func(p Progress) {
		if p.Done < 0 || p.Done > p.Total || p.Moved < last.Moved {
			t.Errorf("progress %+v after %+v", p, last)
		}
		last = p
	})
	if err != nil {
		t.Fatal(err)
	}
	all := int64(len(want.config)+len(want.base)+len(want.tail)+len(want.sif)+len(env.Provenance)) + 2
	if pushed.Environment != blob.Digest(env.Document) || pushed.Sent != all || last.Done != all || last.Total != all {
		t.Errorf("%+v, %+v; want %d bytes", pushed, last, all)
	}
	got := pull(t, c, ref, want)
	if len(got.Provenance) != 1 || !bytes.Equal(got.Provenance[0], env.Provenance) {
		t.Errorf("provenance %q", got.Provenance)
	}
	pull(t, c, ref, want, want.base)
	pull(t, c, Reference{Host: host, Repository: ref.Repository, Digest: pushed.Environment}, want)
	pull(t, c, Reference{Host: host, Repository: ref.Repository, Digest: blob.Digest(oci.SIF(pushed.Environment, env.SIF.Digest, env.SIF.Size))}, want)

	env.SIF = nil // once more, without: what is there stays, and nothing travels
	again, err := c.Push(ctx, ref, env, nil)
	if err != nil || again.Index != pushed.Index || again.Sent != 0 {
		t.Errorf("%+v, %v; the first time %+v", again, err, pushed)
	}
}

func TestATagHasAnEntryForEachArchitecture(t *testing.T) {
	ctx := context.Background()
	_, host := serve(t, inMemory())
	c, _ := client(t, nil)
	ref := reference(t, host, "alice/ana:v1")
	base := noise(50, 1000)
	for _, step := range []struct {
		seed         byte
		architecture string
		sif          bool
	}{{1, "arm64", true}, {2, "amd64", true}, {3, "amd64", false}} {
		p, env := environment(step.seed, base, 1000)
		if env.Architecture = step.architecture; step.sif {
			env.SIF = p.file()
		}
		if _, err := c.Push(ctx, ref, env, nil); err != nil {
			t.Fatal(err)
		}
	}
	third, _ := environment(3, base, 1000)
	pull(t, c, ref, third)
	_, p := c.open(ctx, ref, nil)
	_, m, err := p.get(ctx, "v1")
	if err != nil {
		t.Fatal(err)
	}
	images := m.Images()
	if len(images) != 2 || images[0].SIF != nil || images[1].SIF == nil { // the SIF of the second must not stand beside the third
		t.Errorf("%+v", images)
	}
	_, err = c.Pull(ctx, ref, Into{Dir: t.TempDir(), Architecture: "ppc64le"}, nil)
	if !errs.Is(err, errs.NotFound) || !strings.Contains(err.Error(), `"arm64"`) {
		t.Errorf("an architecture that is not there: %v", err)
	}
}

// TestTheSecondEnvironmentOfABaseMovesItsTail counts every byte of every body on the wire.
func TestTheSecondEnvironmentOfABaseMovesItsTail(t *testing.T) {
	ctx := context.Background()
	f, host := serve(t, inMemory())
	c, _ := client(t, nil)
	base := noise(50, 8<<20)
	_, first := environment(1, base, 2<<20)
	_, second := environment(2, base, 2<<20)
	if _, err := c.Push(ctx, reference(t, host, "alice/ana:v1"), first, nil); err != nil {
		t.Fatal(err)
	}
	if n := f.passed(); n < 10<<20 {
		t.Errorf("the first moved %d bytes", n)
	}
	if _, err := c.Push(ctx, reference(t, host, "alice/ana:v2"), second, nil); err != nil {
		t.Fatal(err)
	}
	if n := f.passed(); n < 2<<20 || n > 2<<20*105/100 {
		t.Errorf("the second moved %d bytes; its tail has %d", n, 2<<20)
	}
}

func TestABaseComesFromAnotherRepositoryOfTheRegistry(t *testing.T) {
	ctx := context.Background()
	f, host := serve(t, inMemory())
	c, _ := client(t, nil)
	base := noise(50, 4<<20)
	_, first := environment(1, base, 1000)
	if _, err := c.Push(ctx, reference(t, host, "alice/ana:v1"), first, nil); err != nil {
		t.Fatal(err)
	}
	f.passed()
	want, second := environment(2, base, 1000)
	second.From = "alice/ana"
	if _, err := c.Push(ctx, reference(t, host, "bob/other:v1"), second, nil); err != nil {
		t.Fatal(err)
	}
	if n := f.passed(); n > 20000 {
		t.Errorf("%d bytes moved", n)
	}
	pull(t, c, reference(t, host, "bob/other:v1"), want)
}

// TestPushWithstandsFaults does each harm to a push whose tail goes in three chunks.
func TestPushWithstandsFaults(t *testing.T) {
	tests := map[string]struct {
		rule  rule
		plain bool  // a registry without resumption
		most  int64 // bytes of the tail's size that may go more than once
	}{
		"500 to the question":           {rule: rule{match: "HEAD ", times: 2, harm: status(500)}},
		"503 to the beginning":          {rule: rule{match: "POST ", times: 2, harm: status(503)}},
		"chunk broken in the middle":    {rule: rule{match: "PATCH ", skip: 1, times: 1, harm: cutRequest(300 << 10)}, most: 800 << 10},
		"chunks broken again and again": {rule: rule{match: "PATCH ", times: 5, harm: cutRequest(400 << 10)}, most: 5 * 700 << 10},
		"answer to a chunk is lost":     {rule: rule{match: "PATCH ", skip: 1, times: 1, harm: lost}},
		"500 in the middle of a blob":   {rule: rule{match: "PATCH ", skip: 2, times: 2, harm: status(500)}, most: 2 << 20},
		"429 in the middle of a blob":   {rule: rule{match: "PATCH ", skip: 1, times: 1, harm: status(429, "Retry-After", "7")}, most: 1 << 20},
		"session lost":                  {rule: rule{match: "PATCH ", skip: 1, times: 1, harm: status(404)}, most: 1 << 20},
		"no chunks taken":               {rule: rule{match: "PATCH ", times: -1, harm: status(405)}, most: 1 << 20},
		"answer to the end is lost":     {rule: rule{match: "PUT /v2/alice/ana/blobs", times: 1, harm: lost}},
		"end refused":                   {rule: rule{match: "PUT /v2/alice/ana/blobs", times: 2, harm: status(502)}, most: 2000},
		"document refused":              {rule: rule{match: "PUT /v2/alice/ana/manifests", times: 3, harm: status(503)}},
		"answer to the document lost":   {rule: rule{match: "PUT /v2/alice/ana/manifests", times: 1, harm: lost}},
		"plain: broken in the middle":   {rule: rule{match: "PATCH ", skip: 1, times: 1, harm: cutRequest(300 << 10)}, plain: true, most: 3 << 20},
		"plain: answer to the end lost": {rule: rule{match: "PUT /v2/alice/ana/blobs", times: 1, harm: lost}, plain: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			next := inMemory()
			if !tt.plain {
				next = &chunked{next: next, parts: map[string][]byte{}}
			}
			f, host := serve(t, next, &tt.rule)
			c, waits := client(t, nil)
			want, env := environment(1, noise(50, 1000), 3<<20)
			pushed, err := c.Push(context.Background(), reference(t, host, "alice/ana:v1"), env, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tt.rule.times > 0 {
				t.Errorf("the fault was not met: %q", f.seen)
			}
			if extra := pushed.Sent - 3<<20 - 2000; extra > tt.most {
				t.Errorf("%d bytes were sent in vain", extra)
			}
			if strings.HasPrefix(name, "429") && !slices.Equal(waits(), []time.Duration{7 * time.Second}) {
				t.Errorf("waited %v", waits())
			}
			pull(t, c, reference(t, host, "alice/ana:v1"), want)
		})
	}
}

func TestPushGivesUp(t *testing.T) {
	tests := map[string]struct {
		rule rule
		kind errs.Kind
		text string
	}{
		"registry down":      {rule{match: "HEAD ", times: -1, harm: status(503)}, errs.Unavailable, "tried 6 times"},
		"forbidden":          {rule{match: "POST ", times: -1, harm: status(403)}, errs.Forbidden, "log in"},
		"full":               {rule{match: "POST ", times: -1, harm: status(413)}, errs.OverQuota, "413"},
		"come next week":     {rule{match: "POST ", times: -1, harm: status(429, "Retry-After", "604800")}, errs.Unavailable, "168h"},
		"the wrong server":   {rule{match: "POST ", times: -1, harm: status(202, "Location", "http://elsewhere.example/x")}, errs.Invalid, "another server"},
		"no server":          {rule{match: "POST ", times: -1, harm: status(202)}, errs.Invalid, "where to send"},
		"another digest":     {rule{match: "PUT /v2/alice/ana/manifests", times: -1, harm: status(201, "Docker-Content-Digest", blob.Digest(nil))}, errs.Invalid, "took"},
		"upload always cut":  {rule{match: "PATCH ", times: -1, harm: cutRequest(0)}, errs.Unavailable, "tried 6 times"},
		"refused at the end": {rule{match: "PUT /v2/alice/ana/blobs", times: -1, harm: status(400)}, errs.Invalid, "400"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f, host := serve(t, &chunked{next: inMemory(), parts: map[string][]byte{}}, &tt.rule)
			c, _ := client(t, nil)
			_, env := environment(1, noise(50, 1000), 3<<20)
			_, err := c.Push(context.Background(), reference(t, host, "alice/ana:v1"), env, nil)
			if !errs.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v: %v", errs.KindOf(err), err)
			}
			if f.count("PUT /v2/alice/ana/manifests/v1") > 0 {
				t.Error("the tag was set")
			}
		})
	}
}

func TestPushRefusesWhatIsNoEnvironment(t *testing.T) {
	f, host := serve(t, inMemory())
	c, _ := client(t, nil)
	ctx, ref := context.Background(), reference(t, host, "alice/ana:v1")
	want, env := environment(1, noise(50, 1000), 1000)
	for name, bad := range map[string]Environment{
		"nothing": {}, "a SIF": {Document: oci.SIF("x", blob.Digest(nil), 1)}, "an index": {Document: oci.Index(nil)},
	} {
		if _, err := c.Push(ctx, ref, bad, nil); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Push(ctx, Reference{Host: host, Repository: "alice/ana", Digest: blob.Digest(nil)}, env, nil); !errs.Is(err, errs.Invalid) {
		t.Errorf("to a digest: %v", err)
	}
	want.tail = append(want.tail, 'x') // the content has changed under the document
	env.Blob = func(_ context.Context, d oci.Descriptor) (blob.Blob, error) { return blob.Bytes(want.tail), nil }
	if _, err := c.Push(ctx, ref, env, nil); err == nil || f.count("manifests/") > 0 {
		t.Errorf("content of another size: %v", err)
	}
	env.Blob = func(context.Context, oci.Descriptor) (blob.Blob, error) { return nil, errors.New("the disk is gone") }
	if _, err := c.Push(ctx, ref, env, nil); err == nil || !strings.Contains(err.Error(), "the disk") {
		t.Errorf("content that is gone: %v", err)
	}
}

// guarded lets in who has the password that is valid now.
type guarded struct {
	next     http.Handler
	password func() string
}

func (g guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, given, _ := r.BasicAuth(); given != g.password() {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	g.next.ServeHTTP(w, r)
}

// TestTheCredentialIsAskedForAgain lets the password change in the middle of a push and of a pull.
func TestTheCredentialIsAskedForAgain(t *testing.T) {
	passwords := []string{"one", "two", "three"}
	at, requests, asked := 0, 0, 0
	valid := func() string {
		if requests++; requests%9 == 8 && at < 2 {
			at++
		}
		return passwords[at]
	}
	_, host := serve(t, guarded{&chunked{next: inMemory(), parts: map[string][]byte{}}, valid})
	c, waits := client(t, func(cfg *Config) {
		cfg.Credential = func(_ context.Context, for1 string) (Credential, error) {
			if asked++; for1 != host {
				t.Errorf("asked for %q", for1)
			}
			return Credential{Username: "alice", Password: secret.New(passwords[at])}, nil
		}
	})
	want, env := environment(1, noise(50, 1000), 3<<20)
	if _, err := c.Push(context.Background(), reference(t, host, "alice/ana:v1"), env, nil); err != nil {
		t.Fatal(err)
	}
	pull(t, c, reference(t, host, "alice/ana:v1"), want)
	if asked < 3 || at != 2 || len(waits()) > 0 {
		t.Errorf("asked %d times for %d passwords, waited %v", asked, at+1, waits())
	}
	nobody, _ := client(t, nil)
	_, err := nobody.Push(context.Background(), reference(t, host, "alice/ana:v1"), env, nil)
	if !errs.Is(err, errs.Forbidden) || !strings.Contains(err.Error(), "log in") {
		t.Errorf("without one: %v", err)
	}
}

// tokens is a registry with a token service whose tokens are good for a few requests.
type tokens struct {
	next         http.Handler
	left, issued int
	asked        []string // what tokens were for
}

func (s *tokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := fmt.Sprintf("token%d", s.issued)
	switch _, password, _ := r.BasicAuth(); {
	case r.URL.Path == "/token" && password != "hunter2":
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/token":
		s.issued++
		s.left, s.asked = 5, r.URL.Query()["scope"]
		fmt.Fprintf(w, `{"token":"token%d"}`, s.issued)
	case s.left == 0 || r.Header.Get("Authorization") != "Bearer "+now:
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="test",scope="repository:alice/ana:pull,push"`)
		w.WriteHeader(http.StatusUnauthorized)
	default:
		s.left--
		s.next.ServeHTTP(w, r)
	}
}

func TestTokensThatExpire(t *testing.T) {
	s := &tokens{next: &chunked{next: inMemory(), parts: map[string][]byte{}}}
	_, host := serve(t, s)
	login := func(password string) *Client {
		c, _ := client(t, func(cfg *Config) {
			cfg.Credential = Static(host, Credential{Username: "alice", Password: secret.New(password)})
		})
		return c
	}
	want, env := environment(1, noise(50, 1000), 6<<20)
	if _, err := login("hunter2").Push(context.Background(), reference(t, host, "alice/ana:v1"), env, nil); err != nil {
		t.Fatal(err)
	}
	if s.issued < 3 || !slices.Equal(s.asked, []string{"repository:alice/ana:pull,push"}) {
		t.Errorf("%d tokens, the last for %q", s.issued, s.asked)
	}
	pull(t, login("hunter2"), reference(t, host, "alice/ana:v1"), want)
	_, err := login("guessed").Push(context.Background(), reference(t, host, "alice/ana:v1"), env, nil)
	if !errs.Is(err, errs.Forbidden) || strings.Contains(err.Error(), "guessed") {
		t.Errorf("a wrong password: %v", err)
	}
}
