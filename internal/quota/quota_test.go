package quota

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"slipway/internal/testenv"
)

func must(t *testing.T, all ...error) {
	t.Helper()
	for _, err := range all {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestStructsAreTheKernels(t *testing.T) {
	if got := unsafe.Sizeof(attributes{}); got != 28 {
		t.Errorf("fsxattr has %d bytes, want 28", got)
	}
	if got := unsafe.Sizeof(Block{}); got != 72 {
		t.Errorf("if_dqblk has %d bytes, want 72", got)
	}
}

// fake is a file system with quotas, or without.
type fake struct {
	enforced bool
	projects map[int]uint32
	blocks   map[uint32]Block
}

func (f *fake) kernel() kernel {
	inodes := map[string]int{"/a": 7, "/b": 8, "/c": 6, "/elsewhere": 9}
	return kernel{
		open: func(dir string) (int, uint64, error) {
			n, ok := inodes[dir]
			if !ok {
				return 0, 0, unix.ENOENT
			}
			return n, uint64(n), nil
		},
		shut:       func(int) {},
		enforced:   func(int) bool { return f.enforced },
		together:   func(a, b int) bool { return a < 9 && b < 9 },
		project:    func(fd int) (uint32, error) { return f.projects[fd], nil },
		setProject: func(fd int, id uint32) error { f.projects[fd] = id; return nil },
		get: func(_ int, id uint32) (Block, error) {
			b, ok := f.blocks[id]
			if !ok {
				return Block{}, unix.ESRCH
			}
			return b, nil
		},
		put: func(_ int, id uint32, b Block) error {
			was := f.blocks[id]
			was.HardBlocks = b.HardBlocks
			f.blocks[id] = was
			return nil
		},
	}
}

func TestSet(t *testing.T) {
	f := &fake{enforced: true, projects: map[int]uint32{}, blocks: map[uint32]Block{ours | 7: {Files: 1}}}
	k := f.kernel()
	must(t, k.set("/a", 1<<20), k.set("/b", 1000))
	a, b := f.projects[7], f.projects[8]
	if a == b || a&ours == 0 || b&ours == 0 || a == ours|7 {
		t.Errorf("projects %x and %x: want two, and not the one that is in use", a, b)
	}
	if f.blocks[a].HardBlocks != 1024 || f.blocks[b].HardBlocks != 1 {
		t.Errorf("limits %d and %d blocks", f.blocks[a].HardBlocks, f.blocks[b].HardBlocks)
	}
	must(t, k.set("/a", 2<<20))
	if _, limit, err := k.used("/a"); err != nil || limit != 2<<20 || f.projects[7] != a {
		t.Errorf("changed: %d, %v, project %x", limit, err, f.projects[7])
	}
	must(t, k.join("/c", "/a"))
	if f.projects[6] != a {
		t.Errorf("joined: project %x, want %x", f.projects[6], a)
	}
	if err := k.join("/elsewhere", "/a"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("another file system joins: %v", err)
	}
	must(t, k.clear("/a"), k.clear("/gone"))
	if f.blocks[a].HardBlocks != 0 {
		t.Error("the limit stays")
	}
}

func TestNotEnforced(t *testing.T) {
	k := (&fake{projects: map[int]uint32{}}).kernel()
	if err := k.set("/a", 1); !errors.Is(err, ErrUnsupported) {
		t.Errorf("%v", err)
	}
	if _, _, err := k.used("/a"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("%v", err)
	}
	must(t, k.clear("/a"))
}

// TestRealFileSystems writes beyond a limit, where this kernel has quotas.
func TestRealFileSystems(t *testing.T) {
	testenv.Need(t, testenv.Root)
	for name, tc := range map[string]struct {
		size  int64
		mkfs  []string
		mount string
	}{
		"ext4": {64 << 20, []string{"mkfs.ext4", "-q", "-O", "quota,project", "-E", "quotatype=prjquota"}, "prjquota"},
		"xfs":  {320 << 20, []string{"mkfs.xfs", "-q"}, "pquota"},
	} {
		t.Run(name, func(t *testing.T) {
			image, at := filepath.Join(t.TempDir(), "image"), t.TempDir()
			must(t, os.WriteFile(image, nil, 0o600), os.Truncate(image, tc.size))
			if out, err := exec.Command(tc.mkfs[0], append(tc.mkfs[1:], image)...).CombinedOutput(); err != nil {
				t.Skipf("%v: %s", err, out)
			}
			if out, err := exec.Command("mount", "-o", "loop,"+tc.mount, image, at).CombinedOutput(); err != nil {
				t.Skipf("this kernel has no such quotas: %v: %s", err, out)
			}
			t.Cleanup(func() { _ = syscall.Unmount(at, syscall.MNT_DETACH) })
			dir, other := filepath.Join(at, "dir"), filepath.Join(at, "other")
			must(t, os.Mkdir(dir, 0o755), os.Chown(dir, user, user), Set(dir, 4<<20))
			must(t, os.Mkdir(other, 0o755), os.Chown(other, user, user), Join(other, dir))
			if !Enforced(at) {
				t.Error("it says that nothing is enforced")
			}
			must(t, asUser(dir, "small", 1<<20), asUser(other, "small", 1<<20))
			used, limit, err := Used(dir)
			if err != nil || used < 2<<20 || limit != 4<<20 {
				t.Errorf("%d of %d, %v", used, limit, err)
			}
			if asUser(dir, "large", 8<<20) == nil || asUser(other, "large", 8<<20) == nil {
				t.Error("more can be written than the limit")
			}
			if used, _, err := Used(dir); err != nil || used > 4<<20 {
				t.Errorf("beyond the limit: %d, %v", used, err)
			}
			must(t, Set(dir, 16<<20), asUser(dir, "large", 8<<20))
			must(t, Clear(dir))
			if _, limit, err := Used(dir); err != nil || limit != 0 {
				t.Errorf("cleared: limit %d, %v", limit, err)
			}
			must(t, asUser(other, "large", 16<<20), os.RemoveAll(dir), os.RemoveAll(other))
		})
	}
}

// user has no capabilities: ext4 does not hold root to a limit.
const user = 20001

// asUser writes so many bytes to a file.
func asUser(dir, name string, bytes int64) error {
	c := exec.Command("head", "-c", strconv.FormatInt(bytes, 10), "/dev/zero")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	file, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer file.Close()
	c.Stdout = file
	return c.Run()
}

// TestInAKernelWithQuotas has TestRealFileSystems run in a kernel that surely has quotas, as a process here: User Mode
// Linux.
func TestInAKernelWithQuotas(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.UML)
	dir := t.TempDir()
	program, start := filepath.Join(dir, "quota.test"), filepath.Join(dir, "init")
	build := exec.Command("go", "test", "-c", "-trimpath", "-o", program, "slipway/internal/quota")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	must(t, os.WriteFile(start, []byte(`#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/mnt
mount -t proc proc /proc && mount -t sysfs sysfs /sys && mount -t tmpfs tmp /mnt
for module in fs/quota/quota_tree fs/quota/quota_v2 drivers/block/loop; do busybox insmod "/usr/lib/uml/modules/$(uname -r)/kernel/$module.ko"; done
cd /mnt && `+program+` -test.v -test.run '^TestRealFileSystems$'
echo o >/proc/sysrq-trigger
sleep 60
`), 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	// The files of this host are its root, read-only.
	out, err := exec.CommandContext(ctx, "linux.uml", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "mem=1024M", "panic=1",
		"uml_dir="+dir, "init="+start, "con=null", "con0=null,fd:1").CombinedOutput()
	for _, name := range []string{"ext4", "xfs"} {
		if err != nil || !bytes.Contains(out, []byte("--- PASS: TestRealFileSystems/"+name+" ")) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func TestUnsupportedIsSaid(t *testing.T) {
	if err := Set("/proc/1", 1); !errors.Is(err, ErrUnsupported) {
		t.Errorf("%v", err)
	}
	if Enforced("/proc/1") || Enforced("/does/not/exist") {
		t.Error("limits are enforced everywhere")
	}
	must(t, Clear("/proc/1"), Clear("/does/not/exist"))
}

func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a\nb")
	must(t, os.WriteFile(file, bytes.Repeat([]byte{1}, 1<<20), 0o600))
	must(t, os.Link(file, filepath.Join(dir, "again")), os.Symlink("/", filepath.Join(dir, "root")))
	if used, err := Measure(t.Context(), dir, t.TempDir()); err != nil || used < 1<<20 || used > 2<<20 {
		t.Errorf("%d, %v", used, err)
	}
	if _, err := Measure(t.Context(), filepath.Join(dir, "gone")); err != nil {
		t.Errorf("what has gone: %v", err)
	}
}

// TestMeasuredOnce: what has several names counts once, and neither holes nor what lies behind a link do.
func TestMeasuredOnce(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "a", "big")
	if err := os.Mkdir(filepath.Dir(big), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(big, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	hole, err := os.Create(filepath.Join(dir, "hole"))
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	for _, err := range []error{hole.Truncate(1 << 40), os.Link(big, filepath.Join(dir, "again")), os.Symlink("/", filepath.Join(dir, "out"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Measure(t.Context(), dir); err != nil || got < 4<<20 || got > 5<<20 {
		t.Errorf("%d bytes, %v: want 4 MiB, once, without the hole and what lies behind a link", got, err)
	}
}

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), bytes.Repeat([]byte{1}, 1<<20), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := int64(0)
	must(t, Watch(ctx, 1<<19, func(used int64) { told = used; cancel() }, dir))
	if told < 1<<20 {
		t.Errorf("told of %d", told)
	}
}

func FuzzTotal(f *testing.F) {
	f.Add([]byte("12\t/a\x003\t/b\x00"))
	f.Fuzz(func(t *testing.T, out []byte) {
		if n, err := total(out); err == nil && n < 0 && len(out) < 40 {
			t.Errorf("total(%q) = %d", out, n)
		}
	})
}
