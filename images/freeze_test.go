package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/images/manifest"
	"slipway/images/progress"
	"slipway/images/records"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// session counts pauses and resumes of a source.
type session struct {
	mu              sync.Mutex
	pauses, resumes int
	paused          func(context.Context) error // called while paused
}

func (s *session) attach(src *Source) {
	src.Pause = func(ctx context.Context) error {
		s.mu.Lock()
		s.pauses++
		s.mu.Unlock()
		if s.paused != nil {
			return s.paused(ctx)
		}
		return nil
	}
	src.Resume = func(ctx context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := ctx.Err(); err != nil {
			return err // an engine would not even be asked
		}
		s.resumes++
		return nil
	}
}

func (s *session) check(t *testing.T, want int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pauses != want || s.resumes != want {
		t.Errorf("paused %d times, resumed %d times; want %d", s.pauses, s.resumes, want)
	}
}

func TestUnchanged(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(nastyChanges)
	dir := filepath.Join(t.TempDir(), "library")
	l := openLibrary(t, Config{Dir: dir})
	var s session
	run := func(change func(*Request)) records.Environment {
		return freeze(t, l, f, func(r *Request) {
			s.attach(&r.Source)
			if change != nil {
				change(r)
			}
		})
	}
	first := run(nil)
	must(t, l.Close())
	l = openLibrary(t, Config{Dir: dir}) // the fingerprint outlives the service
	if again := run(nil); !again.Unchanged || again.Digest != first.Digest || !again.Created.Equal(first.Created) {
		t.Errorf("unchanged: %+v", again)
	}
	s.check(t, 1)
	named := run(func(r *Request) { r.Name, r.Tag = "ana", "v1" })
	if got, err := l.Records.Get("alice", "ana"); err != nil || !named.Unchanged || got.Digest != first.Digest {
		t.Errorf("named: %+v, %v", named, err)
	}
	must(t, write(filepath.Join(f.upper, "root/.ssh/more"), "strip rules match it"))
	if e := run(nil); e.Digest != first.Digest {
		t.Error("a stripped file changed the digest")
	}

	for name, change := range map[string]func(*Request){
		"base":   func(r *Request) { r.Source.Base.Digest = "sha256:other" },
		"mounts": func(r *Request) { r.Source.Mounts = []string{"/x"} },
		"env":    func(r *Request) { r.Source.Config.Env = []string{"A=b"} },
		"key":    func(r *Request) { r.Key = "s2" },
		"owner":  func(r *Request) { r.Owner = "bob" },
	} {
		if e := run(change); e.Unchanged {
			t.Errorf("another %s counts as unchanged", name)
		}
	}
	run(nil)
	must(t, os.Remove(l.dir.Image(first.Digest)))
	if e := run(nil); e.Unchanged || e.Digest != first.Digest {
		t.Errorf("with its file gone: %+v", e)
	}
	must(t, os.Chmod(filepath.Join(f.upper, "opt/locked"), 0o600))
	if e := run(nil); e.Unchanged || e.Digest == first.Digest {
		t.Error("a changed mode counts as unchanged")
	}
	if _, err := l.Verify(t.Context(), first.Digest); err != nil {
		t.Errorf("Verify: %v", err)
	}
}

// TestIdleSource is held still like another, but nothing stood still for it.
func TestIdleSource(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(nastyChanges)
	var s session
	e := freeze(t, newLibrary(t), f, func(r *Request) {
		s.attach(&r.Source)
		r.Source.Idle = true
	})
	if s.check(t, 1); e.Paused != 0 {
		t.Errorf("it stood still for %v", e.Paused)
	}
}

func TestOwnersAreApart(t *testing.T) {
	f := newFixture(t, nastyBase)
	l := newLibrary(t)
	names := []string{"alice", "Alice", "../alice", strings.Repeat("ü", 200)}
	var digest string
	for _, owner := range names {
		digest = freeze(t, l, f, func(r *Request) { r.Owner, r.Name = owner, "mine" }).Digest
	}
	for _, owner := range names {
		if all, err := l.Records.List(owner); err != nil || len(all) != 1 || all[0].Owner != owner {
			t.Errorf("List(%q) = %v, %v", owner, all, err)
		}
	}
	for _, ref := range []string{"mine", digest, digest[7:20]} {
		if _, err := l.Records.Get("mallory", ref); !errs.Is(err, errs.NotFound) {
			t.Errorf("mallory gets %q: %v", ref, err)
		}
	}
	if blobs, _ := os.ReadDir(l.dir.Path("blobs")); len(blobs) != 1 {
		t.Errorf("%d blobs of one tree", len(blobs))
	}
	for path, want := range map[string]os.FileMode{"": 0o711, "blobs": 0o711, "records": 0o700, "sources": 0o700, "work": 0o700} {
		if st, err := os.Stat(l.dir.Path(path)); err != nil || st.Mode().Perm() != want {
			t.Errorf("%q has mode %v, want %v", path, st.Mode(), want)
		}
	}
	if st, err := os.Stat(l.dir.Image(digest)); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("the image has mode %v", st.Mode())
	}
}

func TestTwoFreezesOfOneSessionAreOne(t *testing.T) {
	f := newFixture(t, nastyBase)
	l := newLibrary(t)
	joined := make(chan struct{})
	s := session{paused: func(ctx context.Context) error { <-joined; return nil }}
	var wg sync.WaitGroup
	stages := make([][]progress.Stage, 2)
	envs := make([]records.Environment, 2)
	for i := range 2 {
		req := Request{Owner: "alice", Key: "s1", Name: []string{"", "second"}[i], Source: f.source()}
		s.attach(&req.Source)
		req.Progress = func(p progress.Progress) {
			stages[i] = append(stages[i], p.Stage)
		}
		wg.Go(func() {
			e, err := l.Freeze(t.Context(), req)
			if err != nil {
				t.Error(err)
			}
			envs[i] = e
		})
	}
	testenv.Until(t, "both wait for one freeze", testenv.Hang, func() bool {
		return l.freezes.Waiting("alice\x00s1") == 2
	})
	close(joined)
	wg.Wait()
	s.check(t, 1)
	if envs[0].Digest == "" || envs[0].Digest != envs[1].Digest {
		t.Errorf("digests %q and %q", envs[0].Digest, envs[1].Digest)
	}
	for _, got := range stages {
		if want := []progress.Stage{progress.Scanning, progress.Preparing, progress.Reading, progress.Settling, progress.Indexing, progress.Writing, progress.Done}; !slices.Equal(slices.Compact(got), want) {
			t.Errorf("stages %v, want %v", got, want)
		}
	}
	if e, err := l.Records.Get("alice", "second"); err != nil || e.Digest != envs[0].Digest {
		t.Errorf("the second caller's name: %v", err)
	}
}

func TestCanceledBeforeItBegins(t *testing.T) {
	f := newFixture(t, nastyBase)
	l := newLibrary(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var s session
	req := Request{Owner: "alice", Key: "s1", Source: f.source()}
	s.attach(&req.Source)
	if _, err := l.Freeze(ctx, req); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	s.check(t, 0)
	noLeftovers(t, l)
}

func TestCanceledWhileTheBaseIsConverted(t *testing.T) {
	f := newFixture(t, nastyBase)
	l := newLibrary(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.convert(ctx, strings.Repeat("0", 64), f.source(), &progress.Meter{}); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	noLeftovers(t, l)
	if bases, _ := os.ReadDir(l.dir.Path("bases")); len(bases) != 0 {
		t.Errorf("%d files of a canceled conversion", len(bases))
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if must(t, err); strings.Contains(string(mounts), string(l.dir)) {
		t.Error("a mount is left")
	}
}

func TestCanceledWhilePaused(t *testing.T) {
	f := newFixture(t, nastyBase)
	l := newLibrary(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := session{paused: func(context.Context) error { cancel(); return nil }}
	req := Request{Owner: "alice", Key: "s1", Source: f.source()}
	s.attach(&req.Source)
	if _, err := l.Freeze(ctx, req); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	s.check(t, 1)
	noLeftovers(t, l)
	if all, _ := l.Records.List("alice"); len(all) != 0 {
		t.Errorf("%d environments", len(all))
	}
}

func TestOneCallerLeavesTheOtherStays(t *testing.T) {
	f := newFixture(t, nastyBase)
	l := newLibrary(t)
	release := make(chan struct{})
	s := session{paused: func(context.Context) error { <-release; return nil }}
	req := Request{Owner: "alice", Key: "s1", Source: f.source()}
	s.attach(&req.Source)
	first, cancel := context.WithCancel(t.Context())
	gone, stays := make(chan error, 1), make(chan error, 1)
	go func() { _, err := l.Freeze(first, req); gone <- err }()
	testenv.Until(t, "the first has begun", testenv.Hang, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.pauses == 1 })
	go func() { _, err := l.Freeze(t.Context(), req); stays <- err }()
	testenv.Until(t, "the second waits too", testenv.Hang, func() bool {
		return l.freezes.Waiting("alice\x00s1") == 2
	})
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the first: %v", err)
	}
	close(release)
	if err := <-stays; err != nil {
		t.Errorf("the second: %v", err)
	}
	s.check(t, 1)
}

func TestSessionIsResumedAfterEveryError(t *testing.T) {
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		paused func(f *fixture) error
		want   string
	}{
		"pause fails":    {func(*fixture) error { return boom }, "pause: boom"},
		"upper vanishes": {func(f *fixture) error { return os.RemoveAll(f.upper) }, "no such file"},
		"the image vanishes": {func(f *fixture) error {
			return errors.Join(unix.Setxattr(f.upper, "trusted.overlay.future", nil, 0), os.RemoveAll(f.layers[0])) // so that the whole is packed
		}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nastyBase)
			l := newLibrary(t)
			s := session{paused: func(context.Context) error { return tc.paused(f) }}
			req := Request{Owner: "alice", Key: "s1", Source: f.source()}
			s.attach(&req.Source)
			_, err := l.Freeze(t.Context(), req)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("err = %v, want %q in it", err, tc.want)
			}
			if name == "upper vanishes" != errs.Is(err, errs.Conflict) {
				t.Errorf("kind %v: %v", errs.KindOf(err), err)
			}
			if s.pauses == 0 || s.pauses != s.resumes {
				t.Errorf("paused %d times, resumed %d times", s.pauses, s.resumes)
			}
			noLeftovers(t, l)
		})
	}
}

func TestResumeThatFailsIsTold(t *testing.T) {
	f := newFixture(t, nastyBase)
	req := Request{Owner: "alice", Key: "s1", Source: f.source()}
	req.Source.Pause = func(context.Context) error { return nil }
	req.Source.Resume = func(context.Context) error { return errors.New("no answer") }
	if _, err := newLibrary(t).Freeze(t.Context(), req); err == nil || !strings.Contains(err.Error(), "resume: no answer") {
		t.Errorf("err = %v", err)
	}
}

// TestDiskFull leaves ever less space, so that each step in turn is the one that finds none.
func TestDiskFull(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Loop)
	f := newFixture(t, nastyBase)
	noise := make([]byte, 3<<20)
	for i := range noise {
		noise[i] = byte(i * i >> 7 * 31)
	}
	must(t, os.WriteFile(filepath.Join(f.upper, "noise"), noise, 0o644), os.WriteFile(filepath.Join(f.layers[0], "noise2"), noise[1:], 0o644))
	disk := smallDisk(t, 16)
	l := openLibrary(t, Config{Dir: filepath.Join(disk, "library")})
	var failed int
	for _, free := range []int64{0, 4 << 10, 16 << 10, 48 << 10, 64 << 10, 1 << 20, 3<<20 + 64<<10, 3<<20 + 256<<10} {
		t.Run(fmt.Sprint(free), func(t *testing.T) {
			fill(t, disk, free)
			var s session
			req := Request{Owner: "alice", Key: "s1", Source: f.source()}
			s.attach(&req.Source)
			_, err := l.Freeze(t.Context(), req)
			if err != nil {
				failed++
				if !errs.Is(err, errs.NoSpace) || !strings.Contains(err.Error(), "MB are free on the file system of "+string(l.dir)) {
					t.Errorf("err = %v", err)
				}
			}
			if s.pauses != s.resumes {
				t.Errorf("paused %d times, resumed %d times", s.pauses, s.resumes)
			}
			noLeftovers(t, l)
			blobs, _ := os.ReadDir(l.dir.Path("blobs"))
			if all, listErr := l.Records.List("alice"); listErr != nil || err != nil && len(all)+len(blobs) > 0 {
				t.Errorf("visible after the error: %d environments, %d blobs, %v", len(all), len(blobs), listErr)
			}
		})
	}
	if failed < 5 { // what is there of the base is not written again
		t.Errorf("only %d freezes ran out of space", failed)
	}
	must(t, os.Remove(filepath.Join(disk, "ballast")))
	freeze(t, l, f, nil)
}

func smallDisk(t *testing.T, mb int) string {
	t.Helper()
	image, point := filepath.Join(t.TempDir(), "disk"), t.TempDir()
	must(t, os.WriteFile(image, nil, 0o600), os.Truncate(image, int64(mb)<<20))
	for _, argv := range [][]string{{"mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image}, {"mount", "-o", "loop", image, point}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", argv, err, out)
		}
	}
	t.Cleanup(func() { must(t, unix.Unmount(point, unix.MNT_DETACH)) })
	return point
}

// fill leaves about free bytes on the disk.
func fill(t *testing.T, disk string, free int64) {
	t.Helper()
	ballast := filepath.Join(disk, "ballast")
	must(t, os.WriteFile(ballast, nil, 0o600))
	var st unix.Statfs_t
	must(t, unix.Statfs(disk, &st))
	size := max(0, int64(st.Bavail)*st.Bsize-free-8<<10) // indirect blocks of the file itself
	must(t, exec.Command("fallocate", "-l", fmt.Sprint(max(1, size)), ballast).Run())
}

// TestWhatTheEngineKeepsIsTold: what a capture could not carry stands among the losses, in the image too.
func TestWhatTheEngineKeepsIsTold(t *testing.T) {
	f := newFixture(t, nastyBase)
	l := newLibrary(t)
	e := freeze(t, l, f, func(r *Request) { r.Source.Lost = []string{"sockets", "extended attributes"} })
	inImage, err := l.manifest(e.Digest)
	must(t, err)
	for _, m := range []manifest.Manifest{e.Manifest, inImage} {
		if !slices.Equal(m.Losses.Others, []string{"extended attributes", "sockets"}) {
			t.Errorf("%+v", m.Losses)
		}
	}
	if again := freeze(t, l, f, nil); again.Unchanged || len(again.Manifest.Losses.Others) > 0 {
		t.Errorf("by another way it is %+v", again.Manifest.Losses)
	}
}
