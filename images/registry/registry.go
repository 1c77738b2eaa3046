// Package registry is a read-only OCI distribution endpoint: worker nodes and other sites run, pull and download
// environments from the service itself, with what they have installed.
//
//	GET /v2/                             is this a registry, and am I let in?
//	GET /v2/<repo>/manifests/<reference> by tag or digest
//	GET /v2/<repo>/blobs/<digest>        with ranges
//	GET /v2/<repo>/tags/list             page by page
//	GET /v2/<repo>/referrers/<digest>    the signed statements about an environment
//	GET /sif/<repo>/<reference>[.sif]    the SIF as an ordinary download, with ranges
//	GET /sif/<digest>[.sif]              the same, of any environment that the caller may read
//
// What it promises: nothing is read but through the [Repository] that [Config].Open gave for this very request, so no
// path leads around the check; every error has the form that OCI clients show; content that is named by its digest can
// be cached for ever; a client that takes no byte for a while is let go.
//
// What it must not do: know users, write anything, or keep content in memory.
//
// The challenge is Basic. Apptainer (1.4.5, tried: --authfile, a configuration file, APPTAINER_DOCKER_USERNAME and
// _PASSWORD), oras and Docker answer it at once with what they have; the token service of Docker's registry would add a
// round trip and a second kind of credential for the same right.
package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"time"

	"slipway/images/blob"
	"slipway/images/oci"
	"slipway/internal/errs"
	"slipway/internal/secret"
)

// Repository is what one caller may see of one repository. What she may not see is of kind errs.NotFound.
type Repository interface {
	// Manifest returns a document by its tag or digest.
	Manifest(ctx context.Context, reference string) (Document, error)
	// Blob returns content that a document of this repository names.
	Blob(ctx context.Context, digest string) (blob.Blob, error)
	// Tags returns the names that Manifest knows, in any order.
	Tags(ctx context.Context) ([]string, error)
	// Referrers returns the manifests that are about a document.
	Referrers(ctx context.Context, digest string) ([]oci.Descriptor, error)
	// SIF returns the SIF of an environment by tag or digest, and the digest of the file.
	SIF(ctx context.Context, reference string) (sif blob.Blob, digest string, err error)
}

// Document is a manifest or an index.
type Document struct {
	MediaType string
	Data      []byte
}

// Config is what a registry is made of.
type Config struct {
	// Open says who is calling, and gives what that caller may see of a repository: errs.Unauthorized asks for a
	// credential, errs.Forbidden refuses the one that was given. The empty repository has all that the caller may read,
	// by digest alone.
	Open    func(r *http.Request, repository string) (Repository, error)
	Realm   string        // shown by clients that ask for a password; "slipway" when empty
	Silence time.Duration // a client that takes nothing for so long is let go; two minutes when 0
	Logger  *slog.Logger
}

// Registry is the endpoint. It serves /v2/ and /sif/, which OCI clients expect at the root of a host.
type Registry struct {
	cfg Config
	log *slog.Logger
}

// New makes a registry.
func New(cfg Config) *Registry {
	if cfg.Realm == "" {
		cfg.Realm = "slipway"
	}
	if cfg.Silence == 0 {
		cfg.Silence = 2 * time.Minute
	}
	return &Registry{cfg: cfg, log: cfg.Logger}
}

// Credential returns what a request proves itself with: the password of Basic, whatever name goes with it, or the token
// of Bearer.
func Credential(r *http.Request) (user string, token secret.Text, ok bool) {
	if name, password, ok := r.BasicAuth(); ok {
		return name, secret.New(password), password != ""
	}
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	value = strings.TrimSpace(value)
	return "", secret.New(value), strings.EqualFold(scheme, "Bearer") && value != ""
}

// ServeHTTP answers one request.
func (g *Registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	q, err := parse(r.URL.Path)
	if q.kind != sif {
		h.Set("Docker-Distribution-Api-Version", "registry/2.0")
	}
	if err == nil {
		err = g.serve(w, r, q)
	}
	if err != nil {
		g.fail(w, r, q, err)
	}
}

const readOnly = "this registry is read-only: environments come into it by slipway freeze and slipway envs pull"

func (g *Registry) serve(w http.ResponseWriter, r *http.Request, q request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		return &refusal{http.StatusMethodNotAllowed, "UNSUPPORTED", readOnly}
	}
	repo, err := g.cfg.Open(r, q.repository)
	if err != nil {
		return err
	}
	switch q.kind {
	case ping:
		return writeJSON(w, r, "application/json", struct{}{})
	case manifests:
		return g.manifest(w, r, repo, q.reference)
	case blobs:
		return g.blob(w, r, repo, q.reference)
	case tags:
		return list(w, r, repo, q.repository)
	case referrers:
		return about(w, r, repo, q.reference)
	default:
		return g.sif(w, r, repo, q)
	}
}

type kind int

const (
	ping kind = iota
	manifests
	blobs
	tags
	referrers
	sif
)

// request is what a path asks for.
type request struct {
	kind       kind
	repository string
	reference  string
}

var (
	repositoryPattern = regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$`)
	tagPattern        = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
)

const maxRepository = 255

// parse reads a path. Repositories have slashes in their names, so it goes by the end.
func parse(path string) (request, error) {
	if rest, ok := strings.CutPrefix(path, "/sif/"); ok {
		at := strings.LastIndex(rest, "/")
		q := request{kind: sif, repository: rest[:max(at, 0)], reference: strings.TrimSuffix(rest[at+1:], ".sif")}
		return q, q.check(q.repository == "")
	}
	rest, ok := strings.CutPrefix(path, "/v2/")
	if path == "/v2" || ok && rest == "" {
		return request{}, nil
	}
	parts := strings.Split(rest, "/")
	if !ok || len(parts) < 3 {
		return request{}, &refusal{http.StatusNotFound, "UNSUPPORTED", fmt.Sprintf("there is nothing at %.200q", path)}
	}
	n := len(parts)
	q := request{repository: strings.Join(parts[:n-2], "/"), reference: parts[n-1]}
	switch {
	case parts[n-2] == "manifests":
		q.kind = manifests
	case parts[n-2] == "blobs":
		q.kind = blobs
	case parts[n-2] == "referrers":
		q.kind = referrers
	case parts[n-2] == "tags" && parts[n-1] == "list":
		q.kind = tags
	case n > 3 && parts[n-3] == "blobs" && parts[n-2] == "uploads": // refused by its method; this names the repository
		return request{kind: blobs, repository: strings.Join(parts[:n-3], "/")}, nil
	default:
		return request{}, &refusal{http.StatusNotFound, "UNSUPPORTED", fmt.Sprintf("there is nothing at %.200q", path)}
	}
	return q, q.check(q.kind == blobs || q.kind == referrers)
}

// check makes sure that names are what OCI allows; digestOnly, that the reference is a digest.
func (q request) check(digestOnly bool) error {
	if q.repository != "" && (len(q.repository) > maxRepository || !repositoryPattern.MatchString(q.repository)) ||
		q.repository == "" && q.kind != sif {
		return &refusal{
			http.StatusBadRequest, "NAME_INVALID", fmt.Sprintf("%.200q is no name of a repository", q.repository),
		}
	}
	_, digest := blob.Hex(q.reference)
	switch {
	case digestOnly && !digest:
		return &refusal{http.StatusBadRequest, "DIGEST_INVALID", fmt.Sprintf("%.200q is no sha256 digest", q.reference)}
	case !digest && !tagPattern.MatchString(q.reference):
		return &refusal{
			http.StatusBadRequest, "TAG_INVALID",
			fmt.Sprintf("%.200q is neither a tag nor a sha256 digest", q.reference),
		}
	}
	return nil
}

// refusal is an error of the protocol itself.
type refusal struct {
	status  int
	code    string
	message string
}

func (e *refusal) Error() string { return e.message }

// asRefusal returns an error the form that goes to the client. What is internal stays in the log.
func asRefusal(err error, q request) *refusal {
	if e, ok := errors.AsType[*refusal](err); ok {
		return e
	}
	status := errs.RowOf(errs.KindOf(err)).Status
	switch errs.KindOf(err) {
	case errs.Unauthorized:
		return &refusal{status, "UNAUTHORIZED", err.Error()}
	case errs.Forbidden:
		return &refusal{status, "DENIED", err.Error()}
	case errs.NotFound:
		return &refusal{status, unknown(q.kind), err.Error()}
	case errs.OverQuota:
		return &refusal{status, "TOOMANYREQUESTS", err.Error()}
	case errs.Unavailable, errs.NoCapacity:
		return &refusal{status, "UNAVAILABLE", err.Error()}
	case errs.Internal:
		return &refusal{status, "UNKNOWN", "an internal error; the service's log has more"}
	default:
		return &refusal{status, "UNSUPPORTED", err.Error()}
	}
}

func unknown(k kind) string {
	switch k {
	case manifests, sif:
		return "MANIFEST_UNKNOWN"
	case blobs:
		return "BLOB_UNKNOWN"
	default:
		return "NAME_UNKNOWN"
	}
}
