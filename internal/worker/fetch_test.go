package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/testenv"
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
		t.Error("cancelled: no error")
	}
}

// The credential is not given to whoever pretends to be the service.
func TestFetchFromStrangers(t *testing.T) {
	s := newShop(t, fakeImage(1000, 'x'))
	u := s.uplink()
	u.CA = ""
	d, err := newDownload(u, slog.New(slog.DiscardHandler))
	must(t, err)
	if err := d.into(t.Context(), target(t, nil)); !errs.Is(err, errs.Missing) || !strings.Contains(err.Error(), "not accepted") || s.count() != 0 {
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

// get fetches through a cache, and reads what it got.
func get(t *testing.T, c *cache, s *shop, digits string) (string, func()) {
	t.Helper()
	path, release, err := c.get(t.Context(), digits, int64(len(s.image)), func(ctx context.Context, f *os.File) error { return s.download(t).into(ctx, f) })
	must(t, err)
	b, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(b, s.image) {
		t.Errorf("%s: %d bytes, %v", path, len(b), err)
	}
	return path, release
}

func openTestCache(t *testing.T, dir string, most int64) *cache {
	t.Helper()
	c, err := openCache(dir, most, slog.New(slog.DiscardHandler))
	must(t, err)
	return c
}

func name(i int) string { return fmt.Sprintf("%064x", i) }

// Many runs of a node fetch an image once.
func TestCacheFetchesOnce(t *testing.T) {
	s := newShop(t, fakeImage(1<<20, 'x'))
	dir := filepath.Join(t.TempDir(), "images")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			_, release := get(t, openTestCache(t, dir, 0), s, name(1))
			release()
		})
	}
	all.Wait()
	if s.count() != 1 {
		t.Errorf("%d requests", s.count())
	}
	damaged := filepath.Join(dir+"-"+strconv.Itoa(os.Getuid()), name(1)+".sif")
	must(t, os.Truncate(damaged, 1000))
	_, release := get(t, openTestCache(t, dir, 0), s, name(1))
	release()
	if s.count() != 2 {
		t.Errorf("a damaged image: %d requests", s.count())
	}
}

// What is used stays, and of the rest what was used last.
func TestCacheMakesRoom(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	c := openTestCache(t, dir, 3500)
	s := newShop(t, fakeImage(1000, 'x'))
	_, held := get(t, c, s, name(1))
	for i, age := range map[int]time.Duration{2: 2 * time.Hour, 3: 3 * time.Hour} {
		path, release := get(t, c, s, name(i))
		release()
		then := time.Now().Add(-age)
		must(t, os.Chtimes(path, then, then))
	}
	must(t, os.Chtimes(filepath.Join(c.dir, name(1)+".sif"), time.Unix(0, 0), time.Unix(0, 0))) // long unused, but held
	forgotten := filepath.Join(c.dir, name(9)+".part")
	must(t, os.WriteFile(forgotten, nil, 0o600), os.WriteFile(filepath.Join(c.dir, name(9)+".lock"), nil, 0o600), os.Chtimes(forgotten, time.Unix(0, 0), time.Unix(0, 0)))
	_, release := get(t, c, s, name(4))
	release()
	have := func() (list string) {
		for i := range 6 {
			if _, err := os.Stat(filepath.Join(c.dir, name(i)+".sif")); err == nil {
				list += strconv.Itoa(i)
			}
		}
		return list
	}
	if got := have(); got != "124" {
		t.Errorf("it has %s", got)
	}
	if _, err := os.Stat(forgotten); !os.IsNotExist(err) {
		t.Errorf("what nobody went on with: %v", err)
	}
	held()
	big := newShop(t, fakeImage(3000, 'x'))
	_, release = get(t, c, big, name(5))
	release()
	if got := have(); got != "5" {
		t.Errorf("after a large one it has %s", got)
	}
	if _, _, err := c.get(t.Context(), name(0), 4000, nil); err == nil || !errs.Is(noRoom(err), errs.NoSpace) {
		t.Errorf("larger than the cache: %v", err)
	}
}

// A broken download is gone on with by the next run.
func TestCacheGoesOn(t *testing.T) {
	image := fakeImage(1<<20, 'x')
	s := newShop(t, image)
	s.faults = []http.HandlerFunc{s.breaks(500_000), status(404)} // nobody asks yet
	c := openTestCache(t, filepath.Join(t.TempDir(), "images"), 0)
	if _, _, err := c.get(t.Context(), name(1), 0, func(ctx context.Context, f *os.File) error { return s.download(t).into(ctx, f) }); !errs.Is(err, errs.NotFound) {
		t.Errorf("broken: %v", err)
	}
	_, release := get(t, c, s, name(1))
	release()
	if got := s.ranges(); got != ",bytes=500000-,bytes=500000-" {
		t.Errorf("asked for %q", got)
	}
}

// What others can change is not trusted, and what root provides is.
func TestCacheTrusts(t *testing.T) {
	testenv.Need(t, testenv.Root) // for directories of another user's
	me, log := strconv.Itoa(os.Getuid()), slog.New(slog.DiscardHandler)
	for what, make := range map[string]func(dir string) error{
		"a directory that anybody may change": func(dir string) error { return os.Chmod(dir, 0o777) },
		"a directory of somebody else's":      func(dir string) error { return os.Chown(dir, nobody, nobody) },
		"a part of somebody else's": func(dir string) error {
			return joinAll(os.Mkdir(filepath.Join(dir, me), 0o700), os.Chown(filepath.Join(dir, me), nobody, nobody))
		},
		"a part that others read": func(dir string) error { return os.Mkdir(filepath.Join(dir, me), 0o755) },
		"a link":                  func(dir string) error { return os.Symlink("/tmp", filepath.Join(dir, me)) },
	} {
		dir := t.TempDir()
		must(t, os.Chmod(dir, 0o755), make(dir))
		if c, err := openCache(dir, 0, log); err == nil {
			t.Errorf("%s: %+v", what, c)
		}
	}
	dir := t.TempDir()
	provided := filepath.Join(dir, name(1)+".sif")
	must(t, os.Chmod(dir, os.ModeSticky|0o777), os.WriteFile(provided, fakeImage(1000, 'x'), 0o644))
	c := openTestCache(t, dir, 0)
	if path, release := get(t, c, &shop{image: fakeImage(1000, 'x')}, name(1)); path != provided {
		t.Errorf("it gives %s", path)
	} else {
		release()
	}
	for what, spoil := range map[string]func() error{
		"of somebody else": func() error { return os.Chown(provided, nobody, nobody) },
		"writable":         func() error { return joinAll(os.Chown(provided, 0, 0), os.Chmod(provided, 0o666)) },
	} {
		must(t, spoil())
		if got := c.provided(name(1)); got != "" {
			t.Errorf("%s: %s", what, got)
		}
	}
}

func joinAll(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestFetchedImage: two runs of one node get an image from the service, and fetch it once.
func TestFetchedImage(t *testing.T) {
	first := newNode(t, "echo here")
	image, err := os.ReadFile(first.plan.Image.Path)
	must(t, err)
	s := newShop(t, image)
	dir := filepath.Join(shared(), "cache")
	must(t, os.Mkdir(dir, 0o755), os.Chmod(dir, os.ModeSticky|0o777))
	for _, n := range []*node{first, newNode(t, "echo here")} {
		n.plan.Image.Path, n.plan.Cache, n.link = filepath.Join(shared(), "nowhere.sif"), dir, s.uplink()
		if code, e := n.run(); code != 0 || n.out(LogFile) != "here\n" {
			t.Errorf("code %d, %+v, %s", code, e, n.out(LogFile))
		}
	}
	if s.count() != 1 {
		t.Errorf("%d requests", s.count())
	}
	n := newNode(t, "echo here")
	n.plan.Image.Path, n.plan.Cache, n.link = "", "", s.uplink()
	if code, e := n.run(); code != 0 || s.count() != 2 {
		t.Errorf("without a cache: code %d, %+v, %d requests", code, e, s.count())
	}
}

// TestEndedWhileFetching: who is asked to end does not wait for the image, and what has come of it stays for the next run.
func TestEndedWhileFetching(t *testing.T) {
	n := newNode(t, "echo here")
	image, err := os.ReadFile(n.plan.Image.Path)
	must(t, err)
	half := make(chan struct{})
	s := newShop(t, image, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(image)))
		_, _ = w.Write(image[:len(image)/2])
		_ = http.NewResponseController(w).Flush()
		close(half)
		<-r.Context().Done()
	})
	n.plan.Image.Path, n.plan.Cache, n.link = "", filepath.Join(shared(), "ended"), s.uplink()
	must(t, os.Mkdir(n.plan.Cache, 0o755), os.Chmod(n.plan.Cache, os.ModeSticky|0o777))
	n.send()
	n.start()
	<-half
	part := filepath.Join(n.plan.Cache, strconv.Itoa(nobody), strings.TrimPrefix(n.plan.Image.Digest, "sha256:")+partExt)
	until(t, "half of the image has come", func() bool { st, err := os.Stat(part); return err == nil && st.Size() == int64(len(image)/2) })
	must(t, n.cmd.Process.Signal(syscall.SIGTERM))
	if code, e := n.wait(); code != 143 || !strings.Contains(e.Reason, "before it had started") {
		t.Errorf("code %d, %+v", code, e)
	}
	again := newNode(t, "echo here")
	again.plan.Image.Path, again.plan.Cache, again.link = "", n.plan.Cache, s.uplink()
	if code, e := again.run(); code != 0 || s.ranges() != fmt.Sprintf(",bytes=%d-", len(image)/2) {
		t.Errorf("the next run: code %d, %+v, asked for %s", code, e, s.ranges())
	}
}
