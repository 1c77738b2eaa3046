package environments

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"slipway/hubapi"
	"slipway/images"
	"slipway/images/apptainer"
	"slipway/images/changeset"
	"slipway/images/manifest"
	"slipway/images/records"
	"slipway/internal/agent/control"
	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/testenv"
	"slipway/internal/testenv/program"
	"slipway/internal/tunnel"
	"slipway/spawner/docker"
)

const nobody = 65534

// listing shows the tree as the session sees it, without what Apptainer mounts in it and what never travels. A
// directory that gets mount points has their time.
const listing = `
cd /
sift='( -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp -o -path ./run -o -path ./.singularity.d -o -path ./etc -o -path ./var -o -path ./root/.ssh ) -prune -o'
echo "=== begin"
find . -xdev $sift -type d ! -path . -print0 | sort -z | xargs -0 stat -c '%n %f %u %g %Y'
find . -xdev $sift ! -type d -print0 | sort -z | xargs -0 stat -c '%N %f %u %g %Y %h %s %t %T'
find . -xdev $sift -type f -print0 | sort -z | xargs -0 sha256sum
echo "=== end"
`

// changing is what a session does.
const changing = `
set -e
cd /opt
echo more >> edited; chmod 640 edited
rm gone env-gone; rm -r tree
rm -r dir; mkdir dir; echo n > dir/new                 # what it had must not come back
rm swap; mkdir swap; echo i > swap/in
rm -r back; echo f > back
mv moves moved                                          # a directory of the image
mv env-dir env-moved                                    # and one of the environment
echo h > hard1; mkdir sub; ln hard1 sub/hard2; ln -s 'no where' dangling; mkfifo fifo
dd if=/dev/zero of=holes bs=1 count=1 seek=20000000 2>/dev/null
: > empty
echo 1 > 'a b'; echo 2 > "$(printf 'new\nline')"; echo 3 > "$(printf '\377\376')"; echo 4 > ./-rf; echo 5 > 'Grüße ☃'
touch -d '2001-02-03 04:05:06' old
dd if=/dev/urandom of=big bs=100000 count=30 2>/dev/null
mkdir -p /root/.ssh; echo key > /root/.ssh/id           # never travels
exec 7> open; echo kept >&7
`

// modest is what a user's session does over a directory, where no directory can take another's place.
const modest = `
set -e
cd /opt
echo more >> edited; chmod 640 edited
rm gone env-gone dir/old back/x/y
echo h > hard1; mkdir sub; ln hard1 sub/hard2; ln -s 'no where' dangling
mkdir dir/new moved moved/deep; echo n > dir/new/file; echo e > moved/deep/er; mv env-dir/deep/file env-moved
dd if=/dev/zero of=holes bs=1 count=1 seek=20000000 2>/dev/null
exec 7> open; echo kept >&7
`

// worker is a host with nothing but Apptainer, on which one session runs.
type worker struct {
	t      *testing.T
	who    string
	prefix []string
	dir    string
	client control.Client
}

func newWorker(t *testing.T, who, program, sif string) *worker {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "worker")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	w := &worker{t: t, who: who, dir: dir}
	uid := 0
	if who != "root" {
		uid = nobody
		w.prefix = []string{"setpriv", "--reuid", strconv.Itoa(uid), "--regid", strconv.Itoa(uid), "--clear-groups"}
	}
	at := func(p string) string { return filepath.Join(dir, p) }
	must(t, os.Chmod(dir, 0o755), os.MkdirAll(at("run/bin"), 0o755), os.Mkdir(at("run/link"), 0o755), os.Mkdir(at("run/overlay"), 0o755), os.Mkdir(at("overlay"), 0o755))
	must(t, exec.Command("cp", program, at("run/bin/slipway")).Run(), os.Chown(at("run"), uid, uid), os.Chown(at("overlay"), uid, uid))
	w.dial(uid)
	cmd := w.apptainer("exec", "--overlay", at("overlay"), "--bind", at("run")+":"+control.RunDir, "--bind", at("overlay")+":"+control.OverlayDir,
		sif, control.Program, "agent")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	must(t, cmd.Start())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), testenv.Hang)
		defer cancel()
		if err := w.client.End(ctx); err != nil && !errs.Is(err, errs.Unavailable) { // it may be gone before it has answered
			t.Error(err)
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait() // its app was ended by a signal
	})
	return w
}

// dial serves the link that the session's agent dials.
func (w *worker) dial(uid int) {
	const id = "s-0123456789abcdef"
	links := tunnel.New(tunnel.Config{Logger: slog.New(slog.DiscardHandler)})
	must(w.t, links.Open(id, filepath.Join(w.dir, "run/link/service.sock"), uid))
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var done sync.WaitGroup
	done.Go(func() { _ = links.Run(ctx) })
	w.t.Cleanup(func() { cancel(); done.Wait() })
	w.client = control.Client{Dial: func(ctx context.Context) (net.Conn, error) {
		wait, cancel := context.WithTimeout(ctx, testenv.Hang)
		defer cancel()
		if err := links.Wait(wait, id); err != nil {
			return nil, err
		}
		return links.Dial(ctx, id, tunnel.DoorControl)
	}}
}

func (w *worker) apptainer(verb string, args ...string) *exec.Cmd {
	argv := append(slices.Clone(w.prefix), testenv.ApptainerPath(), "-q", verb, "--no-home", "--no-mount", "tmp,bind-paths,cwd,hostfs")
	if w.who == "root" {
		argv = append(argv, "--drop-caps", "CAP_SYS_RESOURCE")
	}
	argv = append(argv, args...)
	cmd := exec.Command(argv[0], argv[1:]...) // without the test's context, which ends before the session is ended
	cmd.Dir, cmd.Env = "/tmp", append(os.Environ(), "HOME=/tmp", "APPTAINER_CACHEDIR="+filepath.Join(w.dir, "run"))
	return cmd
}

// works lets the session make its changes, and gives the tree that it shows then. It goes on holding a file open.
func (w *worker) works(script string) string {
	w.t.Helper()
	app := control.App{Launch: "one", Argv: []string{"/bin/sh", "-c", script + listing + "sleep 600"}, Env: control.Env{"PATH": "/bin"}}
	must(w.t, w.client.Launch(w.t.Context(), app))
	log, err := w.client.Log(w.t.Context(), 0, true)
	must(w.t, err)
	defer log.Close()
	var text strings.Builder
	for buf := make([]byte, 4096); !strings.Contains(text.String(), "=== end"); {
		n, err := log.Read(buf)
		text.Write(buf[:n])
		if err != nil {
			w.t.Fatalf("the session said %s: %v", &text, err)
		}
	}
	return listed(w.t, text.String())
}

// sees returns the tree of an image as its user sees it.
func (w *worker) sees(sif string) string {
	w.t.Helper()
	cmd := w.apptainer("exec", sif, "/bin/sh", "-c", listing)
	cmd.Stderr = w.t.Output()
	out, err := cmd.Output()
	must(w.t, err)
	return listed(w.t, string(out))
}

func listed(t *testing.T, text string) string {
	t.Helper()
	_, text, found := strings.Cut(text, "=== begin\n")
	text, _, ended := strings.Cut(text, "=== end")
	if !found || !ended || strings.Count(text, "\n") < 30 {
		t.Fatalf("no listing: %s", text)
	}
	return text
}

func must(t testing.TB, all ...error) {
	t.Helper()
	for _, err := range all {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// tinyImage puts an image of busybox into the engine.
func tinyImage(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	at := func(p string) string { return filepath.Join(root, p) }
	busybox, err := exec.LookPath("busybox")
	must(t, err)
	must(t, os.MkdirAll(at("bin"), 0o755), exec.Command("cp", busybox, at("bin/busybox")).Run(), os.MkdirAll(at("opt/tree/a"), 0o755),
		os.MkdirAll(at("opt/dir/sub"), 0o755), os.MkdirAll(at("opt/back/x"), 0o755), os.MkdirAll(at("opt/moves/deep"), 0o755), os.Mkdir(at("root"), 0o700))
	for _, name := range []string{"sh", "find", "sort", "xargs", "stat", "sha256sum", "rm", "mkdir", "mv", "ln", "mkfifo", "dd", "touch", "chmod", "sleep", "printf"} {
		must(t, os.Symlink("busybox", at("bin/"+name)))
	}
	for _, name := range []string{"edited", "gone", "swap", "tree/a/b", "dir/old", "dir/sub/old", "back/x/y", "moves/deep/er", "stays"} {
		must(t, os.WriteFile(at("opt/"+name), []byte(name), 0o644))
	}
	ref := "slipway-test/stream:" + strings.ToLower(strconv.FormatInt(time.Now().UnixNano(), 36))
	tar := exec.Command("sh", "-c", `tar -C "$1" -c . | docker import - "$2"`, "sh", root, ref)
	out, err := tar.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { must(t, exec.Command("docker", "rmi", "-f", ref).Run()) })
	return ref
}

// remoteSessions is a Service with a library and a Docker Engine.
func remoteSessions(t *testing.T) *Service {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	dir, err := os.MkdirTemp("/tmp", "far")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o711), os.Mkdir(filepath.Join(dir, "fetch"), 0o700))
	s := &Service{log: log, cfg: Config{Site: config.Config{DataDir: dir}}}
	s.library, err = images.Open(images.Config{Dir: filepath.Join(dir, "environments"), Logger: log})
	must(t, err)
	t.Cleanup(func() { s.library.Close() })
	engine, err := docker.New(docker.Config{Instance: "test-far"})
	must(t, err)
	t.Cleanup(func() { must(t, engine.Close()) })
	s.cfg.Trees = func() Trees { return imagesOf{engine: engine} }
	return s
}

// imagesOf are those of a Docker Engine.
type imagesOf struct {
	Trees  // nil: no session is captured
	engine *docker.Backend
}

// Layers returns an image.
func (i imagesOf) Layers(ctx context.Context, ref string, tell func(string, int)) (images.Source, error) {
	has, err := i.engine.Layers(ctx, ref, tell)
	return images.Source{
		Layers: has.Layers, Base: manifest.Base{Reference: ref, Digest: has.ImageID},
		Config: apptainer.ImageConfig{Env: has.Env, Architecture: has.Architecture},
	}, err
}

// freezeRemote freezes what captureRemote gives.
func (s *Service) freezeRemote(t *testing.T, key string, a remoteChanges) records.Environment {
	t.Helper()
	var told hubapi.Progress
	source, done, err := s.captureRemote(t.Context(), a, func(p hubapi.Progress) { told = p })
	must(t, err)
	defer done()
	if told.Stage != "fetching" {
		t.Errorf("told %+v", told)
	}
	e, err := s.library.Freeze(t.Context(), images.Request{Owner: "alice", Key: key, Source: source})
	must(t, err)
	r, err := s.library.Compare(t.Context(), e, source, nil)
	if err != nil || r.Differences > 0 {
		t.Errorf("the environment differs from what came: %+v, %v", r, err)
	}
	return e
}

// environment makes one by hand, for a session to start from.
func (s *Service) environment(t *testing.T, image string) (digest string) {
	t.Helper()
	source, err := s.cfg.Trees().Layers(t.Context(), image, func(string, int) {})
	must(t, err)
	source.Upper = t.TempDir()
	at := func(p string) string { return filepath.Join(source.Upper, p) }
	must(t, os.MkdirAll(at("opt/env-dir/deep"), 0o755), os.WriteFile(at("opt/env-dir/deep/file"), []byte("e"), 0o644), os.WriteFile(at("opt/env-gone"), nil, 0o644),
		unix.Mknod(at("opt/stays"), unix.S_IFCHR, 0), os.WriteFile(at("opt/env-stays"), []byte("s"), 0o600))
	e, err := s.library.Freeze(t.Context(), images.Request{Owner: "alice", Key: "by hand", Source: source})
	must(t, err)
	return e.Digest
}

// TestFreezeOnAWorker: sessions under the real Apptainer, of root and of a user, are frozen through their agents, and
// what came of it shows what they saw.
func TestFreezeOnAWorker(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Docker, testenv.Mksquashfs, testenv.Apptainer, testenv.Busybox, testenv.Loop)
	slipway, err := program.Build(t.TempDir())
	must(t, err)
	s := remoteSessions(t)
	image := tinyImage(t)
	from := s.environment(t, image)
	sif, err := s.library.Ready(t.Context(), from)
	must(t, err)
	for name, test := range map[string]struct {
		who, script string
		over        func(*testing.T, string) string
		owner       *changeset.Owner
	}{
		"root": {"root", changing, asIs, nil}, "user": {"nobody", changing, asIs, &changeset.Owner{UID: 1234, GID: 5678}},
		"user over a directory": {"nobody", modest, asDirectory, &changeset.Owner{UID: 1234, GID: 5678}},
	} {
		t.Run(name, func(t *testing.T) {
			who, owner := name, test.owner
			w := newWorker(t, test.who, slipway, test.over(t, sif))
			want := w.works(test.script)
			e := s.freezeRemote(t, who, remoteChanges{environment: from, owner: owner, changes: w.client.Changes})
			frozen, err := s.library.Ready(t.Context(), e.Digest)
			must(t, err)
			if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(w.sees(frozen), "\n")); diff != "" {
				t.Error("the session saw (-), and the environment shows (+):", diff)
			}
			if again := s.freezeRemote(t, who, remoteChanges{environment: from, owner: owner, changes: w.client.Changes}); again.Digest != e.Digest {
				t.Errorf("unchanged it is %s, and was %s", again.Digest, e.Digest)
			}
			looksRight(t, frozen, owner)
		})
	}
}

func asIs(_ *testing.T, sif string) string { return sif }

// asDirectory unpacks an image for a user, as those are that CVMFS has.
func asDirectory(t *testing.T, sif string) string {
	t.Helper()
	top, err := os.MkdirTemp("/tmp", "unpacked")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(top)) })
	dir := filepath.Join(top, "tree")
	must(t, os.Chmod(top, 0o755), exec.Command("unsquashfs", "-q", "-n", "-offset", "32768", "-dest", dir, sif).Run(),
		exec.Command("chown", "-hR", strconv.Itoa(nobody)+":"+strconv.Itoa(nobody), dir).Run())
	return dir
}

// looksRight looks at what only the host sees: owners, and what a user's Apptainer hides.
func looksRight(t *testing.T, sif string, owner *changeset.Owner) {
	t.Helper()
	point := t.TempDir()
	must(t, exec.Command("mount", "-t", "squashfs", "-o", "loop,ro,offset=32768", sif, point).Run())
	defer func() { must(t, unix.Unmount(point, 0)) }()
	hers := [2]uint32{}
	if owner != nil {
		hers = [2]uint32{owner.UID, owner.GID}
	}
	for path, want := range map[string][2]uint32{
		"": {}, "opt": {}, "opt/sub": hers, "opt/dir/new": hers, "opt/edited": hers, "opt/moved/deep/er": hers, "opt/env-stays": {}, "bin": {},
	} {
		var st unix.Stat_t
		must(t, unix.Lstat(filepath.Join(point, path), &st))
		if got := [2]uint32{st.Uid, st.Gid}; got != want {
			t.Errorf("/%s is of %v, want %v", path, got, want)
		}
	}
	for _, path := range []string{"root/.ssh", "opt/gone", "opt/stays", "opt/env-gone", "opt/dir/old", "opt/dir/.wh..wh..opq", "run/slipway"} {
		if _, err := os.Lstat(filepath.Join(point, path)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("/%s is there: %v", path, err)
		}
	}
}

// TestFreezeOnAWorkerCut: a session that goes away while its changes come leaves nothing.
func TestFreezeOnAWorkerCut(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Docker)
	s := remoteSessions(t)
	from := s.environment(t, tinyImage(t))
	for name, test := range map[string]struct {
		stream string
		err    error
		want   errs.Kind
	}{
		"cut":  {"slipway changes 1\n", nil, errs.Unavailable},
		"none": {"", errs.New(errs.Missing, "this session has no overlay"), errs.Missing},
		"else": {"HTTP/1.1 400 Bad Request", nil, errs.Invalid},
	} {
		a := remoteChanges{environment: from, changes: func(context.Context, control.ChangesRequest) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(test.stream)), test.err
		}}
		if _, _, err := s.captureRemote(t.Context(), a, func(hubapi.Progress) {}); !errs.Is(err, test.want) {
			t.Errorf("%s: %v, want kind %d", name, err, test.want)
		}
		if left, err := os.ReadDir(s.path("fetch")); len(left) > 0 || err != nil {
			t.Errorf("%s: left %v, %v", name, left, err)
		}
	}
}
