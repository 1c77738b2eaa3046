package registry

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/image-spec/specs-go"
	spec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway/images/blob"
	"slipway/images/oci"
	"slipway/internal/ctxio"
	"slipway/internal/errs"
)

const (
	forEver = "private, max-age=31536000, immutable" // a digest names its bytes
	maxTags = 1000                                   // on a page
)

func (g *Registry) manifest(w http.ResponseWriter, r *http.Request, repo Repository, reference string) error {
	doc, err := repo.Manifest(r.Context(), reference)
	if err != nil {
		return err
	}
	digest := blob.Digest(doc.Data)
	w.Header().Set("Content-Type", doc.MediaType)
	if _, fixed := blob.Hex(reference); fixed {
		w.Header().Set("Cache-Control", forEver)
		if reference != digest {
			return errs.New(errs.Internal, "the document %s has the digest %s", reference, digest)
		}
	} else {
		w.Header().Set("Cache-Control", "private, no-cache")
	}
	g.send(w, r, blob.Bytes(doc.Data), digest)
	return nil
}

func (g *Registry) blob(w http.ResponseWriter, r *http.Request, repo Repository, digest string) error {
	b, err := repo.Blob(r.Context(), digest)
	if err != nil {
		return err
	}
	defer b.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", forEver)
	g.send(w, r, b, digest)
	return nil
}

func (g *Registry) sif(w http.ResponseWriter, r *http.Request, repo Repository, q request) error {
	b, digest, err := repo.SIF(r.Context(), q.reference)
	if err != nil {
		return err
	}
	defer b.Close()
	name := strings.NewReplacer("/", "-", ":", "-").Replace(strings.TrimPrefix(q.repository+"-"+q.reference, "-"))
	w.Header().Set("Content-Type", oci.TypeSIF)
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name+".sif"))
	w.Header().Set("Cache-Control", "private, no-cache") // a signature is added to the file of an environment
	g.send(w, r, b, digest)
	return nil
}

// send answers with content, or with the range of it that is asked for, or that the client has it already.
func (g *Registry) send(w http.ResponseWriter, r *http.Request, b blob.Blob, digest string) {
	w.Header().Set("Docker-Content-Digest", digest)
	w.Header().Set("Etag", strconv.Quote(digest))
	content := blob.Reader(b)
	p := &paced{
		Seeker: content, from: ctxio.Until(r.Context(), content), control: http.NewResponseController(w), silence: g.cfg.Silence,
	}
	http.ServeContent(w, r, "", time.Time{}, p)
	_ = p.control.SetWriteDeadline(time.Time{}) // the connection's next request begins without one
	if p.err != nil && r.Context().Err() == nil {
		g.log.Error("content cannot be read", "digest", digest, "error", p.err)
		panic(http.ErrAbortHandler) // the client must not take what it has for the whole
	}
}

// paced gives the client so long for each part of the content, instead of for the whole.
type paced struct {
	io.Seeker
	from    io.Reader // what Seeker seeks in, until the request ends
	control *http.ResponseController
	silence time.Duration
	err     error // of the content
}

func (p *paced) Read(buf []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(p.silence)) // not all writers have deadlines
	n, err := p.from.Read(buf)
	if err != nil && err != io.EOF {
		p.err = err
	}
	return n, err
}

// list returns a page of tags, and the address of the next.
func list(w http.ResponseWriter, r *http.Request, repo Repository, name string) error {
	n, err := pageSize(r.URL.Query().Get("n"))
	if err != nil {
		return err
	}
	all, err := repo.Tags(r.Context())
	if err != nil {
		return err
	}
	all = slices.Clone(all)
	slices.Sort(all)
	if last := r.URL.Query().Get("last"); last != "" {
		at, found := slices.BinarySearch(all, last)
		if found {
			at++
		}
		all = all[at:]
	}
	page := append([]string{}, all[:min(n, len(all))]...)
	if len(page) > 0 && len(page) < len(all) {
		next := url.Values{"n": {strconv.Itoa(n)}, "last": {page[len(page)-1]}}
		w.Header().Set("Link", fmt.Sprintf(`</v2/%s/tags/list?%s>; rel="next"`, name, next.Encode()))
	}
	w.Header().Set("Cache-Control", "private, no-cache")
	return writeJSON(w, r, "application/json", struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}{name, page})
}

func pageSize(text string) (int, error) {
	if text == "" {
		return maxTags, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, &refusal{
			http.StatusBadRequest, "PAGINATION_NUMBER_INVALID", fmt.Sprintf("n: %.40q is no number of tags", text),
		}
	}
	return min(n, maxTags), nil
}

// about returns what refers to a document. Nothing is an answer too.
func about(w http.ResponseWriter, r *http.Request, repo Repository, digest string) error {
	found, err := repo.Referrers(r.Context(), digest)
	if err != nil && !errs.Is(err, errs.NotFound) {
		return err
	}
	index := spec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: oci.TypeIndex, Manifests: []oci.Descriptor{},
	}
	wanted := r.URL.Query().Get("artifactType")
	for _, d := range found {
		if wanted == "" || d.ArtifactType == wanted {
			index.Manifests = append(index.Manifests, d)
		}
	}
	if wanted != "" {
		w.Header().Set("Oci-Filters-Applied", "artifactType")
	}
	w.Header().Set("Cache-Control", "private, no-cache")
	return writeJSON(w, r, oci.TypeIndex, index)
}

func writeJSON(w http.ResponseWriter, r *http.Request, mediaType string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if r.Method == http.MethodHead {
		return nil
	}
	_, _ = w.Write(data) // a client that has gone needs no answer
	return nil
}

// fail answers with an error as OCI clients read and show it.
func (g *Registry) fail(w http.ResponseWriter, r *http.Request, q request, err error) {
	e := asRefusal(err, q)
	if e.status == http.StatusInternalServerError {
		g.log.Error("a request to the registry failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	h := w.Header()
	h.Del("Etag")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "application/json")
	switch e.status {
	case http.StatusUnauthorized:
		h.Set("Www-Authenticate", fmt.Sprintf("Basic realm=%q", g.cfg.Realm))
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		h.Set("Retry-After", "5")
	}
	type problem struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	w.WriteHeader(e.status)
	if r.Method != http.MethodHead {
		_ = json.NewEncoder(w).Encode(map[string][]problem{"errors": {{e.code, e.message}}}) // as above
	}
}
