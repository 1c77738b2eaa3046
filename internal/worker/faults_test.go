package worker

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/internal/testenv"
)

// What a node lacks is said in plain words, with what to do, and comes back.
func TestNodeLacks(t *testing.T) {
	for name, test := range map[string]struct {
		spoil  func(*node)
		reason string
		remedy string
	}{
		"Apptainer": {func(n *node) { n.plan.Apptainer = "/opt/nowhere/apptainer" }, "Apptainer is not installed on the worker node", "need Apptainer"},
		"image":     {func(n *node) { n.plan.Image.Path = "/shared/nowhere.sif" }, "is not to be had on the worker node: there is no /shared/nowhere.sif; no address is known", "uplink.url"},
		"all of the image": {func(n *node) {
			n.plan.Image.Path = n.at("half.sif")
			must(n.t, os.WriteFile(n.plan.Image.Path, fakeImage(5000, 'x')[:4000], 0o644))
		}, "is damaged: it has 4000 bytes of 5000", "administrator"},
		"a sound image": {func(n *node) {
			n.plan.Image.Path = n.at("image.sif")
			must(n.t, os.WriteFile(n.plan.Image.Path, fakeImage(50000, 0), 0o644))
		}, "the image is damaged", "freeze the environment again"},
		"a service that gives the image": {func(n *node) {
			s := newShop(n.t, nil)
			s.Config.Handler = status(404)
			n.plan.Image.Path, n.link = "", s.uplink()
		}, "the service does not give the image (HTTP status 404)", "slipway envs"},
		"a plan":               {func(n *node) { n.plan.ID = "" }, "names no run", ""},
		"a sound path":         {func(n *node) { n.plan.Home = "/home/a:b" }, `"/home/a:b" is not valid`, "without colons"},
		"the user":             {func(n *node) { n.uid = 54321 }, "does not know the user", "table of users"},
		"an agent that starts": {func(n *node) { n.plan.Image.Path = n.otherImage() }, "its container could not be made", "administrator"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "echo here")
			test.spoil(n)
			code, e := n.run()
			if code == 0 || e.ExitCode != code || !strings.Contains(e.Reason, test.reason) || !strings.Contains(e.Remedy, test.remedy) {
				t.Errorf("code %d, %+v\nwant %q, %q", code, e, test.reason, test.remedy)
			}
		})
	}
}

// otherImage is one that lacks the places to bind on, and where nobody may make them.
func (n *node) otherImage() string {
	n.t.Helper()
	tree := n.at("tree")
	must(n.t, os.MkdirAll(filepath.Join(tree, "run"), 0o755), os.WriteFile(filepath.Join(tree, "run/slipway"), nil, 0o644))
	out, err := exec.Command("mksquashfs", tree, n.at("other"), "-quiet", "-no-progress", "-noappend").CombinedOutput()
	if err != nil {
		n.t.Fatalf("%v: %s", err, out)
	}
	return n.at("other")
}

// TestNoUserNamespaces runs the worker where the kernel gives it no namespace of its own.
func TestNoUserNamespaces(t *testing.T) {
	n := newNode(t, "echo here")
	n.via = []string{"unshare", "--user", "--map-root-user", "sh", "-c", `echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"`, "sh"}
	n.uid = 0
	code, e := n.run()
	if code == 0 || !strings.Contains(e.Reason, "user namespaces are forbidden there") || !strings.Contains(e.Remedy, "max_user_namespaces") {
		t.Errorf("code %d, %+v", code, e)
	}
}

// TestDiskFull: on a node without room all that has come so far comes back, with the reason.
func TestDiskFull(t *testing.T) {
	for name, test := range map[string]struct {
		line string
		room int64 // of the sandbox, beside the program
		want string
	}{
		"while the job runs":     {"echo begun; while [ ! -s ../app.log ]; do sleep 0.1; done; dd if=/dev/zero of=$PWD/large bs=1M count=200", 8 << 20, fullDisk},
		"while the image comes":  {"echo here", 100 << 10, fullDisk},
		"before anything begins": {"echo here", 0, fullDisk},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, test.line)
			n.smallDisk(test.room)
			if test.room < 1<<20 {
				n.plan.Image.Path, n.link = "", newShop(t, fakeImage(8<<20, 'x')).uplink()
			}
			n.send()
			if test.room == 0 {
				_, err := exec.Command("dd", "if=/dev/zero", "of="+n.at("filler"), "bs=4k").CombinedOutput()
				if err == nil {
					t.Fatal("the disk does not get full")
				}
				must(t, os.Truncate(n.at("filler"), 0), os.WriteFile(n.at("filler"), bytes.Repeat([]byte{0}, int(free(t, n.box)-16<<10)), 0o600))
			}
			n.start()
			code, e := n.wait()
			if code == 0 || !strings.Contains(e.Reason, test.want) || !strings.Contains(e.Remedy, "more disk") {
				t.Errorf("code %d, %+v", code, e)
			}
			if test.room > 1<<20 && !strings.HasPrefix(n.out(LogFile), "begun\n") {
				t.Errorf("the log: %s", n.out(LogFile))
			}
		})
	}
}

// smallDisk puts the sandbox on a disk with so many bytes, beside the program's.
func (n *node) smallDisk(room int64) {
	n.t.Helper()
	st, err := os.Stat(filepath.Join(shared(), "slipway"))
	must(n.t, err, unix.Mount("tmpfs", n.box, "tmpfs", 0, fmt.Sprintf("size=%d,mode=755", (st.Size()+4095)/4096*4096+256<<10+room)))
	n.t.Cleanup(func() { must(n.t, unix.Unmount(n.box, 0)) })
}

func free(t *testing.T, dir string) int64 {
	t.Helper()
	var st unix.Statfs_t
	must(t, unix.Statfs(dir, &st))
	return int64(st.Bavail) * st.Bsize
}

// What Apptainer says becomes a reason. The words are its own, as it said them here or as its source has them.
func TestTroubles(t *testing.T) {
	for said, want := range map[string]string{
		"ERROR  : Failed to create user namespace: not allowed to create user namespace":                                                           "user namespaces are forbidden",
		"ERROR  : Failed to create user namespace: maximum number of user namespaces exceeded, check /proc/sys/user/max_user_namespaces":           "user namespaces are forbidden",
		"unshare: unshare failed: No space left on device":                                                                                         "user namespaces are forbidden",
		"unshare: unshare failed: Operation not permitted":                                                                                         "user namespaces are forbidden",
		"FATAL:   container creation failed: mount hook function failure: squashfuse_ll exited: fuse: failed to open /dev/fuse: Permission denied": "FUSE is not to be had",
		"FATAL:   container creation failed: failed to add image: squashfuse_ll not found":                                                         "cannot mount the image",
		"FATAL:   container creation failed: while setting overlay session layout: overlay disabled by configuration":                              "no overlays",
		"FATAL:   could not open image /x.sif: image format not recognized":                                                                        "the image is damaged",
		"FATAL:   While checking container encryption: could not open image /x.sif: permission denied":                                             "cannot be opened",
		"FATAL:   the image's architecture (arm64) could not run on the host's (amd64)":                                                            "another kind of processor",
		"FATAL:   container creation failed: write /x: no space left on device":                                                                    fullDisk,
		"\x1b[31mFATAL:  \x1b[0m something new":                                                                                                    "its container could not be made: something new",
		"level=ERR msg=\"the overlay is not readable\"":                                                                                            "without a word",
		"": "without a word",
	} {
		if reason, remedy := noContainer("INFO:    squashfuse overlay\n" + said + "\n"); !strings.Contains(reason, want) || remedy == "" {
			t.Errorf("%q: %q (%q), want %q", said, reason, remedy, want)
		}
	}
}

func TestMemoryOfTheRun(t *testing.T) {
	for _, test := range []struct {
		self  string
		files map[string]string
		want  string
	}{
		{"0::/job\n", map[string]string{"job/memory.events": "low 0\noom_kill 2\n", "job/memory.max": "2147483648\n"}, "out of memory (limit 2 GiB)"},
		{"5:memory:/job\n1:name=systemd:/x\n0::/y\n", map[string]string{"memory/job/memory.oom_control": "under_oom 0\noom_kill 1\n", "memory/job/memory.limit_in_bytes": "1073741824\n"}, "out of memory (limit 1 GiB)"},
		{"0::/job\n", map[string]string{"job/memory.events": "oom_kill 2\n", "job/memory.max": "max\n"}, ""},
		{"0::/job\n", map[string]string{"job/memory.events": "oom_kill 0\n", "job/memory.max": "2147483648\n"}, ""},
		{"5:memory:/\n", map[string]string{"memory/memory.oom_control": "oom_kill 7\n", "memory/memory.limit_in_bytes": "9223372036854771712\n"}, ""},
		{"", nil, ""}, {"nonsense\n::\n", nil, ""},
	} {
		root := t.TempDir()
		self := filepath.Join(root, "self")
		must(t, os.WriteFile(self, []byte(test.self), 0o600))
		for name, text := range test.files {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755), os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
		}
		if got := readMemory(root, self).exceeded(memory{}); got != test.want {
			t.Errorf("%q: %q, want %q", test.self, got, test.want)
		}
	}
}

// TestOutOfMemory: what the batch system's limit ends says so.
func TestOutOfMemory(t *testing.T) {
	n := newNode(t, "echo begun; dd if=/dev/zero of=/dev/null bs=600M count=1")
	group, limit := "/sys/fs/cgroup/memory/slipway-test-worker", "memory.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		group, limit = "/sys/fs/cgroup/slipway-test-worker", "memory.max"
		must(t, os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+memory"), 0o644))
	}
	must(t, os.MkdirAll(group, 0o755))
	t.Cleanup(func() { until(t, "the group is empty", func() bool { return os.Remove(group) == nil }) })
	must(t, os.WriteFile(filepath.Join(group, limit), []byte("400000000"), 0o644))
	n.via = []string{"sh", "-c", `echo $$ > "$0/cgroup.procs"; exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"`, group}
	code, e := n.run()
	if code != 137 || e.Reason != "out of memory (limit 381.5 MiB)" || !strings.Contains(e.Remedy, "--mem") || !strings.HasPrefix(n.out(LogFile), "begun\n") {
		t.Errorf("code %d, %+v, log %s", code, e, n.out(LogFile))
	}
}

func TestTail(t *testing.T) {
	last := &tail{limit: 10}
	for _, s := range []string{"first\n", "second\n", "thi", "\x1b[2Jrd\n"} {
		n, err := last.Write([]byte(s))
		if n != len(s) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if got := last.text(); got != "thi[2Jrd\n" {
		t.Errorf("%q", got)
	}
	_, _ = last.Write(bytes.Repeat([]byte("\xff"), 100))
	if got := last.text(); got != "?" {
		t.Errorf("%q", got)
	}
}

func TestParentIn(t *testing.T) {
	for stat, want := range map[string]int{
		"7 (sh) S 5 7 7 0": 5, "7 (a) S 9) R 5 7": 5, "": 0, "7 (sh": 0, "7 (sh) S": 0, "7 (sh) S x 1": 0,
	} {
		if got := parentIn([]byte(stat)); got != want {
			t.Errorf("%q: %d, want %d", stat, got, want)
		}
	}
}

// What a batch system says of GPUs is passed on, and of nothing else.
func TestGPU(t *testing.T) {
	pipe := t.TempDir()
	given := []string{
		"CUDA_VISIBLE_DEVICES=MIG-b1", "NVIDIA_VISIBLE_DEVICES=GPU-MIG-b1", "CUDA_MPS_PIPE_DIRECTORY=" + pipe, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=4G",
		"_CONDOR_SLOT=slot1", "SECRET=hush", "PATH=/x",
	}
	forged := map[string]string{
		"CUDA_VISIBLE_DEVICES": "0", "NVIDIA_VISIBLE_DEVICES": "all", "CUDA_MPS_PIPE_DIRECTORY": "/forged", "APPTAINER_NV": "1", "HOME": "/forged",
		"a b": "1", "1x": "1", "GOOD_1": "1",
	}
	for _, gpu := range []bool{true, false} {
		w := &worker{cfg: Config{Env: given}, box: sandbox{dir: "/box"}, plan: Plan{ID: "j-1", Login: "alice", Home: "/home/alice", GPU: gpu, Env: forged}}
		var err error
		w.daemon, err = w.shared()
		must(t, err)
		env, argv := strings.Join(w.environ(), "\n"), strings.Join(w.argv("apptainer", "/i.sif"), " ")
		for _, want := range []string{
			"APPTAINERENV_CUDA_VISIBLE_DEVICES=MIG-b1", "APPTAINERENV_NVIDIA_VISIBLE_DEVICES=MIG-b1", "APPTAINERENV_CUDA_MPS_PIPE_DIRECTORY=" + pipe,
			"APPTAINERENV_CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=4G",
		} {
			if strings.Contains(env, want) != gpu {
				t.Errorf("gpu %v: %s: environment %s", gpu, want, env)
			}
		}
		if strings.Contains(argv, " --nv ") != gpu || strings.Contains(argv, "--bind "+pipe) != gpu || strings.Contains(env, "APPTAINER_NO_NV=true") == gpu {
			t.Errorf("gpu %v: %s", gpu, argv)
		}
		for _, bad := range []string{"forged", "=all", "=0\n", "a b", "1x"} {
			if strings.Contains(env, bad) || !strings.Contains(env, "APPTAINERENV_GOOD_1=1") {
				t.Errorf("%q: what the user sets: %s", bad, env)
			}
		}
		if strings.Contains(env, "hush") || strings.Contains(env, "slot1") || strings.Contains(env, "GPU-MIG") {
			t.Errorf("gpu %v: %s", gpu, env)
		}
	}
}

// TestStrangersDaemon: a GPU is not shared by what another user may have put there.
func TestStrangersDaemon(t *testing.T) {
	testenv.Need(t, testenv.Root)
	for what, tc := range map[string]struct {
		spoil func(dir string) error
		want  string
	}{
		"as it should be": {func(string) error { return nil }, ""},
		"not there":       {os.Remove, ""},
		"somebody else's": {func(dir string) error { return os.Chown(dir, nobody, nobody) }, "of another user"},
		"anybody's":       {func(dir string) error { return os.Chmod(dir, 0o777) }, "others may change"},
		"a stranger's link": {func(dir string) error {
			return joinAll(os.Remove(dir), os.Symlink("/run", dir), os.Lchown(dir, nobody, nobody))
		}, "of another user"},
		"in a stranger's directory": {func(dir string) error { return os.Chown(filepath.Dir(dir), nobody, nobody) }, "of another user"},
	} {
		dir := filepath.Join(t.TempDir(), "pipe")
		must(t, os.Mkdir(dir, 0o755), tc.spoil(dir))
		w := &worker{cfg: Config{Env: []string{sharedGPU + "=" + dir}}, plan: Plan{GPU: true}}
		got, err := w.shared()
		if tc.want == "" && (err != nil || got != "" && got != dir) || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}

func TestFindApptainer(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "singularity")
	must(t, os.WriteFile(old, []byte("#!/bin/sh\n"), 0o755), os.WriteFile(filepath.Join(dir, "plain"), nil, 0o644))
	for name, test := range map[string]struct{ plan, path, want string }{
		"by its path":        {old, "", old},
		"by its name":        {"singularity", "relative:" + dir, old},
		"not executable":     {filepath.Join(dir, "plain"), "", ""},
		"not there":          {"no-such-apptainer", dir, ""},
		"not where it is to": {"/nowhere/singularity", dir, ""},
	} {
		if got, err := findApptainer(test.plan, []string{"PATH=" + test.path}); got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	testenv.Need(t, testenv.Apptainer)
	if got, err := findApptainer("", nil); err != nil || !filepath.IsAbs(got) {
		t.Errorf("without PATH: %q, %v", got, err)
	}
}
