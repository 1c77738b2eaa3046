package environments

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"slipway/hubapi"
	"slipway/images"
	"slipway/images/changeset"
	"slipway/images/records"
	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/testenv"
	"slipway/spawner"
)

// keepingSessions are remoteSessions whose users have accounts.
func keepingSessions(t *testing.T) *Service {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Docker, testenv.Mksquashfs, testenv.Busybox)
	s := remoteSessions(t)
	s.cfg.Principal = func(_ string, user spawner.User) string { return string(user) }
	s.cfg.Account = func(_ context.Context, _ string, user spawner.User) (spawner.Account, error) {
		return spawner.Account{Login: string(user), UID: 20000, GID: 100, Home: s.path("homes", string(user))}, nil
	}
	return s
}

// session is a remote session that was started from an environment.
func remoteSession(from, kept string) spawner.Workload {
	w := spawner.Workload{ID: "s-0123456789abcdef", Kind: spawner.Lab, Owner: "alice", Hub: "main", RemoteRecord: spawner.RemoteRecord{Kept: kept, From: from, Remote: true}}
	w.Spec.Environment = from
	return w
}

// changesIn packs what a session has changed, as its agent does.
func changesIn(t *testing.T, files map[string]string) io.Reader {
	t.Helper()
	upper := t.TempDir()
	must(t, os.Chmod(upper, 0o755))
	for path, content := range files {
		at := filepath.Join(upper, path)
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		if content == "" {
			must(t, unix.Mknod(at, unix.S_IFCHR, 0))
			continue
		}
		must(t, os.WriteFile(at, []byte(content), 0o644))
	}
	var out bytes.Buffer
	must(t, changeset.Pack(t.Context(), changeset.Config{Upper: upper, Marks: changeset.Trusted}, &out))
	return iotest.OneByteReader(&out)
}

// shows returns the files below /opt of an environment.
func (s *Service) shows(t *testing.T, digest string) map[string]string {
	t.Helper()
	sif, err := s.library.Ready(t.Context(), digest)
	must(t, err)
	dir := filepath.Join(t.TempDir(), "tree")
	must(t, exec.Command("unsquashfs", "-q", "-n", "-offset", "32768", "-dest", dir, sif, "opt").Run())
	out := map[string]string{}
	must(t, filepath.WalkDir(filepath.Join(dir, "opt"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			out[strings.TrimPrefix(path, dir+"/opt/")] = string(text)
			return err
		}
		return err
	}))
	return out
}

func noTell(string, int) {}

// TestBase: a plain image becomes one environment, which is nobody's, and stays one when the image goes from the
// engine.
func TestBase(t *testing.T) {
	s := keepingSessions(t)
	image := tinyImage(t)
	told := 0
	first, err := s.Base(t.Context(), image, func(string, int) { told++ })
	must(t, err)
	if told == 0 {
		t.Error("it tells nothing")
	}
	for name, happens := range map[string]func(){
		"nothing": func() {}, "a restart": s.bases.Clear,
		"damage": func() {
			must(t, os.Truncate(s.path("environments", "blobs", strings.TrimPrefix(first, "sha256:")+".sif"), 1<<10))
		},
	} {
		happens()
		again, err := s.Base(t.Context(), image, noTell)
		if err != nil || again != first {
			t.Errorf("after %s it is %s, was %s: %v", name, again, first, err)
		}
		if _, err := s.library.Ready(t.Context(), first); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
	if got := s.shows(t, first); got["dir/old"] != "dir/old" || len(got) != 9 {
		t.Errorf("it shows %v", got)
	}
	for _, owner := range []string{"alice", "", "@"} {
		if all, err := s.library.Records.List(owner); err != nil || len(all) > 0 {
			t.Errorf("%q has %v, %v", owner, all, err)
		}
	}
	if _, err := s.library.Records.Find(records.Viewer{Owner: "alice"}, "", first); !errs.Is(err, errs.NotFound) {
		t.Errorf("alice finds it: %v", err)
	}
	must(t, exec.Command("docker", "rmi", "-f", image).Run())
	if again, err := s.Base(t.Context(), image, noTell); err != nil || again != first {
		t.Errorf("without the engine it is %s, was %s: %v", again, first, err)
	}
	if _, err := s.Base(t.Context(), "slipway-test/none:1", noTell); !errs.Is(err, errs.Missing) && !errs.Is(err, errs.NotFound) {
		t.Errorf("of no image: %v", err)
	}
	if left, err := os.ReadDir(s.path("fetch")); len(left) > 0 || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestKeep: what a session changes goes from start to start, without the image in the engine, and what it looked like
// before is let go.
func TestKeep(t *testing.T) {
	s := keepingSessions(t)
	image := tinyImage(t)
	from, err := s.Base(t.Context(), image, noTell)
	must(t, err)
	must(t, exec.Command("docker", "rmi", "-f", image).Run())
	want := s.shows(t, from)
	first, err := s.Keep(t.Context(), remoteSession(from, ""), changesIn(t, map[string]string{
		"opt/new": "1", "opt/gone": "", "opt/empty": " ",
	}))
	must(t, err)
	want["new"], want["empty"] = "1", " "
	delete(want, "gone")
	if diff := cmp.Diff(want, s.shows(t, first)); diff != "" {
		t.Error("after the first run (-want +got):", diff)
	}
	stream, err := io.ReadAll(changesIn(t, map[string]string{"opt/dir/more": "2", "opt/new": ""}))
	must(t, err)
	second, err := s.Keep(t.Context(), remoteSession(first, first), bytes.NewReader(stream))
	must(t, err)
	want["dir/more"] = "2"
	delete(want, "new")
	if diff := cmp.Diff(want, s.shows(t, second)); diff != "" {
		t.Error("after the second run (-want +got):", diff)
	}
	if again, err := s.Keep(t.Context(), remoteSession(first, first), bytes.NewReader(stream)); err != nil || again != second {
		t.Errorf("again it is %s, was %s: %v", again, second, err)
	}
	if all, err := s.library.Records.List("alice"); err != nil || len(all) > 0 {
		t.Errorf("alice sees %v, %v", all, err)
	}
	third, err := s.Keep(t.Context(), remoteSession(second, second), changesIn(t, map[string]string{"opt/third": "3"}))
	must(t, err)
	var kept []string
	all, err := s.library.Records.List(carriedOf("alice"))
	must(t, err)
	for _, e := range all {
		kept = append(kept, e.Digest)
	}
	if diff := cmp.Diff([]string{third, second}, kept); diff != "" {
		t.Error("kept (-want +got):", diff)
	}
	statements, err := s.library.Statements.List(third)
	if err != nil || len(statements) > 0 {
		t.Errorf("somebody vouches for it: %v, %v", statements, err)
	}
}

// TestKeepQuota: what a session had kept makes room for what takes its place; what does not fit is told, with what to
// do.
func TestKeepQuota(t *testing.T) {
	s := keepingSessions(t)
	s.cfg.QuotasOf = func(principal string) []records.Quota {
		return []records.Quota{{Owners: []string{principal}, Bytes: 1 << 20}}
	}
	s.library.Close()
	var err error
	s.library, err = images.Open(images.Config{Dir: s.path("environments"), Logger: s.log, Quotas: s.quotas})
	must(t, err)
	from, err := s.Base(t.Context(), tinyImage(t), noTell)
	must(t, err)
	first, err := s.Keep(t.Context(), remoteSession(from, ""), changesIn(t, map[string]string{"opt/big": noise(700_000)}))
	must(t, err)
	second, err := s.Keep(t.Context(), remoteSession(first, first), changesIn(t, map[string]string{"opt/big": noise(710_000)}))
	must(t, err)
	_, err = s.Keep(t.Context(), remoteSession(second, second), changesIn(t, map[string]string{"opt/bigger": noise(1_100_000)}))
	if !errs.Is(err, errs.OverQuota) || !strings.Contains(err.Error(), "discard sessions") {
		t.Errorf("over the quota: %v", err)
	}
	if u, err := s.library.Usage(t.Context(), "alice"); err != nil || len(u.Bounds) != 1 || u.Bounds[0].Own < 700_000 {
		t.Errorf("alice uses %+v, %v", u, err)
	}
	if u, err := s.library.Usage(t.Context(), basesOwner); err != nil || len(u.Bounds) != 0 {
		t.Errorf("the bases are bounded: %+v, %v", u, err)
	}
	if left, err := os.ReadDir(s.path("fetch")); len(left) > 0 || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
}

func noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return string(b)
}

// TestSweepCarried: what no session needs is let go after a while, and so is what was made of images that nobody
// offers.
func TestSweepCarried(t *testing.T) {
	s := keepingSessions(t)
	image, other := tinyImage(t), tinyImage(t)
	s.cfg.Site.Images = []config.Image{{Name: "one", Ref: image}, {Name: "two", Ref: other}}
	s.cfg.Site.Profiles = []config.Profile{{Images: []string{"one"}, Backend: config.BackendHTCondor}, {Images: []string{"one", "two"}}}
	offered, err := s.Base(t.Context(), image, noTell)
	must(t, err)
	_, err = s.Base(t.Context(), other, noTell)
	must(t, err)
	kept, err := s.Keep(t.Context(), remoteSession(offered, ""), changesIn(t, map[string]string{"opt/new": "1"}))
	must(t, err)
	_, err = s.library.Freeze(t.Context(), images.Request{Owner: "alice", Key: "hers", Source: s.sourceOver(t, offered)})
	must(t, err)
	count := func() map[string]int {
		out := map[string]int{}
		all, err := s.library.Records.Everyones()
		must(t, err)
		for _, e := range all {
			out[e.Owner]++
		}
		return out
	}
	for _, step := range []struct {
		needed []string
		after  time.Duration
		want   map[string]int
	}{
		{nil, 0, map[string]int{basesOwner: 2, carriedOf("alice"): 1, "alice": 1}},
		{[]string{kept}, 2 * unneeded, map[string]int{basesOwner: 1, carriedOf("alice"): 1, "alice": 1}},
		{nil, 2 * unneeded, map[string]int{basesOwner: 1, "alice": 1}},
	} {
		must(t, s.sweepCarried(step.needed, time.Now().Add(step.after)))
		if diff := cmp.Diff(step.want, count()); diff != "" {
			t.Errorf("after %s with %v (-want +got): %s", step.after, step.needed, diff)
		}
	}
}

// TestKeptIsFresh: what a session keeps anew is not swept away because it is what it had long ago.
func TestKeptIsFresh(t *testing.T) {
	s := keepingSessions(t)
	now := time.Now()
	s.library.Close()
	var err error
	s.library, err = images.Open(images.Config{Dir: s.path("environments"), Logger: s.log, Now: func() time.Time { return now }})
	must(t, err)
	from, err := s.Base(t.Context(), tinyImage(t), noTell)
	must(t, err)
	stream, err := io.ReadAll(changesIn(t, map[string]string{"opt/new": "1"}))
	must(t, err)
	digest := ""
	for range 2 {
		digest, err = s.Keep(t.Context(), remoteSession(from, digest), bytes.NewReader(stream))
		must(t, err)
		must(t, s.sweepCarried([]string{from}, now))
		if all, err := s.library.Records.List(carriedOf("alice")); err != nil || len(all) != 1 || all[0].Digest != digest {
			t.Errorf("kept %s, there are %v, %v", digest, all, err)
		}
		now = now.Add(2 * unneeded)
	}
}

// TestFreezeOfWhatIsNotKept: while a remote session's changes are nowhere to be had, no older state is taken for them.
func TestFreezeOfWhatIsNotKept(t *testing.T) {
	tests := map[string]struct {
		phase  spawner.Phase
		unkept string
		remedy string
	}{
		"not kept":  {spawner.Stopped, "over quota", "start it, which keeps that first, and freeze it then"},
		"ending":    {spawner.Stopping, "", "wait until its events say that they are kept, and it has stopped"},
		"in line":   {spawner.Pending, "", "wait until it runs"},
		"submitted": {spawner.Starting, "", "wait until it runs"},
	}
	for name, tt := range tests {
		w := remoteSession("sha256:base", "sha256:older")
		w.Phase, w.Unkept = tt.phase, tt.unkept
		_, _, err := new(Service).captureRemoteSession(t.Context(), w, func(hubapi.Progress) {})
		if !errs.Is(err, errs.Conflict) || !strings.HasSuffix(err.Error(), ": "+tt.remedy) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// sourceOver is a session from an environment, which has changed nothing.
func (s *Service) sourceOver(t *testing.T, environment string) images.Source {
	t.Helper()
	w := remoteSession(environment, "")
	w.Phase = spawner.Stopped
	source, done, err := s.captureRemoteSession(t.Context(), w, func(hubapi.Progress) {})
	must(t, err)
	t.Cleanup(done)
	return source
}
