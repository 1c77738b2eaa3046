package docker

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"slipway/internal/testenv"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// uid is one that no image knows.
const uid = 41234

// world is a real engine with a tiny image and the test's agent. What a test makes there is removed with it.
type world struct {
	*Backend
	image string
	agent string
}

func newWorld(t *testing.T) world {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Docker)
	word := strings.ToLower(rand.Text()[:12])
	w := world{image: "slipway-test/tiny:" + word, agent: t.TempDir()}
	w.Backend = w.again(t, Config{Instance: "test-" + word})
	spawnertest.BuildAgent(t, w.agent)
	w.importImage(t, nil)
	t.Cleanup(func() { w.clear(t) })
	return w
}

// again returns another backend on the same engine. Its network is the engine's, for making one takes time: see
// ownNetworkOf.
func (w world) again(t *testing.T, cfg Config) *Backend {
	t.Helper()
	cfg.Network = cmp.Or(cfg.Network, "bridge")
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// importImage makes the image anew, with the given files besides.
func (w world) importImage(t *testing.T, files map[string]string) {
	t.Helper()
	r, err := w.client.ImageImport(t.Context(), client.ImageImportSource{Source: tinyTree(t, files), SourceName: "-"}, w.image, client.ImageImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
}

// tinyTree is the file tree of an image that holds busybox and two users.
func tinyTree(t *testing.T, files map[string]string) io.Reader {
	t.Helper()
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatalf("busybox-static is needed: %v", err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h tar.Header, text string) {
		h.Size = int64(len(text))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"bin/", "etc/", "var/"} {
		add(tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}, "")
	}
	add(tar.Header{Name: "var/tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}, "")
	add(tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755}, string(busybox))
	for _, name := range []string{"sh", "whoami", "sleep"} {
		add(tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox"}, "")
	}
	add(tar.Header{Name: "etc/passwd", Typeflag: tar.TypeReg, Mode: 0o644}, "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
	add(tar.Header{Name: "etc/group", Typeflag: tar.TypeReg, Mode: 0o644}, "root:x:0:\n")
	for name, text := range files {
		add(tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, text)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// clear removes all containers of this world, and its images.
func (w world) clear(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	list, err := w.client.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: w.ours()})
	if err != nil {
		t.Error(err)
	}
	for _, c := range list.Items {
		if _, err := w.client.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}); err != nil && !gone(err) {
			t.Error(err)
		}
	}
	if _, err := w.client.ImageRemove(ctx, w.image, client.ImageRemoveOptions{PruneChildren: true}); err != nil && !gone(err) {
		t.Error(err)
	}
}

// launch returns a session's launch whose agent obeys the order.
func (w world) launch(t *testing.T, order string) spawner.Launch {
	t.Helper()
	dir, home := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "link"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, uid, uid); err != nil {
		t.Fatal(err)
	}
	l := spawner.Launch{
		Workload: spawner.Workload{ID: newID(), Kind: spawner.Lab, Owner: "alice", Spec: spawner.Spec{SessionSpec: spawner.SessionSpec{Image: w.image}, Resources: spawner.Resources{CPUs: 1, Memory: 64 << 20, Pids: 64}}},
		Account:  spawner.Account{UID: uid, GID: uid, Login: "alice", HomeDir: home, Home: "/home/alice"},
		Dir:      dir,
		AgentDir: w.agent,
		Report:   func(string, int) {},
	}
	if order != "" {
		l.Spec.Env = map[string]string{spawnertest.AgentEnv: order}
	}
	return l
}

func newID() spawner.ID { return spawner.ID("s-" + strings.ToLower(rand.Text()[:16])) }

// up starts a launch.
func (w world) up(t *testing.T, l spawner.Launch) {
	t.Helper()
	if err := w.Start(t.Context(), l); err != nil {
		t.Fatalf("Start(%s) = %v", l.ID, err)
	}
}

// sees checks what a look shows.
func (w world) sees(t *testing.T, id spawner.ID, want spawner.Existence) spawner.Observation {
	t.Helper()
	o, err := w.Observe(t.Context(), id)
	if err != nil || o.Existence != want {
		t.Fatalf("Observe(%s) = %+v, %v, want %s", id, o, err, want)
	}
	return o
}

// text reads a file of a workload's own tree; empty when it is not there.
func (w world) text(t *testing.T, id spawner.ID, path string) string {
	t.Helper()
	text, err := w.file(t.Context(), nameOf(id), path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// await reads such a file as soon as it is there.
func (w world) await(t *testing.T, id spawner.ID, path string) string {
	t.Helper()
	var text string
	until(t, path+" is there", func() bool {
		text = w.text(t, id, path)
		return text != ""
	})
	return text
}

// until looks again and again until ok.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	testenv.Until(t, what, testenv.Hang, ok)
}
