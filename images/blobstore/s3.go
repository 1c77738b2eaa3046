package blobstore

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"slipway/images/blob"
	"slipway/internal/errs"
	"slipway/internal/secret"
)

// S3Config is what a store in a bucket is made of.
type S3Config struct {
	Endpoint  string // host:port
	Plain     bool   // HTTP without TLS
	Region    string
	Bucket    string // which must be there
	Prefix    string // of keys, such as "environments/"
	AccessKey string
	SecretKey secret.Text
	Transport http.RoundTripper // nil: the library's
}

// S3 keeps each blob in an object of a bucket.
type S3 struct {
	cfg    S3Config
	client *minio.Core
}

// OpenS3 makes a store in a bucket. It asks nothing of the server yet.
func OpenS3(cfg S3Config) (*S3, error) {
	if cfg.Region == "" {
		cfg.Region = "us-east-1" // what servers without regions call theirs
	}
	client, err := minio.NewCore(cfg.Endpoint, &minio.Options{
		Creds:  credentials.NewStaticV4(cfg.AccessKey, cfg.SecretKey.Reveal(), ""),
		Secure: !cfg.Plain, Region: cfg.Region, Transport: cfg.Transport, MaxRetries: 5,
	})
	if err != nil {
		return nil, errs.Bad("endpoint", cfg.Endpoint, "give host:port, without a scheme or a path")
	}
	return &S3{cfg, client}, nil
}

func (s *S3) key(digest string) (string, error) {
	name, err := file(digest, "")
	return s.cfg.Prefix + name, err
}

// Put reads the blob twice: to know that it is what its digest says, and to send it. A server that speaks S3 shows an
// object only when all of it has arrived; each part goes with its MD5, which every such server checks.
func (s *S3) Put(ctx context.Context, digest string, b blob.Blob) error {
	key, err := s.key(digest)
	if err != nil {
		return err
	}
	if info, err := s.Stat(ctx, digest); err == nil && info.Size == b.Size() {
		return nil
	}
	if _, err := copyVerified(ctx, io.Discard, blob.Reader(b), digest); err != nil {
		return fmt.Errorf("store %s in %s: %w", digest, s.where(), err)
	}
	_, err = s.client.Client.PutObject(ctx, s.cfg.Bucket, key, blob.Reader(b), b.Size(), minio.PutObjectOptions{
		ContentType: "application/octet-stream", DisableContentSha256: true, SendContentMd5: true,
	})
	return s.explain("store", digest, err)
}

// Get reads a range of the object.
func (s *S3) Get(ctx context.Context, digest string, offset, length int64) (io.ReadCloser, error) {
	key, err := s.key(digest)
	if err != nil {
		return nil, err
	}
	if offset < 0 || length == 0 {
		return s.nothing(ctx, digest, offset) // S3 has no empty ranges
	}
	var opts minio.GetObjectOptions
	if end := max(0, offset+length-1); offset > 0 || length > 0 {
		if length < 0 {
			end = 0 // which is to the end, here
		}
		if err := opts.SetRange(offset, end); err != nil {
			return nil, err
		}
	}
	r, _, _, err := s.client.GetObject(ctx, s.cfg.Bucket, key, opts)
	if minio.ToErrorResponse(err).StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return s.nothing(ctx, digest, offset)
	}
	return r, s.explain("read", digest, err)
}

// nothing returns the empty range at offset, if the object reaches that far.
func (s *S3) nothing(ctx context.Context, digest string, offset int64) (io.ReadCloser, error) {
	info, err := s.Stat(ctx, digest)
	if err == nil {
		_, err = checkRange(offset, 0, info.Size)
	}
	return io.NopCloser(strings.NewReader("")), err
}

// Stat asks for the object's description.
func (s *S3) Stat(ctx context.Context, digest string) (Info, error) {
	key, err := s.key(digest)
	if err != nil {
		return Info{}, err
	}
	o, err := s.client.StatObject(ctx, s.cfg.Bucket, key, minio.StatObjectOptions{})
	return Info{Digest: digest, Size: o.Size, Modified: o.LastModified}, s.explain("look for", digest, err)
}

// List returns the objects that are named like blobs.
func (s *S3) List(ctx context.Context) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // ends the listing when nobody wants more
		for o := range s.client.Client.ListObjects(ctx, s.cfg.Bucket, minio.ListObjectsOptions{Prefix: s.cfg.Prefix, Recursive: true}) {
			name := "sha256:" + strings.TrimPrefix(o.Key, s.cfg.Prefix)
			if _, ok := blob.Hex(name); !ok && o.Err == nil {
				continue
			}
			if !yield(Info{Digest: name, Size: o.Size, Modified: o.LastModified}, s.explain("list", "blobs", o.Err)) || o.Err != nil {
				return
			}
		}
	}
}

// Delete removes the object.
func (s *S3) Delete(ctx context.Context, digest string) error {
	key, err := s.key(digest)
	if err != nil {
		return err
	}
	err = s.explain("delete", digest, s.client.RemoveObject(ctx, s.cfg.Bucket, key, minio.RemoveObjectOptions{}))
	if errs.Is(err, errs.NotFound) {
		return nil
	}
	return err
}

func (s *S3) where() string { return s.cfg.Endpoint + "/" + s.cfg.Bucket }

// explain joins what the server said to a kind.
func (s *S3) explain(what, digest string, err error) error {
	if err == nil {
		return nil
	}
	answer := minio.ToErrorResponse(err)
	switch {
	case answer.Code == "NoSuchBucket":
		return errs.New(errs.Missing, "%s has no bucket %q: %w", s.cfg.Endpoint, s.cfg.Bucket, err).
			With("make it, or name another")
	case answer.StatusCode == http.StatusNotFound:
		return missing(s.where(), digest, err)
	case answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusUnauthorized:
		return errs.New(errs.Forbidden, "%s %s at %s: %w", what, digest, s.where(), err).
			With("check the access key, its secret, and the rights to the bucket")
	case answer.StatusCode == http.StatusInsufficientStorage || answer.Code == "QuotaExceeded":
		return errs.New(errs.NoSpace, "%s %s at %s: %w", what, digest, s.where(), err)
	}
	return errs.New(errs.Unavailable, "%s %s at %s: %w", what, digest, s.where(), err)
}
