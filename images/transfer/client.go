package transfer

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"slipway/images/blob"
	"slipway/images/oci"
	"slipway/internal/errs"
)

// Config is what a client is made of.
type Config struct {
	// Asked when a registry wants to know who is there, and again when it refuses what that gave; nil: nobody.
	Credential Credentials
	Plain      func(host string) bool // registries that speak HTTP without TLS; nil: none
	Transport  http.RoundTripper      // nil: Go's own, with the proxy of the process's environment
	Silence    time.Duration          // a peer that moves no byte for so long is given up; two minutes when 0
	// Failures in a row, without a byte of progress between them, that end an operation; 6 when 0.
	Attempts int
	Chunk    int64 // of an upload; what is acknowledged is not sent again. 64 MiB when 0
	Logger   *slog.Logger
}

// Client speaks to registries. It is safe for concurrent use.
type Client struct {
	cfg  Config
	http *http.Client
	wait func(ctx context.Context, d time.Duration) error
}

// New makes a client.
func New(cfg Config) *Client {
	if cfg.Transport == nil {
		cfg.Transport = http.DefaultTransport
	}
	if cfg.Silence == 0 {
		cfg.Silence = 2 * time.Minute
	}
	if cfg.Attempts == 0 {
		cfg.Attempts = 6
	}
	if cfg.Chunk == 0 {
		cfg.Chunk = 64 << 20
	}
	return &Client{cfg: cfg, http: &http.Client{Transport: watchful{cfg.Transport, cfg.Silence}}, wait: wait}
}

// Reference names a tag or a digest in a repository of a registry.
type Reference struct {
	Host       string // with its port
	Repository string
	Tag        string // "latest" when the text named neither
	Digest     string
}

// ParseReference reads host[:port]/repository[:tag|@digest], with or without oras:// or oci:// before it. Its error names
// the field in which the text stood.
func ParseReference(field, text string) (Reference, error) {
	r, err := registry.ParseReference(strings.TrimPrefix(strings.TrimPrefix(text, "oras://"), "oci://"))
	if err != nil || r.Repository == "" {
		return Reference{}, errs.Bad(field, text,
			"write host/repository:tag, such as registry.example.org/ana/analysis:v1, or host/repository@sha256:..., in lower case up to the tag")
	}
	ref := Reference{Host: r.Registry, Repository: r.Repository, Tag: r.Reference}
	if _, ok := blob.Hex(r.Reference); ok {
		ref.Tag, ref.Digest = "", r.Reference
	} else if strings.Contains(r.Reference, ":") {
		return Reference{}, errs.Bad(field, text, "its digest must be a sha256 digest")
	}
	if r.Reference == "" {
		ref.Tag = "latest"
	}
	return ref, nil
}

// String returns what ParseReference reads.
func (r Reference) String() string {
	if r.Digest != "" {
		return r.Host + "/" + r.Repository + "@" + r.Digest
	}
	return r.Host + "/" + r.Repository + ":" + r.Tag
}

// name is what stands in the address of a manifest.
func (r Reference) name() string {
	if r.Digest != "" {
		return r.Digest
	}
	return r.Tag
}

// place is a repository during one push or pull.
type place struct {
	*Client
	ref   Reference
	repo  *remote.Repository
	auth  *auth.Client
	meter *meter
}

// open prepares for a push or a pull. Tokens live no longer than it.
func (c *Client) open(
	ctx context.Context, ref Reference, report func(Progress), actions ...string,
) (context.Context, *place) {
	client := &auth.Client{Client: c.http, Credential: c.credential, Cache: auth.NewCache(), ClientID: "slipway"}
	client.SetUserAgent("slipway")
	name := registry.Reference{Registry: ref.Host, Repository: ref.Repository}
	repo := &remote.Repository{
		Client: client, Reference: name, PlainHTTP: c.plain(ref.Host), MaxMetadataBytes: oci.MaxManifest,
	}
	return auth.AppendRepositoryScope(ctx, name, actions...), &place{c, ref, repo, client, &meter{report: report}}
}

func (c *Client) plain(host string) bool { return c.cfg.Plain != nil && c.cfg.Plain(host) }

// url returns an address in the repository.
func (p *place) url(kind, name string) string {
	scheme := "https"
	if p.repo.PlainHTTP {
		scheme = "http"
	}
	return scheme + "://" + p.repo.Reference.Host() + "/v2/" + p.ref.Repository + "/" + kind + "/" + name
}
