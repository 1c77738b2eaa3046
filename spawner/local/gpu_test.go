package local_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
)

// look is what a job tells of the devices that it sees.
const look = `cd /var/tmp
ls /dev | busybox grep -v '^shm$\|^pts$\|^mqueue$\|^console$' > devices
ls /dev/nvidia-caps > caps 2>/dev/null
for n in /dev/nvidia? /dev/nvidia-caps/*; do (: < $n) 2>/dev/null && echo $n; done > open
cat /run/slipway/gpu/lib/libcuda.so.1 > library 2>/dev/null
(: > /run/slipway/gpu/lib/libcuda.so.1) 2>/dev/null && echo written >> library
echo shared > /dev/shm/mine
ls /opt/pipe > pipe 2>/dev/null
busybox env > environment
exec busybox touch ready
`

// standIn makes a slice out of the devices of fuse and of the tun driver, which no job sees otherwise.
func (w *world) standIn(t *testing.T) *gpu.Binding {
	t.Helper()
	node := filepath.Join(w.root, "node")
	must(t, syscall.Mknod(node, syscall.S_IFCHR|0o666, 10<<8|229))
	must(t, os.Chmod(node, 0o666))
	lib, pipe, shm := filepath.Join(w.root, "libcuda.so.1.0"), filepath.Join(w.root, "pipe"), filepath.Join(w.root, "shm")
	must(t, errors.Join(os.WriteFile(lib, []byte("library"), 0o644), os.Mkdir(pipe, 0o755), os.Mkdir(shm, 0o777), os.Chmod(shm, 0o777)))
	must(t, os.WriteFile(filepath.Join(pipe, "control"), nil, 0o666))
	return &gpu.Binding{
		Devices: []gpu.DeviceNode{{Path: "/dev/nvidia3", Host: node, Major: 10, Minor: 229}, {Path: "/dev/nvidia-caps/nvidia-cap12", Host: node, Major: 10, Minor: 229}},
		Mounts: []gpu.Mount{
			{Source: lib, Target: control.GPULibDir + "/libcuda.so.1"}, {Source: pipe, Target: "/opt/pipe"}, {Source: shm, Target: "/dev/shm", Write: true},
		},
		Env: map[string]string{"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": "MIG-1", "SLIPWAY_GPU_EXPECT": `{"uuids":["MIG-1"]}`},
	}
}

// spied puts a program before Apptainer that writes down what devices it sees, and sets Apptainer up to give GPUs to
// everybody.
func (w *world) spied(t *testing.T) {
	t.Helper()
	program := filepath.Join(shared(), "spy") // users may go there
	conf := program + ".conf"
	must(t, os.WriteFile(conf, []byte("always use nv = yes\nalways use rocm = yes\n"), 0o644))
	text := "#!/bin/sh\nls /dev > /run/slipway-job/scratch/var_tmp-seen\nexec " + w.cfg.Apptainer + " --config " + conf + ` "$@"` + "\n"
	must(t, os.WriteFile(program, []byte(text), 0o755))
	w.cfg.Apptainer = program
}

// TestDevicesOfAJob: a job has its slice's devices, and without a slice none, and none of the host's own in either
// case.
func TestDevicesOfAJob(t *testing.T) {
	usual := []string{"fd", "full", "null", "ptmx", "random", "stderr", "stdin", "stdout", "tty", "urandom", "zero"}
	for name, with := range map[string]bool{"no slice": false, "a slice": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.spied(t)
			w.script(t, look)
			l := w.launch(t)
			want := map[string]string{"caps": "", "open": "", "library": "", "pipe": ""}
			var further []string
			if with {
				l.GPU = w.standIn(t)
				further = []string{"nvidia-caps", "nvidia3"}
				want = map[string]string{
					"caps": "nvidia-cap12\n", "open": "/dev/nvidia3\n/dev/nvidia-caps/nvidia-cap12\n", "library": "library", "pipe": "control\n",
				}
			}
			j := start(t, w, l)
			j.exited(t)
			got := slices.DeleteFunc(strings.Fields(j.file(t, "devices")), func(name string) bool { return slices.Contains(usual, name) })
			if !slices.Equal(got, further) {
				t.Errorf("/dev has %q beside the usual, want %q", got, further)
			}
			for name, text := range want {
				if got := j.file(t, name); got != text {
					t.Errorf("%s: %q, want %q", name, got, text)
				}
			}
			env := strings.Split(j.file(t, "environment"), "\n")
			if !slices.Contains(env, "NVIDIA_VISIBLE_DEVICES=void") || slices.Contains(env, `SLIPWAY_GPU_EXPECT={"uuids":["MIG-1"]}`) != with {
				t.Errorf("its environment is %q", env)
			}
			if _, err := os.Stat(filepath.Join(w.root, "shm", "mine")); (err == nil) != with {
				t.Errorf("what it wrote to /dev/shm is there: %v", err)
			}
			w.beforeApptainer(t, l.ID, with)
		})
	}
}

// beforeApptainer looks at the devices that Apptainer itself could reach.
func (w *world) beforeApptainer(t *testing.T, id spawner.ID, with bool) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.cfg.Dir, string(id), "scratch/var_tmp-seen"))
	must(t, err)
	seen := strings.Fields(string(text))
	for name, want := range map[string]bool{"null": true, "fuse": true, "kvm": false, "loop-control": false, "net": false, "nvidia3": with, "nvidia-caps": with} {
		if slices.Contains(seen, name) != want {
			t.Errorf("Apptainer sees %s: %v, want %v; all: %q", name, !want, want, seen)
		}
	}
}

// TestHostsDevicesStay: what a job's /dev is made of is not the host's.
func TestHostsDevicesStay(t *testing.T) {
	for _, name := range []string{"/dev/nvidia3", "/dev/nvidia-caps"} {
		if _, err := os.Lstat(name); err == nil {
			t.Skipf("this host has %s of its own", name)
		}
	}
	w := newWorld(t)
	w.script(t, "exit 0")
	l := w.launch(t)
	l.GPU = w.standIn(t)
	start(t, w, l).exited(t)
	if _, err := os.Lstat("/dev/nvidia3"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the job's device is the host's now (%v)", err)
	}
}

func TestSlicesThatCannotBeGiven(t *testing.T) {
	w := newWorld(t)
	for name, g := range map[string]*gpu.Binding{
		"outside /dev": {Devices: []gpu.DeviceNode{{Path: "/etc/nvidia0"}}},
		"climbing":     {Devices: []gpu.DeviceNode{{Path: "/dev/../nvidia0"}}},
		"an option":    {Mounts: []gpu.Mount{{Source: "/x", Target: "/x:rw"}}},
		"relative":     {Mounts: []gpu.Mount{{Source: "/x", Target: "x"}}},
	} {
		l := w.launch(t)
		l.GPU = g
		if err := w.backend(t).Start(t.Context(), l); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: Start = %v", name, err)
		}
	}
	l := w.launch(t)
	l.GPU = &gpu.Binding{Devices: []gpu.DeviceNode{{Path: "/dev/nvidia3", Host: filepath.Join(w.root, "gone")}}}
	if err := w.backend(t).Start(t.Context(), l); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("Start with a node that is gone = %v", err)
	}
}

// TestWhoseProcess: a process of the host leads to its job, and a job to its control group.
func TestWhoseProcess(t *testing.T) {
	w := newWorld(t)
	w.script(t, "echo $$ > /var/tmp/up; exec sleep 60\n")
	l := w.launch(t)
	j := start(t, w, l)
	j.file(t, "up")
	group, err := j.Cgroup(t.Context(), l.ID)
	must(t, err)
	for text, want := range map[string]spawner.ID{
		"0::/" + group + "/below\n": l.ID, "12:pids:/" + group + "\n0::/\n": l.ID, "0::/docker/" + group + "\n": "", "0::/" + filepath.Dir(group) + "/shims\n": "", "x": "",
	} {
		if got := j.Holder(text); got != want {
			t.Errorf("Holder(%q) = %q, want %q", text, got, want)
		}
	}
	pids, err := filepath.Glob("/sys/fs/cgroup/*/" + group + "/cgroup.procs")
	must(t, err)
	if _, err := os.Stat("/sys/fs/cgroup/" + group + "/cgroup.procs"); err != nil && len(pids) == 0 {
		t.Errorf("there is no control group %q", group)
	}
	must(t, j.Stop(t.Context(), l.ID, 0))
	if group, err := j.Cgroup(t.Context(), l.ID); !errs.Is(err, errs.Conflict) {
		t.Errorf("Cgroup of what has ended = %q, %v", group, err)
	}
	if _, err := j.Cgroup(t.Context(), "../x"); !errs.Is(err, errs.Invalid) {
		t.Error(fmt.Sprint("Cgroup of no name: ", err))
	}
}
