package cdi

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/testenv"
)

var update = flag.Bool("update", false, "write the golden files anew")

const version = "580.159.04"

// fakeHost is a tree as a host with a driver has it. Device nodes are in a table: a test may not make real ones.
type fakeHost struct {
	Host
	t     *testing.T
	nodes map[string][2]int64
	made  []string
}

func newHost(t *testing.T) *fakeHost {
	h := &fakeHost{t: t, nodes: map[string][2]int64{
		"/dev/nvidia0": {195, 0}, "/dev/nvidia3": {195, 3}, "/dev/nvidiactl": {195, 255}, "/dev/nvidia-uvm": {511, 0}, "/dev/nvidia-uvm-tools": {511, 1},
	}}
	h.Host = Host{Root: t.TempDir(), numbers: h.look, make: h.mknod}
	h.file("proc/devices", "Character devices:\n  1 mem\n195 nvidia\n195 nvidia-modeset\n195 nvidiactl\n511 nvidia-uvm\n508 nvidia-caps\n\nBlock devices:\n  7 nvidia-caps\n")
	h.file("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "+version+"  Release Build  (x@y)  Tue\nGCC version: gcc version 13.3.0\n")
	h.file("proc/driver/nvidia-caps/mig-minors", "config 1\nmonitor 2\ngpu3/gi1/access 435\ngpu3/gi1/ci0/access 436\ngpu3/gi2/access 444\nbroken\n")
	lib := "usr/lib64/"
	for _, l := range []struct{ real, links string }{
		{"libcuda.so", "libcuda.so.1 libcuda.so"}, {"libnvidia-ml.so", "libnvidia-ml.so.1"}, {"libnvidia-ptxjitcompiler.so", "libnvidia-ptxjitcompiler.so.1"},
		{"libnvidia-nvvm.so", "libnvidia-nvvm.so.4"}, {"libnvidia-gpucomp.so", ""}, {"libnvidia-glcore.so", ""}, {"libnvidia-egl-gbm.so", ""}, {"libGLX_nvidia.so", ""},
	} {
		h.file(lib+l.real+"."+version, "")
		for _, link := range strings.Fields(l.links) {
			h.link(l.real+"."+version, lib+link)
		}
	}
	h.file(lib+"libnvidia-container.so.1.17.8", "")
	h.file(lib+"libnvidia-cfg.so.570.1", "")
	h.file("usr/bin/nvidia-smi", "")
	return h
}

func (h *fakeHost) file(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.Root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *fakeHost) link(target, name string) {
	h.t.Helper()
	path := filepath.Join(h.Root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *fakeHost) remove(name string) {
	h.t.Helper()
	if err := os.RemoveAll(filepath.Join(h.Root, name)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *fakeHost) look(path string) (int64, int64, error) {
	n, ok := h.nodes[strings.TrimPrefix(path, h.Root)]
	if !ok {
		return 0, 0, fs.ErrNotExist
	}
	return n[0], n[1], nil
}

func (h *fakeHost) mknod(path string, major, minor int64) error {
	name := strings.TrimPrefix(path, h.Root)
	h.made, h.nodes[name] = append(h.made, name), [2]int64{major, minor}
	return nil
}

func h200() gpu.Device { return gpu.Device{Minor: 3, UUID: "GPU-5368a050-0001", Name: "NVIDIA H200"} }

func instance() *gpu.Instance {
	return &gpu.Instance{GPU: "GPU-5368a050-0001", UUID: "MIG-0caf1ce3-fcd4", GI: 1, CI: 0, Profile: "1g.18gb"}
}

func cut() gpu.Slice {
	return gpu.Slice{GPU: "GPU-5368a050-0001", Model: "NVIDIA H200", Mode: gpu.MIG, Name: "1g.18gb", Profile: "1g.18gb", Memory: 18 << 30, SMs: 16, Tier: gpu.Hardware}
}

func whole() gpu.Slice {
	return gpu.Slice{GPU: "GPU-5368a050-0001", Model: "NVIDIA H200", Mode: gpu.Whole, Name: "whole", Memory: 141 << 30, SMs: 132, Tier: gpu.Hardware}
}

// TestSpecGolden holds what an engine is told of each kind of slice.
func TestSpecGolden(t *testing.T) {
	simulated, shared := cut(), whole()
	simulated.Simulated = true
	shared.Mode, shared.Name, shared.Tier, shared.Memory = gpu.Shared, "shared/10G", gpu.Cgroup, 10<<30
	for name, s := range map[string]gpu.Slice{"mig": cut(), "whole": whole(), "simulated": simulated, "shared": shared} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			b, err := h.Bind(h200(), instance(), s, "s-abcdefgh12345678")
			if err != nil {
				t.Fatal(err)
			}
			if want := map[string]int64{"shared": 10 << 30}[name]; b.Limit != want {
				t.Errorf("Limit = %d, want %d", b.Limit, want)
			}
			got, err := Spec(b)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(string(got), h.Root, "/ROOT")
			golden := filepath.Join("testdata", name+".golden.json")
			if *update {
				if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), text); diff != "" {
				t.Errorf("what the engine is told has changed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOnlyTheLeasedNodes: a slice brings the nodes of its own GPU and instance, and what is missing of them is made.
func TestOnlyTheLeasedNodes(t *testing.T) {
	h := newHost(t)
	b, err := h.Bind(h200(), instance(), cut(), "s-1")
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, d := range b.Devices {
		paths = append(paths, d.Path)
		if d.Host != h.Root+d.Path {
			t.Errorf("%s lies at %s", d.Path, d.Host)
		}
	}
	common := []string{"/dev/nvidia3", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"}
	caps := []string{"/dev/nvidia-caps/nvidia-cap435", "/dev/nvidia-caps/nvidia-cap436"}
	if diff := cmp.Diff(slices.Concat(common, caps), paths); diff != "" {
		t.Error("devices:", diff)
	}
	if diff := cmp.Diff(caps, h.made); diff != "" {
		t.Error("made:", diff)
	}
	in := instance()
	in.Caps = []int{7, 8}
	if b, err = h.Bind(h200(), in, cut(), "s-1"); err != nil || b.Devices[4].Path != "/dev/nvidia-caps/nvidia-cap7" || b.Devices[4].Major != 508 {
		t.Errorf("Bind with the driver's own numbers = %+v, %v", b.Devices, err)
	}
	if b, err = h.Bind(h200(), in, whole(), "s-1"); err != nil || len(b.Devices) != len(common) || b.Expect.UUIDs[0] != h200().UUID {
		t.Errorf("Bind of the whole GPU = %+v, %v", b, err)
	}
}

// TestMakesNodes: the kernel's own nodes, for all users, whatever the umask; a file in the place of one is refused.
func TestMakesNodes(t *testing.T) {
	testenv.Need(t, testenv.Root)
	h := newHost(t)
	h.numbers, h.make = nil, nil
	defer syscall.Umask(syscall.Umask(0o077))
	for range 2 {
		b, err := h.Bind(h200(), instance(), cut(), "s-1")
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range b.Devices {
			var st syscall.Stat_t
			if err := syscall.Stat(d.Host, &st); err != nil || st.Mode != syscall.S_IFCHR|0o666 || st.Rdev>>8&0xfff != uint64(d.Major) {
				t.Errorf("%s: mode %o, device %x, %v", d.Host, st.Mode, st.Rdev, err)
			}
		}
	}
	h.remove("dev/nvidiactl")
	h.file("dev/nvidiactl", "")
	if _, err := h.Bind(h200(), instance(), cut(), "s-1"); err == nil || !strings.Contains(err.Error(), "no character device") {
		t.Errorf("Bind with a file for a device = %v", err)
	}
}

func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*fakeHost)
		in     *gpu.Instance
		holder string
		want   string
	}{
		"no instance":     {in: nil, want: gpu.ErrBadPlace.Error()},
		"a remnant":       {in: &gpu.Instance{GPU: h200().UUID, CI: -1}, want: gpu.ErrBadPlace.Error()},
		"another GPU's":   {in: &gpu.Instance{GPU: "GPU-x", UUID: "MIG-x"}, want: gpu.ErrBadPlace.Error()},
		"unknown caps":    {in: &gpu.Instance{GPU: h200().UUID, UUID: "MIG-x", GI: 9}, want: "gpu3/gi9/access"},
		"holder":          {in: instance(), holder: "a/b", want: "holder"},
		"no driver":       {in: instance(), change: func(h *fakeHost) { h.remove("proc/driver/nvidia/version") }, want: "no NVIDIA driver is loaded"},
		"odd driver":      {in: instance(), change: func(h *fakeHost) { h.file("proc/driver/nvidia/version", "x") }, want: "cannot be read"},
		"no uvm":          {in: instance(), change: func(h *fakeHost) { h.file("proc/devices", "Character devices:\n195 nvidia\n") }, want: "/dev/nvidia-uvm"},
		"stale node":      {in: instance(), change: func(h *fakeHost) { h.nodes["/dev/nvidia-uvm"] = [2]int64{509, 0} }, want: "is 509:0, and the loaded driver has 511:0"},
		"updated":         {in: instance(), change: func(h *fakeHost) { h.file("sys/module/nvidia/version", "590.1\n") }, want: "the libraries are another's"},
		"no library":      {in: instance(), change: func(h *fakeHost) { h.remove("usr/lib64") }, want: "libcuda.so.1 is not on this host"},
		"no device table": {in: instance(), change: func(h *fakeHost) { h.remove("proc/devices") }, want: "which devices"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			if test.change != nil {
				test.change(h)
			}
			if test.holder == "" {
				test.holder = "s-1"
			}
			_, err := h.Bind(h200(), test.in, cut(), test.holder)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Bind = %v, want %q", err, test.want)
			}
			if bad := test.want == gpu.ErrBadPlace.Error(); errors.Is(err, gpu.ErrBadPlace) != bad {
				t.Errorf("that the place is at fault: %v, want %v", !bad, bad)
			}
		})
	}
}

// TestByTheLinkersCache: distributions keep the driver in directories of their own, reached over links.
func TestByTheLinkersCache(t *testing.T) {
	h := newHost(t)
	h.remove("usr/lib64")
	h.file("opt/nv/current/libcuda.so."+version, "")
	h.file("opt/nv/current/libnvidia-ml.so."+version, "")
	h.link("libcuda.so."+version, "opt/nv/current/libcuda.so.1")
	h.link("/opt/nv/current/libcuda.so.1", "etc/alternatives/cuda")
	h.link("../etc/alternatives/cuda", "odd/libcuda.so.1")
	h.file("etc/ld.so.cache", string(cache(library{Name: "libcuda.so.1", Path: "/gone/libcuda.so.1", flags: 0x0303}, library{Name: "libcuda.so.1", Path: "/odd/libcuda.so.1", flags: 0x0303},
		library{Name: "libcuda.so.1", Path: "/odd/libcuda.so.1", flags: 0x0a03})))
	mounts, err := h.files(version)
	if err != nil {
		t.Fatal(err)
	}
	lib := func(name string) gpu.Mount {
		real, _, _ := strings.Cut(name, ".so")
		return gpu.Mount{Source: h.Root + "/opt/nv/current/" + real + ".so." + version, Target: "/run/slipway/gpu/lib/" + name}
	}
	want := []gpu.Mount{lib("libcuda.so.1"), lib("libcuda.so." + version), lib("libnvidia-ml.so." + version), {Source: h.Root + "/usr/bin/nvidia-smi", Target: "/run/slipway/gpu/bin/nvidia-smi"}}
	if diff := cmp.Diff(want, mounts); diff != "" {
		t.Error(diff)
	}
}

// cache writes a linker's cache, behind one of the older form.
func cache(libraries ...library) []byte {
	head := append([]byte(cacheMagic), make([]byte, cacheHeader-len(cacheMagic))...)
	binary.LittleEndian.PutUint32(head[len(cacheMagic):], uint32(len(libraries)))
	var entries, words []byte
	text := func(s string) uint32 {
		at := cacheHeader + cacheEntry*len(libraries) + len(words)
		words = append(append(words, s...), 0)
		return uint32(at)
	}
	for _, l := range libraries {
		e := make([]byte, cacheEntry)
		binary.LittleEndian.PutUint32(e, l.flags)
		binary.LittleEndian.PutUint32(e[4:], text(l.Name))
		binary.LittleEndian.PutUint32(e[8:], text(l.Path))
		entries = append(entries, e...)
	}
	return slices.Concat([]byte("ld.so-1.7.0\x00\x00\x00\x00\x00"), head, entries, words)
}

// TestThisHostsCache: the linker's own file, whatever it holds, names files that are there.
func TestThisHostsCache(t *testing.T) {
	data, err := os.ReadFile("/etc/ld.so.cache")
	if err != nil {
		t.Skip("this host has no linker's cache:", err)
	}
	libraries := parseCache(data)
	i := slices.IndexFunc(libraries, func(l library) bool { return l.Name == "libc.so.6" })
	if i < 0 {
		t.Fatalf("no libc among %d libraries", len(libraries))
	}
	if _, err := os.Stat(libraries[i].Path); err != nil || libraries[i].machine() == "" {
		t.Errorf("%+v: %v", libraries[i], err)
	}
}

func TestResolveEndsInALoop(t *testing.T) {
	h := newHost(t)
	h.link("b", "a")
	h.link("a", "b")
	if got, err := h.resolve("/a"); err == nil {
		t.Errorf("a loop leads to %q", got)
	}
	if got, err := h.resolve("/usr"); err == nil {
		t.Errorf("a directory is the file %q", got)
	}
}

func TestWith(t *testing.T) {
	b := gpu.Binding{Env: map[string]string{"A": "1"}, Mounts: []gpu.Mount{{Source: "/a", Target: "/a"}}}
	got := With(b, map[string]string{"CUDA_MPS_PIPE_DIRECTORY": "/p"}, []gpu.Mount{{Source: "/p", Target: "/p", Write: true}})
	if len(b.Env) != 1 || len(b.Mounts) != 1 {
		t.Errorf("what was given has changed: %+v", b)
	}
	if len(got.Env) != 2 || len(got.Mounts) != 2 || got.Env["A"] != "1" {
		t.Errorf("With = %+v", got)
	}
}

func TestDir(t *testing.T) {
	d := Dir(filepath.Join(t.TempDir(), "cdi"))
	b := gpu.Binding{Name: gpu.Vendor + "=s-1", Env: gpu.Hidden()}
	for _, word := range []string{"one", "two"} {
		b.Env["SLIPWAY_GPU"] = word
		if err := d.Write(b); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(string(d), "slipway.io-gpu-s-1.json"))
		var got spec
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err != nil || got.Kind+"="+got.Devices[0].Name != b.Name || !slices.Contains(got.Devices[0].Edits.Env, "SLIPWAY_GPU="+word) {
			t.Errorf("%s: the description is %s, %v", word, text, err)
		}
	}
	for range 2 {
		if err := d.Remove(b.Name); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(string(d)); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	for _, name := range []string{"", "s-1", gpu.Vendor + "=../x", "nvidia.com/gpu=0"} {
		if err := d.Write(gpu.Binding{Name: name}); !errs.Is(err, errs.Invalid) {
			t.Errorf("Write of %q = %v", name, err)
		}
		if err := d.Remove(name); !errs.Is(err, errs.Invalid) {
			t.Errorf("Remove of %q = %v", name, err)
		}
	}
}

func FuzzParseCache(f *testing.F) {
	f.Add(cache(library{Name: "a", Path: "/a", flags: 3}))
	f.Add([]byte(cacheMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, l := range parseCache(data) {
			if l.Name == "" || l.Path == "" || strings.ContainsRune(l.Path, 0) {
				t.Errorf("%+v", l)
			}
		}
	})
}

func FuzzTables(f *testing.F) {
	f.Add([]byte("Character devices:\n195 nvidia\n\nBlock devices:\n"))
	f.Add([]byte("gpu0/gi1/access 12\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, n := range parseMajors(text) {
			if name == "" || n < 0 {
				t.Errorf("%q %d", name, n)
			}
		}
		for name, n := range parseMinors(text) {
			if name == "" || n < 0 {
				t.Errorf("%q %d", name, n)
			}
		}
	})
}
