package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	memory "github.com/google/go-containerregistry/pkg/registry"
	spec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway/images/blob"
	"slipway/images/oci"
	"slipway/images/registry/registrytest"
	"slipway/internal/errs"
)

// noise returns bytes that nobody can compress.
func noise(seed byte, size int) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data)
	return data
}

// parts are the contents of an environment.
type parts struct{ config, base, tail, sif []byte }

// environment makes one over a base, and gives what is pushed.
func environment(seed byte, base []byte, tailSize int) (parts, Environment) {
	p := parts{config: fmt.Appendf(nil, `{"format":2,"seed":%d}`, seed), base: base, tail: noise(seed, tailSize), sif: noise(seed+100, tailSize+len(base))}
	return p, Environment{Document: p.document(), Architecture: "amd64", Blob: p.open, Provenance: fmt.Appendf(nil, `{"payload":"%d"}`, seed)}
}

func (p parts) document() []byte {
	m := spec.Manifest{
		MediaType: oci.TypeManifest, ArtifactType: oci.TypeEnvironment, Config: oci.Describe("application/vnd.slipway.manifest.v1+json", p.config),
		Layers: []oci.Descriptor{oci.Describe("application/vnd.slipway.base.v1.squashfs", p.base), oci.Describe("application/vnd.slipway.tail.v1", p.tail)},
	}
	m.SchemaVersion = 2
	return mustJSON(m)
}

func (p parts) open(_ context.Context, d oci.Descriptor) (blob.Blob, error) {
	for _, data := range [][]byte{p.config, p.base, p.tail} {
		if blob.Digest(data) == d.Digest.String() {
			return blob.Bytes(data), nil
		}
	}
	return nil, errs.New(errs.NotFound, "no part %s", d.Digest)
}

func (p parts) file() *File {
	return &File{Digest: blob.Digest(p.sif), Size: int64(len(p.sif)), Open: func() (blob.Blob, error) { return blob.Bytes(p.sif), nil }}
}

// front stands before a registry, counts what passes, and does harm where a rule says so.
type front struct {
	next  http.Handler
	mu    sync.Mutex
	in    int64 // bytes of bodies that clients sent
	out   int64 // bytes of bodies that they got
	seen  []string
	rules []*rule
}

// rule is one harm. It is done to the requests whose "METHOD path" holds match, after the first skip of them, times
// times.
type rule struct {
	match       string
	skip, times int
	harm        func(w http.ResponseWriter, r *http.Request, next http.Handler)
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = io.NopCloser(io.TeeReader(r.Body, adder{f, &f.in}))
	harm := f.choose(r.Method + " " + r.URL.Path)
	w = &tee{ResponseWriter: w, out: adder{f, &f.out}}
	if harm == nil {
		f.next.ServeHTTP(w, r)
		return
	}
	harm(w, r, f.next)
}

func (f *front) choose(request string) func(http.ResponseWriter, *http.Request, http.Handler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, request)
	for _, rule := range f.rules {
		if !strings.Contains(request, rule.match) || rule.times == 0 {
			continue
		}
		if rule.skip > 0 {
			rule.skip--
			continue
		}
		rule.times--
		return rule.harm
	}
	return nil
}

// count tells how many requests hold some text.
func (f *front) count(match string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, request := range f.seen {
		if strings.Contains(request, match) {
			n++
		}
	}
	return n
}

// passed returns the bytes of all bodies, and forgets them.
func (f *front) passed() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.in + f.out
	f.in, f.out = 0, 0
	return n
}

type adder struct {
	f *front
	n *int64
}

func (a adder) Write(p []byte) (int, error) {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	*a.n += int64(len(p))
	return len(p), nil
}

type tee struct {
	http.ResponseWriter
	out io.Writer
}

func (t *tee) Write(p []byte) (int, error) {
	n, err := t.ResponseWriter.Write(p)
	_, _ = t.out.Write(p[:n])
	return n, err
}

func (t *tee) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// The harms.

func status(code int, header ...string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

// cutRequest lets the registry have the first n bytes of a body, and breaks the connection.
func cutRequest(n int64) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.Body = io.NopCloser(io.MultiReader(io.LimitReader(r.Body, n), broken0{}))
		next.ServeHTTP(&tee{ResponseWriter: discard{}, out: io.Discard}, r)
		panic(http.ErrAbortHandler)
	}
}

type broken0 struct{}

func (broken0) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}

// lost lets the registry do all, and breaks the connection before its answer.
func lost(_ http.ResponseWriter, r *http.Request, next http.Handler) {
	next.ServeHTTP(discard{}, r)
	panic(http.ErrAbortHandler)
}

// cutAnswer breaks the connection after n bytes of the answer.
func cutAnswer(n int) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) { next.ServeHTTP(&cutter{w, n}, r) }
}

type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	n, _ := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	if c.left -= n; c.left == 0 {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

func (c *cutter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// wrong changes one byte of the answer.
func wrong(w http.ResponseWriter, r *http.Request, next http.Handler) { next.ServeHTTP(&flipper{w}, r) }

type flipper struct{ http.ResponseWriter }

func (f *flipper) Write(p []byte) (int, error) {
	p = bytes.Clone(p)
	p[len(p)/2] ^= 1
	return f.ResponseWriter.Write(p)
}

// serve puts a front before a registry and gives its host.
func serve(t testing.TB, next http.Handler, rules ...*rule) (*front, string) {
	f := &front{next: next, rules: rules}
	return f, registrytest.Serve(t, f)
}

func inMemory() http.Handler { return memory.New(memory.Logger(log.New(io.Discard, "", 0))) }

// client makes one that does not really wait; waits has what it would have waited.
func client(t testing.TB, change func(*Config)) (c *Client, waits func() []time.Duration) {
	cfg := Config{Plain: func(string) bool { return true }, Chunk: 1 << 20, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if change != nil {
		change(&cfg)
	}
	c = New(cfg)
	var mu sync.Mutex
	var list []time.Duration
	c.wait = func(ctx context.Context, d time.Duration) error {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, d)
		return ctx.Err()
	}
	return c, func() []time.Duration { mu.Lock(); defer mu.Unlock(); return list }
}

func reference(t testing.TB, host, rest string) Reference {
	t.Helper()
	r, err := ParseReference("from", host+"/"+rest)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// chunked is a registry that takes chunks, keeps what arrived of a broken one, and says how much that is, as the
// specification has it. It knows one repository and only blobs; the rest goes to next.
type chunked struct {
	next  http.Handler
	mu    sync.Mutex
	parts map[string][]byte
	count int
}

func (c *chunked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	base, id, ok := strings.Cut(r.URL.Path, "/blobs/uploads/")
	if !ok {
		c.next.ServeHTTP(w, r)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Method == http.MethodPost {
		c.count++
		id = strconv.Itoa(c.count)
		c.parts[id] = nil
	}
	have, known := c.parts[id]
	w.Header().Set("Location", base+"/blobs/uploads/"+id)
	w.Header().Set("Range", fmt.Sprintf("0-%d", max(0, len(have)-1)))
	switch {
	case !known:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodPost:
		w.WriteHeader(http.StatusAccepted)
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPatch:
		if from, _, _ := strings.Cut(r.Header.Get("Content-Range"), "-"); from != strconv.Itoa(len(have)) {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		data, _ := io.ReadAll(r.Body)
		c.parts[id] = append(have, data...)
		w.WriteHeader(http.StatusAccepted)
	case r.Method == http.MethodPut:
		data, _ := io.ReadAll(r.Body)
		c.put(w, r, base, append(have, data...))
	}
}

// put hands a complete blob on, in one piece.
func (c *chunked) put(w http.ResponseWriter, r *http.Request, base string, data []byte) {
	q, err := http.NewRequest(http.MethodPost, base+"/blobs/uploads/?digest="+r.URL.Query().Get("digest"), bytes.NewReader(data))
	if err != nil {
		panic(errors.Join(errors.New("test registry"), err))
	}
	c.next.ServeHTTP(w, q)
}
