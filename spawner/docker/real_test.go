package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/kernellog"
	"slipway/internal/testenv"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// TestConfined reads from inside what the first process may do, who it is and what it sees.
func TestConfined(t *testing.T) {
	w := newWorld(t)
	shared := t.TempDir()
	w.Backend = w.again(t, Config{Instance: w.cfg.Instance, Mounts: []Mount{{Source: shared, Target: "/mnt/shared", ReadOnly: true}}})
	l := w.launch(t, spawnertest.Report)
	l.Spec.Env["PUBLIC"] = "yes"
	w.up(t, l)
	report := w.await(t, l.ID, spawnertest.ReportFile)
	for _, want := range []string{
		"CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "CapBnd:\t0000000000000000",
		"NoNewPrivs:\t1", "Uid:\t41234\t41234\t41234\t41234", "Gid:\t41234\t41234", "Groups:\t41234 \n", "Whoami: alice\n", "Pid: 1\n",
		`"SLIPWAY_ID=` + string(l.ID) + `"`, `"HOME=/home/alice"`, `"USER=alice"`, `"LOGNAME=alice"`, `"PUBLIC=yes"`,
	} {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	for target, want := range map[string]string{
		control.RunDir: "rw,", control.BinDir: "ro,", control.LinkDir: "ro,", "/home/alice": "rw,", "/etc/passwd": "ro,", "/mnt/shared": "ro,",
	} {
		if !slices.ContainsFunc(strings.Split(report, "\n"), func(line string) bool { return strings.Contains(line, " "+target+" "+want) }) {
			t.Errorf("no mount at %s is %s", target, want)
		}
	}
	if t.Failed() {
		t.Log(report)
	}
}

func TestOutOfMemory(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t, spawnertest.Hog)
	w.up(t, l)
	until(t, "the workload has ended", func() bool {
		o, err := w.Observe(t.Context(), l.ID)
		return err == nil && o.Existence == spawner.Exited
	})
	o := w.sees(t, l.ID, spawner.Exited)
	if o.ExitCode != 137 || o.Reason != "out of memory (limit 0.1 GB)" || o.Remedy == "" {
		t.Errorf("Observe = %+v, want 137, out of memory with its limit, and a remedy", o)
	}
	// The engine does not always notice it: the kernel does.
	if c, _, err := w.find(t.Context(), l.ID); err != nil || !kernellog.KilledAtLimit(c.ID) {
		t.Errorf("the kernel's log does not tell of it: %v", err)
	}
}

func TestPidsLimit(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t, spawnertest.ForkMany+"30")
	l.Spec.Resources.Pids = 20
	w.up(t, l)
	switch got := w.await(t, l.ID, spawnertest.ForksFile); got {
	case "30":
		t.Error("30 children came up with a limit of 20")
	case "0":
		t.Error("no child came up")
	}
}

func TestLimitsOfARestart(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t, "")
	w.up(t, l)
	if err := w.Stop(t.Context(), l.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	l.Spec.Resources = spawner.Resources{CPUs: 0.5, Memory: 128 << 20, Pids: 100}
	w.up(t, l)
	c, _, err := w.find(t.Context(), l.ID)
	if err != nil {
		t.Fatal(err)
	}
	r := c.HostConfig.Resources
	if r.Memory != 128<<20 || r.MemorySwap != 128<<20 || r.NanoCPUs != 5e8 || *r.PidsLimit != 100 {
		t.Errorf("limits after a restart: %d %d %d %d", r.Memory, r.MemorySwap, r.NanoCPUs, *r.PidsLimit)
	}
}

func TestKeepsItsImage(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t, "")
	var told []string
	l.Report = func(s string, _ int) { told = append(told, s) }
	w.up(t, l)
	if err := w.Stop(t.Context(), l.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	old, _, _ := w.find(t.Context(), l.ID)
	w.importImage(t, map[string]string{"etc/new": "new"})
	t.Cleanup(func() { w.dropImage(t, old.Image) })
	told = nil
	w.up(t, l)
	now, _, _ := w.find(t.Context(), l.ID)
	if now.ID != old.ID {
		t.Error("the kept container was replaced")
	}
	if !strings.Contains(strings.Join(told, "\n"), "A newer "+w.image+" exists") {
		t.Errorf("the user was told %q", told)
	}
	if err := w.Stop(t.Context(), l.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	l.Spec.Image = "slipway-test/other:1"
	if err := w.Start(t.Context(), l); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), w.image) {
		t.Errorf("Start with another image = %v, want a conflict that names the kept one", err)
	}
}

// dropImage removes an image that a tag has left, once the test's containers are gone: it runs before the world's own
// cleanup.
func (w world) dropImage(t *testing.T, id string) {
	w.clear(t)
	_, err := w.client.ImageRemove(context.WithoutCancel(t.Context()), id, client.ImageRemoveOptions{PruneChildren: true})
	if err != nil && !gone(err) {
		t.Error(err)
	}
}

// TestCreateReplyLost: the container is there, and the service that asked for it does not know.
func TestCreateReplyLost(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t, "")
	made, err := w.create(t.Context(), plan{Launch: l})
	if err != nil {
		t.Fatal(err)
	}
	w.sees(t, l.ID, spawner.Created)
	if again, err := w.create(t.Context(), plan{Launch: l}); err != nil || again.ID != made.ID {
		t.Errorf("create again = %s, %v, want the one that is there", again.ID, err)
	}
	w.up(t, l)
	if c, _, err := w.find(t.Context(), l.ID); err != nil || c.ID != made.ID {
		t.Errorf("it runs in another container (%v)", err)
	}
}

func TestExchangesWhatNeverRan(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t, "")
	if _, err := w.create(t.Context(), plan{Launch: l}); err != nil {
		t.Fatal(err)
	}
	w.sees(t, l.ID, spawner.Created)
	other := strings.Replace(w.image, "tiny", "other", 1)
	if _, err := w.client.ImageTag(t.Context(), client.ImageTagOptions{Source: w.image, Target: other}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.dropImage(t, other) })
	l.Spec.Image = other
	w.up(t, l)
	if c, _, _ := w.find(t.Context(), l.ID); c.Config.Image != other {
		t.Errorf("it runs on %s, want %s", c.Config.Image, other)
	}
}

// TestPausedByAKilledFreeze: every call copes with a workload that was left asleep.
func TestPausedByAKilledFreeze(t *testing.T) {
	w := newWorld(t)
	for name, act := range map[string]func(spawner.Launch) error{
		"start":         func(l spawner.Launch) error { return w.Start(t.Context(), l) },
		"stop":          func(l spawner.Launch) error { return w.Stop(t.Context(), l.ID, 2*testenv.Hang) },
		"service start": func(spawner.Launch) error { w.recover(t.Context()); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			l := w.launch(t, "")
			w.up(t, l)
			c, err := w.Capture(t.Context(), l.ID)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := c.Pause(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			w.sees(t, l.ID, spawner.Up)
			begun := time.Now()
			if err := act(l); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > testenv.Hang {
				t.Errorf("took %v: the agent was not asked", took)
			}
			now, _, err := w.find(t.Context(), l.ID)
			if err != nil || now.State.Paused {
				t.Errorf("it is still paused (%v)", err)
			}
			if err := c.Resume(t.Context()); !errs.Is(err, errs.Conflict) {
				t.Errorf("Resume of what was not still all the time = %v", err)
			}
			if err := c.Resume(t.Context()); err != nil {
				t.Errorf("Resume of what is not held = %v", err)
			}
			if err := w.Stop(t.Context(), l.ID, time.Second); err != nil {
				t.Fatal(err)
			}
			if err := c.Pause(t.Context()); err != nil {
				t.Errorf("Pause of a stopped container = %v", err)
			}
		})
	}
}

// TestHeldForTooLong: a session goes on though nobody lets it, and the freeze learns of that.
func TestHeldForTooLong(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t, "")
	w.up(t, l)
	h := &holding{b: w.Backend, id: l.ID, limit: 300 * time.Millisecond}
	if err := h.pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "it goes on", func() bool {
		c, _, err := w.find(t.Context(), l.ID)
		return err == nil && !c.State.Paused
	})
	if err := h.resume(t.Context()); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "300ms") {
		t.Errorf("Resume = %v, want a conflict that names the limit", err)
	}
	h.limit = time.Minute
	if err := errors.Join(h.pause(t.Context()), h.resume(t.Context())); err != nil {
		t.Errorf("the next freeze = %v", err)
	}
}

// TestNextServiceWakes: a service that is killed in a freeze leaves the session asleep; the next one wakes it as it
// starts.
func TestNextServiceWakes(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t, "")
	w.up(t, l)
	c, err := w.Capture(t.Context(), l.ID)
	if err == nil {
		err = c.Pause(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	next := w.again(t, w.cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- next.Watch(ctx, func(spawner.ID) {}) }()
	until(t, "it is awake", func() bool {
		c, _, err := w.find(t.Context(), l.ID)
		return err == nil && !c.State.Paused
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := c.Resume(t.Context()); !errs.Is(err, errs.Conflict) {
		t.Errorf("Resume of what was not still all the time = %v", err)
	}
}

func TestCapture(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t, "")
	w.up(t, l)
	w.await(t, l.ID, spawnertest.RunsFile)
	c, err := w.Capture(t.Context(), l.ID)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(c.Upper, spawnertest.RunsFile)); err != nil || string(text) != "run\n" {
		t.Errorf("the upper directory does not hold the change: %q, %v", text, err)
	}
	if len(c.Layers) != 1 {
		t.Fatalf("Layers = %q, want the one of the image", c.Layers)
	}
	if _, err := os.Stat(filepath.Join(c.Layers[0], "bin/busybox")); err != nil {
		t.Errorf("the layer is not the image's: %v", err)
	}
	want := []string{"/etc/group", "/etc/passwd", "/home/alice", control.RunDir, control.BinDir, control.LinkDir}
	if diff := cmp.Diff(want, c.Mounts); diff != "" {
		t.Error("Mounts:", diff)
	}
	if c.Base != w.image || !strings.HasPrefix(c.ImageID, "sha256:") || c.Architecture == "" {
		t.Errorf("Base %q, ImageID %q, Architecture %q", c.Base, c.ImageID, c.Architecture)
	}
	if _, err := w.Capture(t.Context(), newID()); !errs.Is(err, errs.NotFound) {
		t.Errorf("Capture of nothing = %v, want not found", err)
	}
}

// TestStranger: a container that bears the name but not the labels is never touched.
func TestStranger(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t, "")
	theirs := world{Backend: w.again(t, Config{Instance: w.cfg.Instance + "-other"}), image: w.image, agent: w.agent}
	t.Cleanup(func() { theirs.clear(t) })
	theirs.up(t, l)
	if err := w.Start(t.Context(), l); !errs.Is(err, errs.Conflict) {
		t.Errorf("Start beside a stranger = %v, want a conflict", err)
	}
	w.sees(t, l.ID, spawner.Absent)
	if seen, err := w.List(t.Context()); err != nil || len(seen) != 0 {
		t.Errorf("List = %v, %v, want nothing", seen, err)
	}
	if err := w.Stop(t.Context(), l.ID, 0); err != nil {
		t.Error(err)
	}
	if err := w.Remove(t.Context(), l.ID); err != nil {
		t.Error(err)
	}
	theirs.sees(t, l.ID, spawner.Up)
	theirs.clear(t)
}

func TestWatchTellsOfAnEnd(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	changed, done := make(chan spawner.ID, 100), make(chan error)
	go func() { done <- w.Watch(ctx, func(id spawner.ID) { changed <- id }) }()
	l := w.launch(t, spawnertest.ExitWith+"0")
	w.up(t, l)
	limit := time.After(testenv.Hang)
	for seen := 0; seen < 2; seen++ { // its start and its end
		select {
		case id := <-changed:
			if id != l.ID {
				t.Errorf("told of %s, want %s", id, l.ID)
			}
		case <-limit:
			t.Fatal("nothing was told")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Watch = %v at its end, want nil", err)
	}
}

func TestMissingImage(t *testing.T) {
	w := newWorld(t)
	for image, remedy := range map[string]string{
		"slipway/nothing:1":          "docker pull slipway/nothing:1",
		"registry.invalid/a/thing:1": "docker pull registry.invalid/a/thing:1",
		"NOT a name":                 "docker images",
	} {
		l := w.launch(t, "")
		l.Spec.Image = image
		err := w.Start(t.Context(), l)
		if image == "NOT a name" && errs.Is(err, errs.Invalid) {
			continue
		}
		if !errs.Is(err, errs.Missing) || !strings.Contains(err.Error(), image) || !strings.Contains(err.Error(), remedy) {
			t.Errorf("Start on %q = %v, want a missing image and %q", image, err, remedy)
		}
		w.sees(t, l.ID, spawner.Absent)
	}
}

func TestImagesHoldsTheImage(t *testing.T) {
	w := newWorld(t)
	refs, err := w.Images(t.Context())
	if err != nil || !slices.Contains(refs, w.image) {
		t.Errorf("Images() = %q, %v, want %s among them", refs, err, w.image)
	}
}

// TestProbesAreRemoved: what a killed service left of a look into an image goes with the next look.
func TestProbesAreRemoved(t *testing.T) {
	w := newWorld(t)
	_, err := w.client.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &container.Config{
		Image: w.image, Cmd: []string{"x"}, Labels: map[string]string{labelInstance: w.cfg.Instance, labelKind: kindProbe},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if seen, err := w.List(t.Context()); err != nil || len(seen) != 0 {
		t.Errorf("List = %v, %v: a probe is no workload", seen, err)
	}
	l := w.launch(t, "")
	w.up(t, l)
	list, err := w.client.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: w.ours()})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("%d containers are there (%v), want the workload's alone", len(list.Items), err)
	}
}

func TestOddOwnersAndLogins(t *testing.T) {
	w := newWorld(t)
	for _, owner := range []spawner.User{"has@", "user--foo", "Alice.B", "алиса ☃", spawner.User(strings.Repeat("x", 200))} {
		l := w.launch(t, "")
		l.Owner = owner
		w.up(t, l)
		c, _, err := w.find(t.Context(), l.ID)
		if err != nil || c.Config.Labels[labelOwner] != string(owner) {
			t.Errorf("label of %q = %q, %v", owner, c.Config.Labels[labelOwner], err)
		}
	}
}

func TestFirstFile(t *testing.T) {
	var link bytes.Buffer
	tw := tar.NewWriter(&link)
	if err := tw.WriteHeader(&tar.Header{Name: "passwd", Typeflag: tar.TypeSymlink, Linkname: "/elsewhere"}); err != nil {
		t.Fatal(err)
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := firstFile(&link); !errs.Is(err, errs.Invalid) {
		t.Errorf("firstFile(a link) = %q, %v, want invalid", text, err)
	}
	if text, err := firstFile(strings.NewReader("no archive")); err == nil {
		t.Errorf("firstFile(no archive) = %q, nil", text)
	}
}

// TestRemoveNeverKills: what runs is somebody's work, whatever the caller believes.
func TestRemoveNeverKills(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t, "")
	w.up(t, l)
	if err := w.Remove(t.Context(), l.ID); !errs.Is(err, errs.Conflict) {
		t.Errorf("Remove of a running workload = %v, want a conflict", err)
	}
	w.sees(t, l.ID, spawner.Up)
}
