package docker

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// shop is a registry on this machine, as slow and as faulty as a test wants it. Engines need no certificate of such a
// one.
type shop struct {
	*httptest.Server
	stock http.Handler // the registry itself

	mu    sync.Mutex // guards all below
	pause time.Duration
	fault func(w http.ResponseWriter, r *http.Request) bool // answers in the registry's place when it reports true
	asked map[string]int                                    // GETs by path
	under int                                               // blobs that are being sent
}

func newShop(t *testing.T) *shop {
	s := &shop{stock: registry.New(registry.Logger(log.New(io.Discard, "", 0))), asked: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// set changes how the shop behaves.
func (s *shop) set(pause time.Duration, fault func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pause, s.fault, s.asked = pause, fault, map[string]int{}
}

// gets counts the GETs of paths that hold a word, in all and at most of one path.
func (s *shop) gets(word string) (all, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, n := range s.asked {
		if strings.Contains(path, word) {
			all, most = all+n, max(most, n)
		}
	}
	return all, most
}

// busy is how many blobs are being sent.
func (s *shop) busy() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.under
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	blob := strings.Contains(r.URL.Path, "/blobs/") && r.Method == http.MethodGet
	s.mu.Lock()
	pause, fault := s.pause, s.fault
	if r.Method == http.MethodGet {
		s.asked[r.URL.Path]++
	}
	if blob {
		s.under++
	}
	s.mu.Unlock()
	if fault == nil || !fault(w, r) {
		s.stock.ServeHTTP(slow{w, pause}, r)
	}
	if blob {
		s.mu.Lock()
		s.under--
		s.mu.Unlock()
	}
}

// slow writes 64 KiB at a time and pauses after each.
type slow struct {
	http.ResponseWriter
	pause time.Duration
}

func (s slow) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		chunk := p[:min(len(p), 64<<10)]
		var some int
		some, err = s.ResponseWriter.Write(chunk)
		n, p = n+some, p[len(chunk):]
		if s.pause > 0 {
			<-time.After(s.pause)
		}
	}
	return n, err
}

// push puts an image of the given layers, which are archives, into the shop, and returns its reference.
func (s *shop) push(t *testing.T, name string, layers ...[]byte) string {
	t.Helper()
	type descriptor struct {
		MediaType string `json:"mediaType"`
		Size      int    `json:"size"`
		Digest    string `json:"digest"`
	}
	const docker = "application/vnd.docker."
	var packed []descriptor
	var unpacked []string
	for _, layer := range layers {
		var z bytes.Buffer
		w, _ := gzip.NewWriterLevel(&z, gzip.BestSpeed)
		if _, err := w.Write(layer); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		packed = append(packed, descriptor{docker + "image.rootfs.diff.tar.gzip", z.Len(), s.blob(t, name, z.Bytes())})
		unpacked = append(unpacked, digest(layer))
	}
	config := encode(t, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{}, "rootfs": map[string]any{"type": "layers", "diff_ids": unpacked},
	})
	manifest := encode(t, map[string]any{
		"schemaVersion": 2, "mediaType": docker + "distribution.manifest.v2+json", "layers": packed,
		"config": descriptor{docker + "container.image.v1+json", len(config), s.blob(t, name, config)},
	})
	s.put(t, http.MethodPut, "/v2/"+name+"/manifests/1", docker+"distribution.manifest.v2+json", manifest)
	return strings.TrimPrefix(s.URL, "http://") + "/" + name + ":1"
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func digest(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

func (s *shop) blob(t *testing.T, name string, b []byte) string {
	t.Helper()
	s.put(t, http.MethodPost, "/v2/"+name+"/blobs/uploads/?digest="+digest(b), "application/octet-stream", b)
	return digest(b)
}

// put asks the registry itself.
func (s *shop) put(t *testing.T, method, path, mediaType string, body []byte) {
	t.Helper()
	r := httptest.NewRequest(method, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", mediaType)
	w := httptest.NewRecorder()
	s.stock.ServeHTTP(w, r)
	if w.Code != http.StatusCreated {
		t.Fatalf("%s %s = %d %s", method, path, w.Code, w.Body)
	}
}

// noise is an archive of one file that cannot be packed, and that no engine has seen before.
func noise(t *testing.T, size int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "noise", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(size)}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(w, rand.Reader, int64(size)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
