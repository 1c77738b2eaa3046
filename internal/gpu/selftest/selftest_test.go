package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/gpu/cuda"
	"slipway/internal/gpu/cuda/cudatest"
)

// TestMain lets this test program be the helper: what a fault of the fake libraries ends is not the test.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "selftest" {
		briefTime = time.Hour
		os.Exit(Main(context.Background(), os.Args[2:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

const (
	mig   = "MIG-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
	other = "GPU-99999999-2222-3333-4444-555555555555"
	gib   = int64(1) << 30
)

// place is a host as the test is to find it: one whole GPU of 16 GiB and 16 processors, leased and sound.
type place struct {
	libraries string
	root      string
	expect    *gpu.Expectation
	env       []string
	args      []string
}

func sound(t *testing.T, libraries string) *place {
	p := &place{
		libraries: libraries, root: t.TempDir(),
		expect: &gpu.Expectation{UUIDs: []string{cudatest.UUID}, Memory: 16 * gib, SMs: 16, Tier: gpu.Hardware, Driver: "580.159.04"},
		env:    []string{"CUDA_VISIBLE_DEVICES=" + cudatest.UUID},
	}
	for _, n := range []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia3"} {
		p.file(t, "/dev/"+n, "")
	}
	p.file(t, "/proc/driver/nvidia/version",
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs-builder)\nGCC version:  gcc version 12.2.0\n")
	return p
}

func (p *place) file(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(p.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p *place) remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(p.root, name)); err != nil {
		t.Fatal(err)
	}
}

// door is a directory with a socket on which somebody listens. A socket's path is short: it does not lie in the tree.
func door(t *testing.T, network string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "mps")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen(network, filepath.Join(dir, "control"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return dir
}

// mps makes it a share of 4 GiB and 8 processors.
func (p *place) mps(t *testing.T) {
	t.Helper()
	if err := os.Symlink(door(t, "unixpacket"), filepath.Join(p.root, "mps")); err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, pipeEnv+"=/mps")
	p.expect.Tier, p.expect.Memory, p.expect.SMs = gpu.Process, 4*gib, 8
	p.env = append(p.env, "FAKE_SMS=8", "FAKE_LIMIT=4294967296")
}

// cut makes it a MIG instance.
func (p *place) cut(t *testing.T) {
	p.expect.UUIDs = []string{mig}
	p.env = []string{"FAKE_UUIDS=" + mig, "CUDA_VISIBLE_DEVICES=" + mig, "FAKE_NVML_UUIDS=" + cudatest.UUID, "FAKE_MIG_UUIDS=" + mig}
	p.file(t, "/dev/nvidia-caps/nvidia-cap12", "")
	p.file(t, "/dev/nvidia-caps/nvidia-cap13", "")
}

// run runs the helper and reads its report.
func (p *place) run(t *testing.T) (Report, int) {
	t.Helper()
	argv := append([]string{"selftest", "--json", "--library-dir", p.libraries, "--root", p.root}, p.args...)
	if p.expect != nil {
		b, err := json.Marshal(p.expect)
		if err != nil {
			t.Fatal(err)
		}
		argv = append(argv, "--expect", string(b))
	}
	c := exec.CommandContext(t.Context(), os.Args[0], argv...)
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/", "GORACE=atexit_sleep_ms=0"}, p.env...) // it sleeps at its end otherwise
	var out, errOut bytes.Buffer
	c.Stdout, c.Stderr = &out, &errOut
	err := c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatalf("%v %v", exit, err)
	}
	var r Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil && c.ProcessState.ExitCode() != 2 {
		t.Fatalf("%v: %s\n%s", err, out.String(), errOut.String())
	}
	if last := lastLine(errOut.String()); len(r.Checks) > 0 && r.Result != OK && c.ProcessState.ExitCode() != 2 && last != string(r.Result)+": "+strings.ReplaceAll(r.Fault, "\n", "; ") {
		t.Errorf("the last line is %q of %+v", last, r)
	}
	return r, c.ProcessState.ExitCode()
}

func (r Report) check(name string) Check {
	i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		return Check{}
	}
	return r.Checks[i]
}

// Each kind of slice passes where it is sound, with all that can be checked there checked.
func TestSound(t *testing.T) {
	libraries := cudatest.Build(t)
	for name, test := range map[string]struct {
		change  func(*testing.T, *place)
		skipped string // checks, in order
	}{
		"whole":    {func(*testing.T, *place) {}, "MPS"},
		"instance": {func(t *testing.T, p *place) { p.cut(t) }, "MPS"},
		"named files": {func(t *testing.T, p *place) {
			p.expect.Nodes = []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia3"}
		}, "MPS"},
		"brief":  {func(_ *testing.T, p *place) { p.args = []string{"--brief"} }, "MPS, second process"},
		"cgroup": {func(_ *testing.T, p *place) { p.expect.Tier, p.expect.Memory = gpu.Cgroup, 16*gib }, "MPS"},
		"share":  {func(t *testing.T, p *place) { p.mps(t) }, ""},
		"shared": {func(_ *testing.T, p *place) { p.expect.Tier, p.expect.Memory = gpu.None, gib }, "MPS, memory limit"},
		"on node": {func(_ *testing.T, p *place) {
			p.expect, p.env = nil, []string{"FAKE_UUIDS=" + cudatest.UUID + "," + other}
		}, "MPS, no other GPU"},
		"in use":       {func(_ *testing.T, p *place) { p.env = append(p.env, "FAKE_HELD=10737418240") }, "MPS"},
		"newer driver": {func(_ *testing.T, p *place) { p.env = append(p.env, "FAKE_FAULT=oldptx") }, "MPS"},
		"no health":    {func(_ *testing.T, p *place) { p.env = append(p.env, "FAKE_FAULT=unreadable") }, "MPS, health"},
		"slow, shared": {func(_ *testing.T, p *place) {
			p.expect.Tier, p.env = gpu.Cgroup, append(p.env, "FAKE_FAULT=slow")
			p.args = []string{"--brief"}
		}, "MPS, second process"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sound(t, libraries)
			p.file(t, "/opt/conda/lib/libcudart.so.12.4.127", "")
			test.change(t, p)
			r, code := p.run(t)
			var skipped []string
			for _, c := range r.Checks {
				if c.Result == Skipped {
					skipped = append(skipped, c.Name)
				}
			}
			if code != ExitOK || r.Result != OK || len(r.Checks) != len(checks(t.Context())) || strings.Join(skipped, ", ") != test.skipped {
				t.Errorf("code %d, %s, skipped %q: %+v", code, r.Fault, skipped, r.Checks)
			}
		})
	}
}

// Every check fails on its own fault, and says what is wrong and what to do.
func TestFaults(t *testing.T) {
	libraries := cudatest.Build(t)
	thorough := []string{"memory that is not there", "another error than no memory", "a wrong result", "one process at a time"}
	env := func(kv ...string) func(*testing.T, *place) {
		return func(_ *testing.T, p *place) { p.env = append(p.env, kv...) }
	}
	for _, test := range []struct {
		name   string
		change func(*testing.T, *place)
		check  string
		says   string
	}{
		{"a missing file", func(t *testing.T, p *place) { p.remove(t, "/dev/nvidia-uvm") }, "device files", "missing: /dev/nvidia-uvm"},
		{"no GPU's file", func(t *testing.T, p *place) { p.remove(t, "/dev/nvidia3") }, "device files", "0 GPUs have a device file"},
		{"another GPU's file", func(t *testing.T, p *place) { p.file(t, "/dev/nvidia4", "") }, "device files", "2 GPUs have a device file"},
		{"another file than named", func(t *testing.T, p *place) {
			p.expect.Nodes = []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia2"}
		}, "device files", "missing: /dev/nvidia2"},
		{"one more than named", func(t *testing.T, p *place) {
			p.expect.Nodes = []string{"/dev/nvidiactl", "/dev/nvidia-uvm"}
		}, "device files", "not of this slice: /dev/nvidia3"},
		{"a stranger", func(t *testing.T, p *place) { p.file(t, "/dev/nvidia-nvswitch0", "") }, "device files", "not of this slice: /dev/nvidia-nvswitch0"},
		{"rights over MIG", func(t *testing.T, p *place) { p.cut(t); p.file(t, configures, "") }, "device files", "not of this slice: " + configures},
		{"an instance without caps", func(t *testing.T, p *place) { p.cut(t); p.remove(t, "/dev/nvidia-caps/nvidia-cap13") }, "device files", "1 files in /dev/nvidia-caps where 2"},
		{"a file that does not open", func(t *testing.T, p *place) {
			p.remove(t, "/dev/nvidia3")
			if err := os.Symlink(filepath.Join(door(t, "unix"), "control"), filepath.Join(p.root, "dev/nvidia3")); err != nil {
				t.Fatal(err)
			}
		}, "device files", "/dev/nvidia3 does not open"},

		{"another driver's library", env("FAKE_DRIVER=570.1.2"), "NVML", "the library is of driver 570.1.2, the kernel has 580.159.04"},
		{"another driver than the node's", func(t *testing.T, p *place) {
			p.remove(t, "/proc/driver/nvidia/version")
			p.expect.Driver = "575.51"
		}, "NVML", "the library is of driver 580.159.04, the node has 575.51"},
		{"a mismatch", env("FAKE_NVML_INIT=18"), "NVML", "Driver/library version mismatch (18): the kernel has 580.159.04"},
		{"no module", env("FAKE_NVML_INIT=9"), "NVML", "Driver Not Loaded"},

		{"cuInit", env("FAKE_INIT=803"), "CUDA driver", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"},
		{"an unknown error", env("FAKE_INIT=999"), "CUDA driver", "cuInit"},
		{"no device", env("CUDA_VISIBLE_DEVICES=" + other), "CUDA driver", `CUDA_VISIBLE_DEVICES is "` + other},
		{"wrong device", env("FAKE_UUIDS="+other, "CUDA_VISIBLE_DEVICES="+other), "devices", "99999999-2222-3333-4444-555555555555 is shown where " + cudatest.UUID},
		{"too many devices", env("FAKE_UUIDS="+cudatest.UUID+","+other, "CUDA_VISIBLE_DEVICES="+cudatest.UUID+","+other), "devices", "2 devices are shown"},
		{"too many processors", env("FAKE_SMS=132"), "processors", "132 where 16 are leased"},
		{"too few processors", env("FAKE_SMS=14"), "processors", "14 where 16 are leased"},
		{"a share of the processors that is not held", func(t *testing.T, p *place) { p.mps(t); p.env = append(p.env, "FAKE_SMS=16") }, "processors", "16 where 8 are leased"},

		{"no way to the daemon", func(_ *testing.T, p *place) { p.expect.Tier = gpu.Process }, "MPS", pipeEnv + " is not set"},
		{"no daemon", func(_ *testing.T, p *place) { p.env = append(p.env, pipeEnv+"=/run/none") }, "MPS", "no such file"},

		{"a bigger device", env("FAKE_MEMORY=171798691840"), "memory limit", "told of 160G where 16G are leased"},
		{"a smaller device", env("FAKE_MEMORY=8589934592"), "memory limit", "has 8G where 16G"},
		{"no limit by cgroup", func(_ *testing.T, p *place) { p.expect.Tier, p.expect.Memory = gpu.Cgroup, 4*gib }, "memory limit", "told of 16G where 4G are leased"},
		{"no limit by MPS", func(t *testing.T, p *place) { p.mps(t); p.env = append(p.env, "FAKE_LIMIT=") }, "memory limit", "could be taken where 4G are leased"},
		{"a limit too small", func(t *testing.T, p *place) { p.mps(t); p.env = append(p.env, "FAKE_LIMIT=2147483648") }, "memory limit", "of 4G leased could be taken"},
		{"memory that is not there", env("FAKE_LIMIT=4294967296"), "memory limit", "of 16G leased could be taken"},
		{"another error than no memory", env("FAKE_FAULT=oddalloc"), "memory limit", "CUDA_ERROR_INVALID_VALUE"},
		{"no context", env("FAKE_FAULT=create"), "memory limit", "cuCtxCreate_v2"},

		{"a wrong result", env("FAKE_FAULT=result"), "kernel", "result 349525 of 1048576"},
		{"no compiler", env("FAKE_FAULT=noptx"), "kernel", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
		{"wrong copies", env("FAKE_FAULT=copy"), "copies", "came back as"},
		{"slow copies", env("FAKE_FAULT=slow"), "copies", "below 0.25"},
		{"one process at a time", func(t *testing.T, p *place) { p.env = append(p.env, "FAKE_LOCK="+filepath.Join(t.TempDir(), "lock")) }, "second process", "CUDA_ERROR_DEVICE_UNAVAILABLE"},
		{"another GPU behind the variable", env("FAKE_UUIDS=" + cudatest.UUID + "," + other), "no other GPU", "a process reaches 99999999"},
		{"another GPU by NVML", env("FAKE_NVML_UUIDS=" + cudatest.UUID + "," + other), "no other GPU", "NVML shows " + other},
		{"another instance by NVML", func(t *testing.T, p *place) {
			p.cut(t)
			p.env = append(p.env, "FAKE_MIG_UUIDS="+mig+",MIG-bbbbbbbb-bbbb-cccc-dddd-eeeeeeeeeeee")
		}, "no other GPU", "NVML shows MIG-bbbbbbbb"},
		{"another GPU beside an instance", func(t *testing.T, p *place) {
			p.cut(t)
			p.env = append(p.env, "FAKE_NVML_UUIDS="+cudatest.UUID+","+other)
		}, "no other GPU", "NVML shows 2 GPUs"},

		{"memory errors", env("FAKE_ECC=3"), "health", "3 uncorrected memory errors"},
		{"a broken row", env("FAKE_FAULT=remap"), "health", "could not be remapped"},
		{"a driver that hangs", func(_ *testing.T, p *place) {
			p.env, p.args = append(p.env, "FAKE_FAULT=hang"), []string{"--timeout", "300ms"}
		}, "CUDA driver", "had not ended"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := sound(t, libraries)
			if !slices.Contains(thorough, test.name) { // it is found at the start of a session too
				p.args = []string{"--brief"}
			}
			test.change(t, p)
			r, code := p.run(t)
			c := r.check(test.check)
			if c.Result != Failed || !strings.Contains(c.Detail, test.says) || code != ExitFailed || r.Result != Failed || !strings.Contains(r.Fault, test.check+": ") {
				t.Errorf("code %d, fault %q, check %+v", code, r.Fault, c)
			}
		})
	}
}

// A test that is ended says at which check, and only that.
func TestUnfinished(t *testing.T) {
	p := sound(t, cudatest.Build(t))
	p.env, p.args = append(p.env, "FAKE_FAULT=hang"), []string{"--timeout", "300ms"}
	r, _ := p.run(t)
	var results []Result
	for _, c := range r.Checks {
		results = append(results, c.Result)
	}
	want := append([]Result{OK, OK, Failed}, slices.Repeat([]Result{Skipped}, len(checks(t.Context()))-3)...)
	if !slices.Equal(results, want) {
		t.Errorf("%+v", r.Checks)
	}
}

// What is the image's own matter, or only slow, is a warning.
func TestWarnings(t *testing.T) {
	p := sound(t, cudatest.Build(t))
	p.file(t, "/usr/local/cuda-14/lib64/libcudart.so.14.0.12", "")
	p.file(t, "/venv/lib/python3.11/site-packages/nvidia/cuda_runtime/lib/libcudart.so.13", "")
	p.env = append(p.env, "VIRTUAL_ENV=/venv", "FAKE_TEMPERATURE=95")
	r, code := p.run(t)
	if c := r.check("CUDA runtime"); c.Result != Warning || !strings.Contains(c.Detail, "libcudart.so.14.0.12: the driver serves up to CUDA 13.0") || c.Remedy == "" {
		t.Errorf("%+v", c)
	}
	if c := r.check("health"); c.Result != Warning || !strings.Contains(c.Detail, "95 degrees") {
		t.Errorf("%+v", c)
	}
	if code != ExitOK || r.Result != OK {
		t.Errorf("code %d, %+v", code, r)
	}
}

func TestMissingFunction(t *testing.T) {
	r, code := sound(t, cudatest.Build(t, "NO_LAUNCH")).run(t)
	if c := r.check("CUDA driver"); code != ExitFailed || c.Result != Failed || !strings.Contains(c.Detail, "no function cuLaunchKernel") {
		t.Errorf("code %d, %+v", code, c)
	}
	if c := r.check("kernel"); c.Result != Skipped {
		t.Errorf("%+v", c)
	}
}

// A driver before R470 shows the GPU's UUID for an instance: that cannot be compared.
func TestOldDriver(t *testing.T) {
	p := sound(t, cudatest.Build(t, "OLD"))
	p.cut(t)
	r, code := p.run(t)
	if c := r.check("devices"); code != ExitOK || c.Result != Skipped {
		t.Errorf("code %d, %+v", code, r)
	}
}

func TestNothingToTest(t *testing.T) {
	p := sound(t, t.TempDir())
	if r, code := p.run(t); code != ExitNothing || r.Result != Nothing {
		t.Errorf("no library: code %d, %+v", code, r)
	}
	p.remove(t, "/dev/nvidiactl")
	if r, code := p.run(t); code != ExitFailed || !strings.Contains(r.Fault, "missing: /dev/nvidiactl") {
		t.Errorf("no library and no device: code %d, %+v", code, r)
	}
	none := &place{libraries: t.TempDir(), root: t.TempDir()}
	if r, code := none.run(t); code != ExitNothing || r.Result != Nothing {
		t.Errorf("a host without a GPU: code %d, %+v", code, r)
	}
	if err := os.WriteFile(filepath.Join(none.libraries, "libcuda.so.1"), []byte("noise"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, code := none.run(t); code != ExitFailed || !strings.Contains(r.Fault, "does not load") {
		t.Errorf("no library in its file: code %d, %+v", code, r)
	}
}

// A crash of NVIDIA's library ends the program in a way that nobody takes for a report.
func TestCrash(t *testing.T) {
	p := sound(t, cudatest.Build(t))
	p.env = append(p.env, "FAKE_FAULT=crash")
	if r, code := p.run(t); code != 2 || len(r.Checks) != 0 {
		t.Errorf("code %d, %+v", code, r)
	}
}

func TestMainUsage(t *testing.T) {
	t.Setenv(ExpectEnv, "")
	for _, test := range []struct {
		args string
		env  string
		code int
		says string
	}{
		{"--help", "", ExitOK, "Exit codes"},
		{"--nonsense", "", ExitUsage, "nonsense"},
		{"more", "", ExitUsage, `"more" is too much`},
		{"--part cook", "", ExitUsage, "compute or list"},
		{"--timeout 0s", "", ExitUsage, "more than 0"},
		{"--expect {", "", ExitUsage, "no JSON"},
		{"", `{"memory":1}`, ExitUsage, "names no device"},
		{"--expect " + strings.Repeat("x", maxExpect+1), "", ExitUsage, "bytes"},
	} {
		t.Setenv(ExpectEnv, test.env)
		var out bytes.Buffer
		if code := Main(t.Context(), strings.Fields(test.args), &out, &out); code != test.code || !strings.Contains(out.String(), test.says) {
			t.Errorf("%.40s: code %d, %q", test.args, code, out.String())
		}
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	r := Report{Result: Failed, Seconds: 1.25, Checks: []Check{
		{Name: "NVML", Result: OK, Detail: "driver 580"}, {Name: "kernel", Result: Failed, Detail: "a\nb", Remedy: "take it out"},
	}}
	if err := write(&out, r, false); err != nil {
		t.Fatal(err)
	}
	const want = "RESULT  CHECK   FINDING\nok      NVML    driver 580\nfailed  kernel  a; b\n\nkernel: take it out\n\n2 checks in 1.2 s\n"
	if out.String() != want {
		t.Errorf("%q", out.String())
	}
}

// In a brief test what is not essential gives way to the time; what is, does not.
func TestBriefBudget(t *testing.T) {
	b := &bench{cfg: Config{Brief: true}}
	done := func(*bench) outcome { return ok("") }
	for w, want := range map[when]Result{always: OK, ifTime: Skipped, thoroughly: Skipped} {
		if c := b.examine(check{"c", w, done}); c.Result != want {
			t.Errorf("%d: %+v", w, c)
		}
	}
	b.cfg.Brief = false
	for _, w := range []when{always, ifTime, thoroughly} {
		if c := b.examine(check{"c", w, done}); c.Result != OK {
			t.Errorf("%d: %+v", w, c)
		}
	}
}

// Without /proc the program does not find itself, which is no fault of the slice.
func TestAlone(t *testing.T) {
	b := &bench{cfg: Config{Expect: &gpu.Expectation{}}, cuda: &cuda.Driver{}, devices: []cuda.Device{{}}}
	for _, o := range []outcome{b.noOther(t.Context()), b.secondProcess(t.Context())} {
		if o != skipped(alone) {
			t.Errorf("%+v", o)
		}
	}
}

func TestModuleVersions(t *testing.T) {
	for text, want := range map[string]string{
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2 14:37:44 UTC 2024\n": "470.256.02",
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  615.71  Release Build\n":           "615.71",
		"nothing": "",
	} {
		p := &place{root: t.TempDir()}
		p.file(t, "/proc/driver/nvidia/version", text)
		if got := (&bench{cfg: Config{Root: p.root}}).kernelModule(); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	if got := (&bench{cfg: Config{Root: t.TempDir()}}).kernelModule(); got != "" {
		t.Errorf("nothing there: %q", got)
	}
}

func FuzzParseExpectation(f *testing.F) {
	f.Add(`{"uuids":["` + mig + `"],"memory":19327352832,"sms":16,"tier":"hardware"}`)
	f.Add(`{"uuids":[]}`)
	f.Fuzz(func(t *testing.T, s string) {
		e, err := ParseExpectation(s)
		if err == nil && len(e.UUIDs) == 0 {
			t.Errorf("%q is read as %+v", s, e)
		}
	})
}

// Nothing of the self-test stays in the file system.
func TestLeavesNothing(t *testing.T) {
	p := sound(t, cudatest.Build(t))
	list := func() (all []string) {
		_ = filepath.WalkDir(p.root, func(path string, _ fs.DirEntry, _ error) error { all = append(all, path); return nil })
		return all
	}
	before := list()
	if _, code := p.run(t); code != ExitOK {
		t.Fatalf("code %d", code)
	}
	if after := list(); !slices.Equal(before, after) {
		t.Errorf("%q, then %q", before, after)
	}
}
