package blobstore

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/images/blob"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// between stands between a client and its server.
type between func(r *http.Request, next http.RoundTripper) (*http.Response, error)

func (b between) RoundTrip(r *http.Request) (*http.Response, error) {
	return b(r, http.DefaultTransport)
}

// over is a store in the same bucket as s, with something in between.
func over(t *testing.T, s *S3, b between) *S3 {
	t.Helper()
	cfg := s.cfg
	cfg.Transport = b
	out, err := OpenS3(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func answer(r *http.Request, status int, code string) *http.Response {
	return &http.Response{
		StatusCode: status, Request: r, Header: http.Header{"Content-Type": {"application/xml"}},
		Body: io.NopCloser(strings.NewReader("<Error><Code>" + code + "</Code><Message>no</Message></Error>")),
	}
}

// cut is a body that ends before its time.
type cut struct{ io.ReadCloser }

func (c cut) Read(p []byte) (int, error) {
	n, _ := c.ReadCloser.Read(p[:min(len(p), 1000)])
	return n, io.ErrUnexpectedEOF
}

// TestABucketThatFails: each fault has its kind, nothing half is there afterwards, and what is cut off is not taken for
// damage.
func TestABucketThatFails(t *testing.T) {
	_, s := newS3(t)
	data := noise(1, 20<<20)
	digest := blob.Digest(data)
	for name, tc := range map[string]struct {
		fault between
		kind  errs.Kind
	}{
		"full": {func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if r.Method == http.MethodPut {
				return answer(r, http.StatusInsufficientStorage, "QuotaExceeded"), nil
			}
			return next.RoundTrip(r)
		}, errs.NoSpace},
		"no rights": {func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
			return answer(r, http.StatusForbidden, "AccessDenied"), nil
		}, errs.Forbidden},
		"500 in the middle": {func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if r.URL.Query().Get("partNumber") == "2" {
				return answer(r, http.StatusNotImplemented, "Broken"), nil // which is not tried again
			}
			return next.RoundTrip(r)
		}, errs.Unavailable},
		"lost in the middle": {func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if r.URL.Query().Get("partNumber") == "2" {
				return nil, errors.New("connection reset by peer")
			}
			return next.RoundTrip(r)
		}, errs.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			if err := over(t, s, tc.fault).Put(t.Context(), digest, blob.Bytes(data)); !errs.Is(err, tc.kind) {
				t.Errorf("put: %v", err)
			}
			if _, err := s.Stat(t.Context(), digest); !errs.Is(err, errs.NotFound) {
				t.Errorf("there is half of it: %v", err)
			}
		})
	}
	if err := s.Put(t.Context(), digest, blob.Bytes(data)); err != nil {
		t.Fatal(err)
	}
	short := over(t, s, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil && r.Method == http.MethodGet {
			resp.Body = cut{resp.Body}
		}
		return resp, err
	})
	if err := Verify(t.Context(), short, digest); err == nil || errs.Is(err, errs.Invalid) || errs.Is(err, errs.NotFound) {
		t.Errorf("cut off: %v", err)
	}
}

// TestABucketThatHangsIsLeft by whoever does not wait any more.
func TestABucketThatHangsIsLeft(t *testing.T) {
	_, s := newS3(t)
	var leave context.CancelFunc
	hangs := over(t, s, func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		leave()
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	for what, do := range map[string]func(context.Context) error{
		"put":  func(ctx context.Context) error { return hangs.Put(ctx, blob.Digest(nil), blob.Bytes(nil)) },
		"read": func(ctx context.Context) error { return Verify(ctx, hangs, blob.Digest(nil)) },
		"list": func(ctx context.Context) error {
			for _, err := range hangs.List(ctx) {
				return err
			}
			return nil
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		leave = cancel
		if err := do(ctx); err == nil || errs.Is(err, errs.NotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestADirectoryThatIsFull: it says so, and has what it had before.
func TestADirectoryThatIsFull(t *testing.T) {
	testenv.Need(t, testenv.Root)
	mount := t.TempDir()
	if err := unix.Mount("test", mount, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(mount, 0); err != nil {
			t.Error(err)
		}
	}()
	d, err := OpenDir(DirConfig{Path: mount, Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	small, large := noise(1, 300<<10), noise(2, 2<<20)
	if err := d.Put(t.Context(), blob.Digest(small), blob.Bytes(small)); err != nil {
		t.Fatal(err)
	}
	if err := d.Put(t.Context(), blob.Digest(large), blob.Bytes(large)); !errs.Is(err, errs.NoSpace) {
		t.Errorf("full: %v", err)
	}
	if left, err := os.ReadDir(mount); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
	if err := Verify(t.Context(), d, blob.Digest(small)); err != nil {
		t.Error(err)
	}
	if err := WriteFile(filepath.Join(mount, "state"), large); !errs.Is(err, errs.NoSpace) {
		t.Errorf("a state: %v", err)
	}
}
