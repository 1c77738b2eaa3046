package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/images/blob"
	"slipway/images/oci"
	"slipway/images/registry"
	"slipway/images/registry/registrytest"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

const token = "hunter2"

// content is a repository with an environment, its SIF and a statement about it.
func content() (m *registrytest.Memory, document, sif []byte) {
	m = registrytest.New()
	tail, config := []byte("the tail of an environment"), []byte(`{"format":2}`)
	document = oci.Referrer(oci.Describe(oci.TypeManifest, nil), "x", nil) // any manifest will do
	_, _ = m.Add(tail), m.Add(config)
	sif = []byte("0123456789 a sif")
	m.Tag("v1", "amd64", document, sif)
	m.Document(oci.Referrer(oci.Describe(oci.TypeManifest, document), oci.TypeProvenance, []byte("signed")), "")
	for _, tag := range []string{"v3", "v2"} {
		m.Names[tag] = m.Names["v1"]
	}
	return m, document, sif
}

func ask(h http.Handler, method, target string, header ...string) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	r.SetBasicAuth("alice", token)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(r *http.Response) string {
	data, _ := io.ReadAll(r.Body)
	return string(data)
}

func TestContent(t *testing.T) {
	m, document, sif := content()
	h := registrytest.Handler(t, token, map[string]*registrytest.Memory{"alice/ana": m, "": m})
	env, name := blob.Digest(document), blob.Digest(sif)
	tests := []struct {
		name, target string
		header       []string
		status       int
		mediaType    string
		digest, body string
	}{
		{name: "ping", target: "/v2/", status: 200, mediaType: "application/json", body: "{}"},
		{name: "index by tag", target: "/v2/alice/ana/manifests/v1", status: 200, mediaType: oci.TypeIndex, digest: m.Names["v1"], body: string(m.Documents[m.Names["v1"]].Data)},
		{name: "document by digest", target: "/v2/alice/ana/manifests/" + env, status: 200, mediaType: oci.TypeManifest, digest: env, body: string(document)},
		{name: "known document", target: "/v2/alice/ana/manifests/" + env, header: []string{"If-None-Match", `"` + env + `"`}, status: 304, mediaType: oci.TypeManifest, digest: env},
		{name: "blob", target: "/v2/alice/ana/blobs/" + name, status: 200, mediaType: "application/octet-stream", digest: name, body: string(sif)},
		{name: "range", target: "/v2/alice/ana/blobs/" + name, header: []string{"Range", "bytes=3-5"}, status: 206, mediaType: "application/octet-stream", digest: name, body: "345"},
		{name: "the rest", target: "/v2/alice/ana/blobs/" + name, header: []string{"Range", "bytes=11-", "If-Range", `"` + name + `"`}, status: 206, mediaType: "application/octet-stream", digest: name, body: "a sif"},
		{name: "range of another version", target: "/v2/alice/ana/blobs/" + name, header: []string{"Range", "bytes=3-5", "If-Range", `"sha256:00"`}, status: 200, mediaType: "application/octet-stream", digest: name, body: string(sif)},
		{name: "range behind the end", target: "/v2/alice/ana/blobs/" + name, header: []string{"Range", "bytes=99-"}, status: 416, mediaType: "text/plain; charset=utf-8", digest: name, body: "invalid range: failed to overlap\n"},
		{name: "sif by tag", target: "/sif/alice/ana/v1.sif", status: 200, mediaType: oci.TypeSIF, digest: name, body: string(sif)},
		{name: "sif by digest", target: "/sif/alice/ana/" + env, status: 200, mediaType: oci.TypeSIF, digest: name, body: string(sif)},
		{name: "sif without a repository", target: "/sif/" + env, header: []string{"Range", "bytes=-3"}, status: 206, mediaType: oci.TypeSIF, digest: name, body: "sif"},
		{name: "tags", target: "/v2/alice/ana/tags/list", status: 200, mediaType: "application/json", body: `{"name":"alice/ana","tags":["v1","v2","v3"]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ask(h, "GET", tt.target, tt.header...)
			if got.StatusCode != tt.status || got.Header.Get("Docker-Content-Digest") != tt.digest || got.Header.Get("Content-Type") != tt.mediaType && tt.status != 304 {
				t.Errorf("%d %v", got.StatusCode, got.Header)
			}
			if diff := cmp.Diff(tt.body, body(got)); diff != "" {
				t.Error(diff)
			}
			head := ask(h, "HEAD", tt.target, tt.header...)
			if text := body(head); head.StatusCode != tt.status || text != "" && tt.status != 416 || head.Header.Get("Content-Length") != got.Header.Get("Content-Length") {
				t.Errorf("HEAD: %d %v %q", head.StatusCode, head.Header, text)
			}
		})
	}
}

func TestErrorsHaveTheFormOfOCI(t *testing.T) {
	m, _, _ := content()
	m.Blobs[blob.Digest([]byte("broken"))] = nil
	h := registrytest.Handler(t, token, map[string]*registrytest.Memory{"alice/ana": m})
	other := blob.Digest([]byte("nowhere"))
	tests := []struct {
		name, method, target string
		header               []string
		status               int
		code                 string
	}{
		{name: "nobody", target: "/v2/", header: []string{"Authorization", ""}, status: 401, code: "UNAUTHORIZED"},
		{name: "wrong token", target: "/v2/", header: []string{"Authorization", "Bearer nonsense"}, status: 403, code: "DENIED"},
		{name: "another's", target: "/v2/bob/ana/manifests/v1", status: 404, code: "MANIFEST_UNKNOWN"},
		{name: "another's sif", target: "/sif/bob/ana/v1", status: 404, code: "MANIFEST_UNKNOWN"},
		{name: "another's tags", target: "/v2/bob/ana/tags/list", status: 404, code: "NAME_UNKNOWN"},
		{name: "no tag", target: "/v2/alice/ana/manifests/v9", status: 404, code: "MANIFEST_UNKNOWN"},
		{name: "no blob", target: "/v2/alice/ana/blobs/" + other, status: 404, code: "BLOB_UNKNOWN"},
		{name: "bad digest", target: "/v2/alice/ana/blobs/sha256:..", status: 400, code: "DIGEST_INVALID"},
		{name: "blob by tag", target: "/v2/alice/ana/blobs/v1", status: 400, code: "DIGEST_INVALID"},
		{name: "bad tag", target: "/v2/alice/ana/manifests/-v1", status: 400, code: "TAG_INVALID"},
		{name: "bad name", target: "/v2/alice/../manifests/v1", status: 400, code: "NAME_INVALID"},
		{name: "capitals", target: "/v2/Alice/ana/manifests/v1", status: 400, code: "NAME_INVALID"},
		{name: "long name", target: "/v2/" + strings.Repeat("a", 256) + "/manifests/v1", status: 400, code: "NAME_INVALID"},
		{name: "bad sif", target: "/sif/v1.sif", status: 400, code: "DIGEST_INVALID"},
		{name: "no such place", target: "/v2/alice/ana/nothing/v1", status: 404, code: "UNSUPPORTED"},
		{name: "short", target: "/v2/manifests/v1", status: 404, code: "UNSUPPORTED"},
		{name: "page", target: "/v2/alice/ana/tags/list?n=many", status: 400, code: "PAGINATION_NUMBER_INVALID"},
		{name: "push", method: "POST", target: "/v2/alice/ana/blobs/uploads/", status: 405, code: "UNSUPPORTED"},
		{name: "put", method: "PUT", target: "/v2/alice/ana/manifests/v1", status: 405, code: "UNSUPPORTED"},
		{name: "delete", method: "DELETE", target: "/v2/alice/ana/manifests/v1", status: 405, code: "UNSUPPORTED"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.method == "" {
				tt.method = "GET"
			}
			got := ask(h, tt.method, tt.target, tt.header...)
			var e struct {
				Errors []struct{ Code, Message string }
			}
			err := json.NewDecoder(got.Body).Decode(&e)
			if err != nil || got.StatusCode != tt.status || len(e.Errors) != 1 || e.Errors[0].Code != tt.code || e.Errors[0].Message == "" {
				t.Errorf("%d %+v %v, want %d %s", got.StatusCode, e, err, tt.status, tt.code)
			}
			if challenge := got.Header.Get("Www-Authenticate"); (challenge == `Basic realm="slipway"`) != (tt.status == 401) {
				t.Errorf("challenge %q", challenge)
			}
		})
	}
}

func TestTagsComeInPages(t *testing.T) {
	m, _, _ := content()
	h := registrytest.Handler(t, token, map[string]*registrytest.Memory{"alice/ana": m})
	var all []string
	next := "/v2/alice/ana/tags/list?n=2"
	for pages := 0; next != "" && pages < 5; pages++ {
		got := ask(h, "GET", next)
		var page struct{ Tags []string }
		if err := json.NewDecoder(got.Body).Decode(&page); err != nil || len(page.Tags) > 2 {
			t.Fatalf("%v %v", page, err)
		}
		all = append(all, page.Tags...)
		next, _, _ = strings.Cut(strings.TrimPrefix(got.Header.Get("Link"), "<"), ">")
	}
	if diff := cmp.Diff([]string{"v1", "v2", "v3"}, all); diff != "" {
		t.Error(diff)
	}
	if got := body(ask(h, "GET", "/v2/alice/ana/tags/list?last=v11")); !strings.Contains(got, `["v2","v3"]`) {
		t.Errorf("after a tag that is gone: %s", got)
	}
}

func TestReferrers(t *testing.T) {
	m, document, _ := content()
	h := registrytest.Handler(t, token, map[string]*registrytest.Memory{"alice/ana": m})
	for query, want := range map[string]int{"": 1, "?artifactType=" + strings.ReplaceAll(oci.TypeProvenance, "+", "%2B"): 1, "?artifactType=x": 0} {
		got := ask(h, "GET", "/v2/alice/ana/referrers/"+blob.Digest(document)+query)
		data := body(got)
		index, err := oci.Parse([]byte(data))
		if err != nil || len(index.Manifests) != want || (got.Header.Get("Oci-Filters-Applied") == "") != (query == "") {
			t.Errorf("%q: %s, %v", query, data, err)
		}
	}
	if index, err := oci.Parse([]byte(body(ask(h, "GET", "/v2/alice/ana/referrers/"+blob.Digest(nil))))); err != nil || index.Manifests == nil {
		t.Errorf("of nothing: %+v, %v", index, err)
	}
}

// broken is content whose disk fails after some bytes.
type broken struct{ blob.Blob }

func (b broken) ReadAt(p []byte, at int64) (int, error) {
	if at > 0 {
		return 0, errors.New("the disk is gone")
	}
	return b.Blob.ReadAt(p[:min(len(p), 1000)], at)
}

func TestContentThatCannotBeReadIsNotTakenForWhole(t *testing.T) {
	m, _, _ := content()
	digest := m.Add(make([]byte, 1<<20))
	m.Blobs[digest] = broken{m.Blobs[digest]}
	host := registrytest.Serve(t, registrytest.Handler(t, "", map[string]*registrytest.Memory{"alice/ana": m}))
	for range 2 { // the second request needs a connection that works
		resp, err := http.Get("http://" + host + "/v2/alice/ana/blobs/" + digest)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err == nil {
			t.Errorf("%d bytes are taken for all of it", n)
		}
	}
}

// TestAClientThatTakesNothingIsLetGo gives one more than the connection holds, and waits until the content is closed.
func TestAClientThatTakesNothingIsLetGo(t *testing.T) {
	m, _, _ := content()
	closed := make(chan struct{})
	digest := m.Add(make([]byte, 64<<20))
	m.Blobs[digest] = closing{m.Blobs[digest], closed}
	host := registrytest.Serve(t, registry.New(registry.Config{
		Logger: slog.New(slog.DiscardHandler), Silence: 100 * time.Millisecond,
		Open: func(*http.Request, string) (registry.Repository, error) { return m, nil },
	}))
	resp, err := http.Get("http://" + host + "/v2/alice/ana/blobs/" + digest)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	testenv.Receive(t, "the content is closed", closed)
}

type closing struct {
	blob.Blob
	closed chan struct{}
}

func (c closing) Close() error { close(c.closed); return nil }

func TestKindsOfErrors(t *testing.T) {
	for kind, want := range map[errs.Kind]struct {
		status int
		code   string
	}{errs.Unavailable: {503, "UNAVAILABLE"}, errs.Internal: {500, "UNKNOWN"}, errs.OverQuota: {429, "TOOMANYREQUESTS"}, errs.Conflict: {409, "UNSUPPORTED"}} {
		h := registry.New(registry.Config{Logger: slog.New(slog.DiscardHandler), Open: func(*http.Request, string) (registry.Repository, error) {
			return nil, errs.New(kind, "because of the disk")
		}})
		got := ask(h, "GET", "/v2/a/b/manifests/v1")
		text := body(got)
		if got.StatusCode != want.status || !strings.Contains(text, want.code) || strings.Contains(text, "the disk") != (kind != errs.Internal) {
			t.Errorf("%d: %d %s", kind, got.StatusCode, text)
		}
		if (got.Header.Get("Retry-After") != "") != (want.status == 503 || want.status == 429) {
			t.Errorf("%d: %v", kind, got.Header)
		}
	}
}

func TestCredential(t *testing.T) {
	for header, want := range map[string][2]string{
		"": {}, "Basic": {}, "Basic YTo=": {"a", ""}, "Basic am9iOng6eQ==": {"job", "x:y"}, "bearer  tok": {"", "tok"}, "Bearer ": {}, "Negotiate x": {"", "x"},
	} {
		r := httptest.NewRequestWithContext(context.Background(), "GET", "/", nil)
		r.Header.Set("Authorization", header)
		user, got, ok := registry.Credential(r)
		wantOK := want[1] != "" && !strings.HasPrefix(header, "Negotiate")
		if user != want[0] || ok != wantOK || ok && got.Reveal() != want[1] {
			t.Errorf("%q: %q, %v", header, user, ok)
		}
	}
}

func FuzzPath(f *testing.F) {
	m, document, _ := content()
	h := registrytest.Handler(f, "", map[string]*registrytest.Memory{"alice/ana": m})
	for _, path := range []string{"/v2/", "/v2/a/manifests/x", "/v2/a/b/blobs/uploads/", "/sif/" + blob.Digest(document) + ".sif", "/sif/", "/v2/a/tags/list", "v2"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.Path = path
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == 500 {
			t.Errorf("%q: %s", path, w.Body)
		}
	})
}
