package hubapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strings"

	"slipway/internal/errs"
)

// The forms of an exported environment.
const (
	ExportSIF = "sif" // the file that Apptainer runs
	ExportOCI = "oci" // a tar with an OCI layout, which `docker load` reads too
)

// EnvironmentHeader names the environment of an exported file by its digest.
const EnvironmentHeader = "Slipway-Environment"

// Exported is an environment that was written as a file.
type Exported struct {
	Environment string `json:"environment"` // its digest
	Digest      string `json:"digest"`      // of the file's bytes: no other file of the same environment need have it
	Size        int64  `json:"size"`
}

// ExportEnvironment writes an environment to w in one of the forms. A SIF whose stream breaks goes on at the byte where
// it broke, and is compared with its digest.
func (c *Client) ExportEnvironment(ctx context.Context, ref, form string, w io.Writer) (done Exported, err error) {
	x := &export{client: c, where: query(path("environments", ref, "export"), "as", form), sum: sha256.New()}
	x.out = &counter{w: io.MultiWriter(w, x.sum)}
	err = c.persist(ctx, func() (bool, error) { return x.try(ctx) })
	done = Exported{Environment: x.of, Digest: "sha256:" + hex.EncodeToString(x.sum.Sum(nil)), Size: x.out.n}
	if err == nil && x.tag != "" && x.tag != fmt.Sprintf("%q", done.Digest) {
		err = errs.New(errs.Invalid, "what came has the digest %s, not %s", done.Digest, x.tag).With("export it again")
	}
	return done, err
}

// export is one file on its way.
type export struct {
	client *Client
	where  string
	sum    hash.Hash
	out    *counter
	tag    string // names the file that is received; empty: it cannot be gone on with
	of     string // the environment's digest
}

func (x *export) try(ctx context.Context) (progress bool, err error) {
	from := x.out.n
	header := http.Header{}
	if from > 0 {
		if x.tag == "" {
			return false, errs.New(
				errs.Conflict, "the connection broke after %d bytes of what is made anew each time", from,
			).With("export it again")
		}
		header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		header.Set("If-Range", x.tag)
	}
	resp, err := x.client.open(ctx, http.MethodGet, x.where, nil, header)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if from > 0 && (resp.StatusCode != http.StatusPartialContent || !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", from))) {
		return false, errs.New(errs.Conflict, "the file changed after %d bytes of it had come", from).
			With("export it again")
	}
	x.tag, x.of = resp.Header.Get("Etag"), resp.Header.Get(EnvironmentHeader)
	_, err = io.Copy(x.out, resp.Body)
	switch {
	case x.out.err != nil:
		return false, x.out.err
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil:
		return x.out.n > from, errMore
	}
	return true, nil
}
