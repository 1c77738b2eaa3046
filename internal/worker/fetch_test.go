package worker

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

// fakeImage has the head of a SIF of so many bytes.
func fakeImage(size int, fill byte) []byte {
	b := bytes.Repeat([]byte{fill}, size)
	copy(b, "#!/usr/bin/env run-singularity\n\x00SIF_MAGIC\x00")
	binary.LittleEndian.PutUint64(b[112:], 128)
	binary.LittleEndian.PutUint64(b[120:], uint64(size-128))
	return b
}

// shop is a service that has one image. Its first answers are the faults, one after the other.
type shop struct {
	*httptest.Server
	image []byte

	mu     sync.Mutex
	faults []http.HandlerFunc
	asked  []string // the ranges
}

func newShop(t *testing.T, image []byte, faults ...http.HandlerFunc) *shop {
	t.Helper()
	s := &shop{image: image, faults: faults}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Header.Get("Range"))
	var fault http.HandlerFunc
	if len(s.faults) > 0 {
		fault, s.faults = s.faults[0], s.faults[1:]
	}
	s.mu.Unlock()
	switch {
	case r.Header.Get("Authorization") != "Bearer hush":
		w.WriteHeader(http.StatusForbidden)
	case fault != nil:
		fault(w, r)
	default:
		s.serve(w, r)
	}
}

func (s *shop) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Etag", strconv.Quote(digestOf(s.image)))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.image))
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (s *shop) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// ranges are those that were asked for, one after the other.
func (s *shop) ranges() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.asked, ",")
}

func (s *shop) uplink() control.Uplink {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return control.Uplink{URL: "wss://nowhere", Token: "hush", CA: string(ca), Image: s.URL + "/sif/" + digestOf(nil)}
}

// download is one that is in a hurry.
func (s *shop) download(t *testing.T) *download {
	t.Helper()
	d, err := newDownload(s.uplink(), slog.New(slog.DiscardHandler))
	must(t, err)
	d.pause, d.stall, d.patience = time.Millisecond, 3*time.Second, time.Minute
	return d
}

// breaks sends n bytes of what was asked for, and no more.
func (s *shop) breaks(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.serve(&cutWriter{ResponseWriter: w, left: n}, r)
	}
}

type cutWriter struct {
	http.ResponseWriter
	left int
}

func (w *cutWriter) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left <= 0 {
		_, _ = w.ResponseWriter.Write(b[:max(len(b)+w.left, 0)])
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return w.ResponseWriter.Write(b)
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://169.254.169.254/")
		w.WriteHeader(code)
	}
}

func target(t *testing.T, has []byte) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "image")
	must(t, os.WriteFile(name, has, 0o600))
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func content(t *testing.T, f *os.File) []byte {
	t.Helper()
	b, err := os.ReadFile(f.Name())
	must(t, err)
	return b
}

func TestFetchGoesOn(t *testing.T) {
	image := fakeImage(1<<20, 'x')
	s := newShop(t, image)
	stuck := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1048576")
		_, _ = w.Write(image[:1000])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	whole := func(w http.ResponseWriter, _ *http.Request) { // of a proxy that knows no ranges
		w.Header().Set("Content-Length", "1048576")
		_, _ = w.Write(image)
	}
	other := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Range", "bytes 7-9/1048576")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(image[7:10])
	}
	for name, test := range map[string]struct {
		has    []byte
		faults []http.HandlerFunc
		asked  string
	}{
		"at once":                                  {nil, nil, ""},
		"after the service was busy":               {nil, []http.HandlerFunc{status(503), status(429), status(502)}, ",,,"},
		"after breaks":                             {nil, []http.HandlerFunc{s.breaks(100_000), s.breaks(200_000)}, ",bytes=100000-,bytes=300000-"},
		"after a silence":                          {nil, []http.HandlerFunc{stuck}, ",bytes=1000-"},
		"without ranges":                           {image[:500], []http.HandlerFunc{whole}, "bytes=500-"},
		"with another range":                       {image[:500], []http.HandlerFunc{other}, "bytes=500-,"},
		"where an earlier run ended":               {image[:500], nil, "bytes=500-"},
		"where nobody can say whether it is whole": {image, nil, "bytes=1048576-,"},
		"where more was than there is":             {append(bytes.Clone(image), 1), nil, "bytes=1048577-,"},
		"where it was of another":                  {fakeImage(1000, 'y'), nil, "bytes=1000-,"},
	} {
		s.mu.Lock()
		s.faults, s.asked = test.faults, nil
		s.mu.Unlock()
		f := target(t, test.has)
		if err := s.download(t).into(t.Context(), f); err != nil || !bytes.Equal(content(t, f), image) {
			t.Errorf("%s: %v, %d bytes", name, err, len(content(t, f)))
		}
		if got := s.ranges(); got != test.asked {
			t.Errorf("%s: asked for %q, want %q", name, got, test.asked)
		}
	}
}

func TestFetchRefused(t *testing.T) {
	image := fakeImage(1000, 'x')
	chunked := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(image)
		_ = http.NewResponseController(w).Flush()
		_, _ = w.Write(image)
	}
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   errs.Kind
	}{
		"unauthorized": {status(401), errs.Forbidden}, "forbidden": {status(403), errs.Forbidden}, "gone": {status(404), errs.NotFound},
		"elsewhere": {status(302), errs.NotFound}, "of unknown size": {chunked, errs.Invalid},
	} {
		s := newShop(t, image, test.answer)
		if err := s.download(t).into(t.Context(), target(t, nil)); !errs.Is(err, test.want) || s.count() != 1 || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v after %d requests, want kind %d", name, err, s.count(), test.want)
		}
	}
	s := newShop(t, image)
	s.Config.Handler = status(500)
	d := s.download(t)
	d.patience = 50 * time.Millisecond
	if err := d.into(t.Context(), target(t, nil)); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "nothing came for 50ms") {
		t.Errorf("never: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.download(t).into(ctx, target(t, nil)); err == nil {
		t.Error("canceled: no error")
	}
}

// TestAllOfAnotherState: what an earlier run had begun to fetch may be of another state of the image. That the rest of
// it took longer than a silence may is none.
func TestAllOfAnotherState(t *testing.T) {
	image := fakeImage(1000, 'x')
	patience := 500 * time.Millisecond
	var s *shop
	slow := func(w http.ResponseWriter, r *http.Request) {
		<-time.After(patience)
		s.serve(w, r)
	}
	s = newShop(t, image, slow)
	d, f := s.download(t), target(t, fakeImage(999, 'y'))
	d.patience = patience
	if err := d.into(t.Context(), f); err != nil || !bytes.Equal(content(t, f), image) || s.count() != 2 {
		t.Errorf("%v, %d bytes after %d requests", err, len(content(t, f)), s.count())
	}
}

// TestEndedWhileVerifying: who is asked to end does not wait for a check sum either.
func TestEndedWhileVerifying(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := &download{older: true, digest: digestOf(nil)}
	if err := d.verify(ctx, target(t, fakeImage(1000, 'x'))); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

// The credential is not given to whoever pretends to be the service.
func TestFetchFromStrangers(t *testing.T) {
	s := newShop(t, fakeImage(1000, 'x'))
	u := s.uplink()
	u.CA = ""
	d, err := newDownload(u, slog.New(slog.DiscardHandler))
	must(t, err)
	if err := d.into(t.Context(), target(t, nil)); !errs.Is(err, errs.Missing) || !strings.Contains(err.Error(), "authority that is not known") || s.count() != 0 {
		t.Errorf("an unknown certificate: %v, %d requests", err, s.count())
	}
	for _, bad := range []control.Uplink{
		{}, {Image: "://"}, {Image: "http://example.org/sif/x"}, {Image: "file:///etc/passwd"}, {Image: "https://u:p@example.org/"}, {Image: "https://x/", CA: "none"},
	} {
		if _, err := newDownload(bad, slog.New(slog.DiscardHandler)); !errs.Is(err, errs.Invalid) || strings.Contains(err.Error(), ":p@") {
			t.Errorf("%s: %v", bad.Image, err)
		}
	}
	if _, err := newDownload(control.Uplink{Image: "http://127.0.0.1:1/x"}, nil); err != nil {
		t.Errorf("the same host: %v", err)
	}
}

// times gives the shop a certificate that holds from one time to another, and whoever asks the trust in it.
func (s *shop) times(t *testing.T, from, to time.Time) control.Uplink {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: to, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	s.TLS.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	u := s.uplink()
	u.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return u
}

// TestWhyThereIsNoImage: the end of a run that got no image says in one sentence why, and who mends it.
func TestWhyThereIsNoImage(t *testing.T) {
	now, day := time.Now(), 24*time.Hour
	for name, tc := range map[string]struct {
		uplink   func(*shop) control.Uplink
		gone     bool // the image's path leads nowhere
		reason   []string
		remedies string
	}{
		"an expired certificate": {func(s *shop) control.Uplink { return s.times(t, now.Add(-2*day), now.Add(-day)) }, false,
			[]string{"not to be had on the worker node: nothing came for", "holds from", "that of the service"}, "the service's administrator renews it"},
		"a clock a day behind": {func(s *shop) control.Uplink { return s.times(t, now.Add(day), now.Add(2*day)) }, true,
			[]string{"there is no /shared/x.sif; nothing came", "the clock of this machine says"}, "out of its time"},
		"an authority that is not known": {func(s *shop) control.Uplink { u := s.uplink(); u.CA = ""; return u }, false,
			[]string{"signed by an authority that is not known here"}, "uplink.ca_file"},
		"a refused credential": {func(s *shop) control.Uplink { u := s.uplink(); u.Token = "old"; return u }, false,
			[]string{"on the worker node: the service refuses the image to this run"}, "start it again: its credential has expired, or another run has taken its place"},
		"nobody there": {func(s *shop) control.Uplink { defer s.Close(); return s.uplink() }, false, []string{"nothing listens there"}, "may be restarting"},
	} {
		s := newShop(t, fakeImage(1000, 'x'))
		d, err := newDownload(tc.uplink(s), slog.New(slog.DiscardHandler))
		must(t, err)
		d.patience = 0
		w := &worker{plan: Plan{Image: Image{Digest: "sha256:0123456789abcdef"}}, log: slog.New(slog.DiscardHandler)}
		missing := errNoPath
		if tc.gone {
			missing = errors.New("there is no /shared/x.sif")
		}
		e := w.couldNot(t.Context(), w.noImage(missing, d.into(t.Context(), target(t, nil))))
		for _, want := range tc.reason {
			if !strings.Contains(e.Reason, want) {
				t.Errorf("%s: %q does not say %q", name, e.Reason, want)
			}
		}
		if !strings.Contains(e.Remedy, tc.remedies) || strings.Contains(e.Reason, tc.remedies) || strings.Contains(e.Reason, "hush") {
			t.Errorf("%s: %q, remedy %q", name, e.Reason, e.Remedy)
		}
	}
}

func TestCheckImage(t *testing.T) {
	squash := bytes.Repeat([]byte{0}, 200)
	copy(squash, "hsqs")
	binary.LittleEndian.PutUint64(squash[40:], 200)
	endless := fakeImage(1000, 0)
	binary.LittleEndian.PutUint64(endless[120:], 1<<63)
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"sif": {fakeImage(1000, 0), ""}, "squashfs": {squash, ""}, "signed": {append(fakeImage(1000, 0), "signature"...), ""},
		"half": {fakeImage(1000, 0)[:999], "999 bytes of 1000"}, "half a squashfs": {squash[:199], "damaged"}, "short": {squash[:100], "no image"}, "empty": {nil, "no image"},
		"a page": {bytes.Repeat([]byte("<html>"), 100), "no image"}, "endless": {endless, "no image"},
	} {
		err := checkImage(target(t, test.data).Name())
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if err := checkImage(t.TempDir()); err == nil {
		t.Error("a directory is an image")
	}
}

func FuzzRange(f *testing.F) {
	f.Add("bytes 3-9/10")
	f.Add("bytes */10")
	f.Add("bytes -1-9/9223372036854775808")
	f.Fuzz(func(t *testing.T, s string) {
		if from, total, err := parseRange(s); err == nil && (from < 0 || total < from) {
			t.Errorf("%q: %d of %d", s, from, total)
		}
	})
}

func FuzzImageSize(f *testing.F) {
	f.Add(fakeImage(128, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 128 {
			return
		}
		if n, known := imageSize(b); known && n <= 0 {
			t.Errorf("%d bytes", n)
		}
	})
}
