package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// standIn makes device nodes that play a GPU's: no container may open these unless it is told so.
func standIn(t *testing.T, minors ...int) *gpu.Binding {
	t.Helper()
	dir := t.TempDir()
	g := &gpu.Binding{Env: map[string]string{"NVIDIA_VISIBLE_DEVICES": "void", "SLIPWAY_GPU": fmt.Sprint(minors)}}
	for i, minor := range minors {
		d := gpu.DeviceNode{Path: fmt.Sprintf("/dev/nvidia%d", minor), Host: filepath.Join(dir, fmt.Sprint(minor)), Major: 10, Minor: int64(minor)}
		if i > 0 {
			d.Path = fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", minor)
		}
		if err := syscall.Mknod(d.Host, syscall.S_IFCHR|0o666, 10<<8|minor); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d.Host, 0o666); err != nil {
			t.Fatal(err)
		}
		g.Devices = append(g.Devices, d)
	}
	lib := filepath.Join(dir, "libcuda.so.1.0")
	if err := os.WriteFile(lib, []byte("library"), 0o644); err != nil {
		t.Fatal(err)
	}
	shm := filepath.Join(dir, "shm")
	if err := errors.Join(os.Mkdir(shm, 0o777), os.Chmod(shm, 0o777)); err != nil {
		t.Fatal(err)
	}
	g.Mounts = []gpu.Mount{{Source: lib, Target: control.GPULibDir + "/libcuda.so.1"}, {Source: shm, Target: "/dev/shm", Write: true}}
	return g
}

// The devices that play: those of fuse, of the loop devices and of the automounter.
const (
	fuse, loop, autofs = 229, 237, 235
)

// root returns the file tree of a running workload as its processes see it.
func (w world) root(t *testing.T, id spawner.ID) string {
	t.Helper()
	c, found, err := w.find(t.Context(), id)
	if err != nil || !found || !c.State.Running {
		t.Fatalf("%s does not run (%v)", id, err)
	}
	return fmt.Sprintf("/proc/%d/root", c.State.Pid)
}

// gpus returns the device nodes of GPUs that a running workload has, and whether its user can open them.
func (w world) gpus(t *testing.T, id spawner.ID) []string {
	t.Helper()
	var seen []string
	root := w.root(t, id)
	for _, pattern := range []string{"/dev/nvidia?*", "/dev/nvidia-caps/*"} {
		names, err := filepath.Glob(root + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			var st syscall.Stat_t
			if err := syscall.Stat(name, &st); err != nil {
				t.Fatal(err)
			}
			if st.Mode&syscall.S_IFMT != syscall.S_IFCHR {
				continue
			}
			inside := strings.TrimPrefix(name, root)
			seen = append(seen, fmt.Sprintf("%s %d:%d %v", inside, st.Rdev>>8, st.Rdev&0xff, w.exec(t, id, ": < "+inside) == 0))
		}
	}
	return seen
}

// exec runs a line of the shell in a workload, as its user, and returns the code.
func (w world) exec(t *testing.T, id spawner.ID, line string) int {
	t.Helper()
	made, err := w.client.ExecCreate(t.Context(), nameOf(id), client.ExecCreateOptions{Cmd: []string{"sh", "-c", line}})
	if err == nil {
		_, err = w.client.ExecStart(t.Context(), made.ID, client.ExecStartOptions{Detach: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	code := 0
	until(t, "the command has ended", func() bool {
		e, err := w.client.ExecInspect(t.Context(), made.ID, client.ExecInspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		code = e.ExitCode
		return !e.Running
	})
	return code
}

// env returns the environment of a workload's first process, once that is the workload's program: before, it is runc's,
// and reads as empty in between.
func (w world) env(t *testing.T, id spawner.ID) []string {
	t.Helper()
	var text []byte
	until(t, "the first process has an environment", func() (there bool) {
		var err error
		if text, err = os.ReadFile(strings.TrimSuffix(w.root(t, id), "/root") + "/environ"); err != nil {
			t.Fatal(err)
		}
		return len(text) > 0 && !strings.Contains(string(text), "_LIBCONTAINER_")
	})
	return strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
}

// greedy is an image that asks for all GPUs, as those of NVIDIA do, and has a volume.
func (w world) greedy(t *testing.T, l *spawner.Launch) {
	t.Helper()
	c, err := w.client.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &container.Config{
		Image: w.image, Cmd: []string{"x"}, Labels: map[string]string{labelInstance: w.cfg.Instance, labelKind: kindProbe},
	}})
	if err != nil {
		t.Fatal(err)
	}
	l.Spec.Image = strings.Replace(w.image, "tiny", "greedy", 1)
	_, err = w.client.ContainerCommit(t.Context(), c.ID, client.ContainerCommitOptions{Reference: l.Spec.Image, Changes: []string{
		"ENV NVIDIA_VISIBLE_DEVICES=all", "ENV NVIDIA_DRIVER_CAPABILITIES=all", "ENV CUDA_VISIBLE_DEVICES=0", "VOLUME /data",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.dropImage(t, l.Spec.Image) })
}

// TestImageBringsNoGPU: what the image asks for is not heard, nor is the vendor's runtime, though it be the engine's
// default.
func TestImageBringsNoGPU(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	runtime := filepath.Join(t.TempDir(), "nvidia-container-runtime")
	if err := os.WriteFile(runtime, []byte("#!/bin/sh\necho \"$@\" >> "+log+"\nexec runc \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, "--add-runtime", "nvidia="+runtime, "--default-runtime", "nvidia")
	w := e.world(Config{Instance: "test-greedy"})
	w.importImage(t, nil)
	l := w.launch(t, "")
	w.greedy(t, &l)
	w.up(t, l)
	env := w.env(t, l.ID)
	if !slices.Contains(env, "NVIDIA_VISIBLE_DEVICES=void") || slices.Contains(env, "NVIDIA_VISIBLE_DEVICES=all") {
		t.Errorf("its environment is %q", env)
	}
	c, _, err := w.find(t.Context(), l.ID)
	if err != nil || c.HostConfig.Runtime != plainRuntime || len(c.HostConfig.Devices)+len(c.HostConfig.DeviceRequests) > 0 {
		t.Errorf("runtime %q, devices %v, requests %v, %v", c.HostConfig.Runtime, c.HostConfig.Devices, c.HostConfig.DeviceRequests, err)
	}
	if text, err := os.ReadFile(log); err != nil || strings.Contains(string(text), "create") { // the engine asks its version
		t.Errorf("the vendor's runtime was called: %s, %v", text, err)
	}
	if seen := w.gpus(t, l.ID); len(seen) > 0 {
		t.Errorf("it sees %q", seen)
	}
}

// TestGPUFollowsTheLease: a kept session is started with one slice, with another, with none; its files stay what they
// were.
func TestGPUFollowsTheLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.importImage(t, map[string]string{"opt/kept": "of the image", "opt/deleted": "of the image", "opaque/of-the-image": ""})
	l := w.launch(t, "")
	w.greedy(t, &l)
	l.GPU = standIn(t, fuse, autofs)
	w.up(t, l)
	if diff := cmp.Diff([]string{"/dev/nvidia229 10:229 true", "/dev/nvidia-caps/nvidia-cap235 10:235 true"}, w.gpus(t, l.ID)); diff != "" {
		t.Error("first start:", diff)
	}
	if text, err := os.ReadFile(w.root(t, l.ID) + control.GPULibDir + "/libcuda.so.1"); string(text) != "library" {
		t.Errorf("the driver's library is %q, %v", text, err)
	}
	if code := w.exec(t, l.ID, "echo mine > /dev/shm/mine && ! echo mine > "+control.GPULibDir+"/libcuda.so.1"); code != 0 {
		t.Errorf("it may not write where it is to, or where it is not: %d", code)
	}
	if _, err := os.Stat(filepath.Join(l.GPU.Mounts[1].Source, "mine")); err != nil {
		t.Error("what it wrote is not on the host:", err)
	}
	w.edit(t, w.root(t, l.ID))
	first := w.stopped(t, l.ID)
	w.again3(t, l, first)
	if err := w.Remove(t.Context(), l.ID); err != nil {
		t.Fatal(err)
	}
	for _, v := range volumes(first) {
		if _, err := w.client.VolumeInspect(t.Context(), v.Source, client.VolumeInspectOptions{}); !gone(err) {
			t.Errorf("volume %s is left (%v)", v.Source, err)
		}
	}
	if _, err := os.Stat(filepath.Dir(upper(first))); err == nil {
		t.Error("the first container's directory is left")
	}
}

// again3 starts a stopped workload three times, with other slices.
func (w world) again3(t *testing.T, l spawner.Launch, last container.InspectResponse) {
	t.Helper()
	before := snapshot(t, upper(last))
	same := l.GPU
	for i, test := range []struct {
		gpu  *gpu.Binding
		want []string
		kept bool // the container
	}{
		{same, []string{"/dev/nvidia229 10:229 true", "/dev/nvidia-caps/nvidia-cap235 10:235 true"}, true},
		{standIn(t, loop), []string{"/dev/nvidia237 10:237 true"}, false},
		{nil, nil, false},
		{standIn(t, fuse), []string{"/dev/nvidia229 10:229 true"}, false},
	} {
		l.GPU = test.gpu
		w.up(t, l)
		if diff := cmp.Diff(test.want, w.gpus(t, l.ID)); diff != "" {
			t.Errorf("start %d: %s", i, diff)
		}
		root := w.root(t, l.ID)
		for name, want := range map[string]bool{"opt/kept": true, "opt/deleted": false, "opaque/of-the-image": false, "opaque/of-the-user": true, "data/precious": true} {
			if _, err := os.Lstat(filepath.Join(root, name)); (err == nil) != want {
				t.Errorf("start %d: %s is there: %v", i, name, err == nil)
			}
		}
		if got := slices.ContainsFunc(w.env(t, l.ID), func(kv string) bool { return strings.HasPrefix(kv, "SLIPWAY_GPU=") }); got != (test.gpu != nil) {
			t.Errorf("start %d: its environment names a slice: %v", i, got)
		}
		capture, err := w.Capture(t.Context(), l.ID)
		if err != nil || capture.Base != l.Spec.Image || len(capture.Layers) != 1 || slices.Contains(capture.Mounts, control.GPULibDir+"/libcuda.so.1") {
			t.Errorf("start %d: Capture = %+v, %v", i, capture, err)
		}
		now := w.stopped(t, l.ID)
		if (now.ID == last.ID) != test.kept {
			t.Errorf("start %d: the container is the same: %v", i, now.ID == last.ID)
		}
		if diff := cmp.Diff(before, snapshot(t, upper(now))); diff != "" {
			t.Errorf("start %d: the changes are not what they were: %s", i, diff)
		}
		last = now
	}
}

// stopped ends a workload and returns its container.
func (w world) stopped(t *testing.T, id spawner.ID) container.InspectResponse {
	t.Helper()
	if err := w.Stop(t.Context(), id, time.Second); err != nil {
		t.Fatal(err)
	}
	c, _, err := w.find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// edit makes changes of every kind in a file tree.
func (w world) edit(t *testing.T, root string) {
	t.Helper()
	at := func(name string) string { return filepath.Join(root, name) }
	for i, err := range []error{
		os.WriteFile(at("opt/kept"), []byte("changed"), 0o640), os.Chown(at("opt/kept"), uid, 7), os.Chmod(at("opt/kept"), 0o4750),
		os.Remove(at("opt/deleted")),
		os.RemoveAll(at("opaque")), os.Mkdir(at("opaque"), 0o2770), os.WriteFile(at("opaque/of-the-user"), nil, 0o600),
		syscall.Setxattr(at("opt/kept"), "trusted.mine", []byte{0, 1, 2}, 0),
		os.Symlink("nowhere", at("opt/link")), os.Link(at("opt/kept"), at("opt/hard")), syscall.Mkfifo(at("opt/fifo"), 0o644),
		os.WriteFile(at("data/precious"), []byte("x"), 0o644), os.Chmod(root, 0o711),
		os.Chtimes(at("opt/kept"), time.Unix(1e9, 123456789), time.Unix(1e9, 123456789)),
	} {
		if err != nil {
			t.Fatalf("change %d: %v", i, err)
		}
	}
}

// snapshot tells all that there is to tell of the files of a directory, but for what the test's agent writes at each
// start.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		var st syscall.Stat_t
		if err == nil {
			err = syscall.Lstat(path, &st)
		}
		name := strings.TrimPrefix(path, dir)
		if err != nil || name == spawnertest.RunsFile {
			return err
		}
		if st.Mode&syscall.S_IFMT == syscall.S_IFCHR && st.Rdev == 0 {
			st.Nlink = 1 // a deletion: the kernel makes all with one inode, of which it has a name of its own while it is mounted
		}
		line := fmt.Sprintf("%o %d:%d %d %d %d", st.Mode, st.Uid, st.Gid, st.Rdev, st.Ino, st.Nlink)
		if st.Mode&syscall.S_IFMT == syscall.S_IFREG {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %q %d.%d", text, st.Mtim.Sec, st.Mtim.Nsec)
		}
		names, value := make([]byte, 4096), make([]byte, 4096)
		if st.Mode&syscall.S_IFMT != syscall.S_IFLNK {
			n, _ := syscall.Listxattr(path, names)
			for _, x := range strings.Split(strings.TrimRight(string(names[:max(n, 0)]), "\x00"), "\x00") {
				n, _ := syscall.Getxattr(path, x, value)
				line += fmt.Sprintf(" %s=%x", x, value[:max(n, 0)])
			}
		}
		all[name] = line
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestChangeOfGPUCutShort: a service that was killed at any step of the change has lost nothing, and the next one goes
// on.
func TestChangeOfGPUCutShort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old, next := standIn(t, fuse), standIn(t, loop)
	steps := []func(l spawner.Launch, c container.InspectResponse) error{
		func(l spawner.Launch, c container.InspectResponse) error {
			p := plan{Launch: l, image: c.Image, labels: map[string]string{labelHeir: c.ID, labelImage: referenceOf(c)}}
			return w.order(t.Context(), heirName(l.ID), p)
		},
		func(l spawner.Launch, c container.InspectResponse) error {
			heir, _, err := w.inspect(t.Context(), heirName(l.ID))
			if err != nil {
				return err
			}
			return bequeath(c, heir)
		},
		func(_ spawner.Launch, c container.InspectResponse) error {
			_, err := w.client.ContainerRemove(t.Context(), c.ID, client.ContainerRemoveOptions{})
			return err
		},
	}
	then := map[string]func(t *testing.T, l spawner.Launch){
		"start": func(t *testing.T, l spawner.Launch) { w.resumed(t, l, "/dev/nvidia237 10:237 true") },
		"start with the old one": func(t *testing.T, l spawner.Launch) {
			l.GPU = old
			w.resumed(t, l, "/dev/nvidia229 10:229 true")
		},
		"capture": func(t *testing.T, l spawner.Launch) {
			c, err := w.Capture(t.Context(), l.ID)
			if err != nil {
				t.Fatal(err)
			}
			if text, err := os.ReadFile(filepath.Join(c.Upper, spawnertest.RunsFile)); string(text) != "run\n" {
				t.Errorf("the changes that are captured: %q, %v", text, err)
			}
		},
		"remove": func(t *testing.T, l spawner.Launch) {
			if err := w.Remove(t.Context(), l.ID); err != nil {
				t.Fatal(err)
			}
			w.sees(t, l.ID, spawner.Absent)
			if seen, err := w.List(t.Context()); err != nil || len(seen) > 0 {
				t.Errorf("%v is left, %v", seen, err)
			}
		},
	}
	for done := 1; done <= len(steps); done++ {
		for name, act := range then {
			t.Run(fmt.Sprintf("%d then %s", done, name), func(t *testing.T) {
				l := w.launch(t, "")
				l.GPU = old
				w.up(t, l)
				w.await(t, l.ID, spawnertest.RunsFile)
				c := w.stopped(t, l.ID)
				l.GPU = next
				for _, step := range steps[:done] {
					if err := step(l, c); err != nil {
						t.Fatal(err)
					}
				}
				w.sees(t, l.ID, spawner.Exited)
				if seen, err := w.List(t.Context()); err != nil || seen[l.ID] != spawner.Exited || len(seen) != 1 {
					t.Errorf("List = %v, %v", seen, err)
				}
				act(t, l)
				if err := w.Stop(context.WithoutCancel(t.Context()), l.ID, 0); err != nil {
					t.Error(err)
				}
				if err := w.Remove(context.WithoutCancel(t.Context()), l.ID); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// resumed starts a workload for the second time.
func (w world) resumed(t *testing.T, l spawner.Launch, want string) {
	t.Helper()
	w.up(t, l)
	until(t, "its second run is noted in the changes of the first", func() bool { return w.text(t, l.ID, spawnertest.RunsFile) == "run\nrun\n" })
	if diff := cmp.Diff([]string{want}, w.gpus(t, l.ID)); diff != "" {
		t.Error(diff)
	}
	list, err := w.client.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: w.ours()})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("%d containers are there (%v)", len(list.Items), err)
	}
}

// TestChangesThatCannotMove: they stay where they are, and it is said.
func TestChangesThatCannotMove(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t, "")
	w.up(t, l)
	w.await(t, l.ID, spawnertest.RunsFile)
	c := w.stopped(t, l.ID)
	running := w.launch(t, "")
	w.up(t, running)
	other, _, err := w.find(t.Context(), running.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := bequeath(c, other); !errs.Is(err, errs.Conflict) {
		t.Errorf("bequeath to one that runs = %v", err)
	}
	w.up(t, l)
	if text := w.text(t, l.ID, spawnertest.RunsFile); !strings.HasPrefix(text, "run\n") {
		t.Errorf("its changes are %q", text)
	}
}

// TestWhoseProcess: a process of the host leads to its workload.
func TestWhoseProcess(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t, "")
	w.up(t, l)
	text, err := os.ReadFile(strings.TrimSuffix(w.root(t, l.ID), "/root") + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	stranger := w.again(t, Config{Instance: "test-stranger"})
	for range 2 {
		if got := w.Holder(string(text)); got != l.ID {
			t.Errorf("Holder = %q, want %q", got, l.ID)
		}
		if got := stranger.Holder(string(text)); got != "" {
			t.Errorf("another instance takes it for its %q", got)
		}
	}
	if got := w.WorkloadOf(idA); got != "" {
		t.Errorf("WorkloadOf of nothing = %q", got)
	}
	group, err := w.Cgroup(t.Context(), l.ID)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, root := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/memory/"} {
		_, err := os.Stat(root + group + "/cgroup.procs")
		found = found || err == nil
	}
	if !found {
		t.Errorf("there is no control group %q", group)
	}
	w.stopped(t, l.ID)
	if group, err := w.Cgroup(t.Context(), l.ID); !errs.Is(err, errs.Conflict) {
		t.Errorf("Cgroup of what does not run = %q, %v", group, err)
	}
}
