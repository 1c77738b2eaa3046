package transfer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"slipway/images/registry/registrytest"
	"slipway/internal/testenv"
)

// referenceRegistry starts the reference registry, and gives a proxy to it that breaks connections as the other
// registries' do.
func referenceRegistry(t *testing.T) http.Handler {
	t.Helper()
	testenv.Need(t, testenv.Registry)
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := l.Addr().String()
	l.Close()
	file := filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nstorage: {filesystem: {rootdirectory: %q}}\nhttp: {addr: %q}\nlog: {level: error}\n", dir, host)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	registry := testenv.Start(t, exec.Command("docker-registry", "serve", file))
	registry.Until("it answers", func() bool {
		resp, err := http.Get("http://" + host + "/v2/")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	})
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: host})
			r.Out.Host = r.In.Host // the registry gives addresses of where it is asked
		},
		ErrorLog:     log.New(io.Discard, "", 0),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	return proxy
}

// TestReferenceRegistry pushes through faults, and pulls. This registry goes on after a chunk that it did not get; one
// that broke half-way, or whose answer was lost, it cannot go on from, so that blob is sent anew.
func TestReferenceRegistry(t *testing.T) {
	const size = 4 << 20
	tests := map[string]struct {
		rule rule
		most int64 // bytes that may be sent in vain
	}{
		"a chunk is refused": {rule{match: "PATCH ", skip: 2, times: 2, harm: status(503)}, 2<<20 + 100},
		// The registry may be asked how far it came before it has noticed the break: it then refuses the next chunk.
		"a chunk breaks":              {rule{match: "PATCH ", skip: 1, times: 1, harm: cutRequest(300 << 10)}, 3<<20 + 100},
		"a chunk's answer is lost":    {rule{match: "PATCH ", skip: 1, times: 1, harm: lost}, 2<<20 + 100},
		"the end's answer is lost":    {rule{match: "PUT /v2/alice/ana/blobs", times: 1, harm: lost}, 100},
		"a download breaks":           {rule{match: "GET /v2/alice/ana/blobs/sha256", times: 3, harm: cutAnswer(100 << 10)}, 100},
		"a document's answer is lost": {rule{match: "PUT /v2/alice/ana/manifests", times: 1, harm: lost}, 100},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f, host := serve(t, referenceRegistry(t), &tt.rule)
			c, _ := client(t, nil)
			base := noise(50, 1000)
			want, env := environment(1, base, size)
			pushed, err := c.Push(context.Background(), reference(t, host, "alice/ana:v1"), env, nil)
			if err != nil {
				t.Fatal(err)
			}
			if extra := pushed.Sent - size - 1000; extra > tt.most {
				t.Errorf("%d bytes were sent in vain", extra)
			}
			got := pull(t, c, reference(t, host, "alice/ana:v1"), want)
			if len(got.Provenance) != 1 || !bytes.Equal(got.Provenance[0], env.Provenance) {
				t.Errorf("provenance %q", got.Provenance)
			}
			f.passed()
			_, second := environment(2, base, 2<<20)
			if _, err := c.Push(context.Background(), reference(t, host, "alice/ana:v2"), second, nil); err != nil {
				t.Fatal(err)
			}
			if n := f.passed(); n > 2<<20*105/100 || tt.rule.times > 0 {
				t.Errorf("the second moved %d bytes; %d faults were not met", n, tt.rule.times)
			}
		})
	}
}

// TestApptainerRunsFromTheReferenceRegistry is the way of most sites.
func TestApptainerRunsFromTheReferenceRegistry(t *testing.T) {
	sif := registrytest.SIF(t, "shipped")
	_, host := serve(t, referenceRegistry(t))
	c, _ := client(t, nil)
	want, env := environment(1, noise(50, 1000), 1000)
	want.sif, env.Architecture = sif, runtime.GOARCH
	env.SIF = want.file()
	if _, err := c.Push(context.Background(), reference(t, host, "alice/ana:v1"), env, nil); err != nil {
		t.Fatal(err)
	}
	if out := registrytest.Apptainer(t, t.TempDir(), nil, "exec", "--no-https", "oras://"+host+"/alice/ana:v1", "cat", "/greeting"); out != "shipped" {
		t.Errorf("exec says %q", out)
	}
}
