package cuda

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/gpu/cuda/cudatest"
)

// TestMain lets this test program be the one that has the fake library loaded: what a fault ends is not the test.
func TestMain(m *testing.M) {
	play := map[string]func(string) error{"devices": playDevices, "compute": playCompute, "limit": playLimit, "load": playLoad}
	f, ok := play[os.Getenv("SLIPWAY_TEST_PLAY")]
	if !ok {
		os.Exit(m.Run())
	}
	if err := f(os.Getenv("SLIPWAY_TEST_LIBRARIES")); err != nil {
		fmt.Println("error:", err)
	}
}

func play(t *testing.T, role, libraries string, env ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(append(os.Environ(), "SLIPWAY_TEST_PLAY="+role, "SLIPWAY_TEST_LIBRARIES="+libraries), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", role, err, out)
	}
	return string(out)
}

func playDevices(dir string) error {
	d, err := Open(dir)
	if err != nil {
		return err
	}
	v, err := d.Version()
	if err != nil {
		return err
	}
	fmt.Println("version", v, "instances", d.Instances)
	devices, err := d.Devices()
	for _, dev := range devices {
		fmt.Println(dev.Name, dev.UUID, dev.Memory, dev.SMs, dev.Capability)
	}
	return err
}

func playCompute(dir string) (err error) {
	c, err := first(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	m, target, err := c.LoadKernels()
	if err != nil {
		return err
	}
	x, y := []float32{1, 2, 3}, []float32{10, 20, 30}
	px, err := c.Alloc(12)
	if err != nil {
		return err
	}
	py, err := c.Alloc(12)
	if err != nil {
		return err
	}
	err = errors.Join(ToDevice(c, px, x), ToDevice(c, py, y), m.Saxpy(px, py, 2, 3), FromDevice(c, x, py), c.Copy(px, py, 12), FromDevice(c, y, px))
	fmt.Println(target, x, y)
	return errors.Join(err, m.Close())
}

func playLimit(dir string) (err error) {
	c, err := first(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for n := 0; ; n++ {
		if _, err := c.Alloc(256 << 20); err != nil {
			free, total, e := c.Memory()
			fmt.Println(n, Is(err, CodeOutOfMemory), free, total, e)
			return err
		}
	}
}

func playLoad(dir string) error {
	r, err := LoadFrom(context.Background(), dir, 1, 0.5, 1<<30)
	fmt.Println(r.Device, r.UUID, r.Memory, r.Kernels > 0, r.Rounds > float64(r.Kernels), r.Busy > 0 && r.Busy <= r.Seconds, r.Seconds >= 1)
	return err
}

func first(dir string) (*Context, error) {
	d, err := Open(dir)
	if err != nil {
		return nil, err
	}
	devices, err := d.Devices()
	if err != nil {
		return nil, err
	}
	return devices[0].Open()
}

const mig = "MIG-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"

func TestAgainstFake(t *testing.T) {
	whole, lacking, old := cudatest.Build(t), cudatest.Build(t, "NO_LAUNCH"), cudatest.Build(t, "OLD")
	for name, test := range map[string]struct {
		role, libraries string
		env             []string
		want            string
	}{
		"devices": {"devices", whole, []string{"FAKE_UUIDS=" + cudatest.UUID + "," + mig, "FAKE_MEMORY=1000", "FAKE_SMS=14"},
			"version 13000 instances true\nNVIDIA Fake 11111111-2222-3333-4444-555555555555 1000 14 9.0\nNVIDIA Fake aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee 1000 14 9.0\n"},
		"old driver":       {"devices", old, nil, "version 13000 instances false\nNVIDIA Fake 11111111-2222-3333-4444-555555555555 17179869184 16 9.0\n"},
		"no library":       {"devices", t.TempDir(), nil, "error: libcuda.so.1: not found by the dynamic loader\n"},
		"missing function": {"devices", lacking, nil, "error: libcuda.so.1 has no function cuLaunchKernel\n"},
		"no device":        {"devices", whole, []string{"CUDA_VISIBLE_DEVICES="}, "error: cuInit: CUDA_ERROR_NO_DEVICE (100)\n"},
		"unknown error":    {"devices", whole, []string{"FAKE_INIT=4711"}, "error: cuInit: an error unknown to the driver (4711)\n"},
		"compute":          {"compute", whole, nil, "sm_50 [12 24 36] [12 24 36]\n"},
		"newer driver":     {"compute", whole, []string{"FAKE_FAULT=oldptx"}, "sm_75 [12 24 36] [12 24 36]\n"},
		"wrong result":     {"compute", whole, []string{"FAKE_FAULT=result"}, "sm_50 [12 25 36] [12 25 36]\n"},
		"no PTX": {"compute", whole, []string{"FAKE_FAULT=noptx"},
			"error: PTX for sm_50: cuModuleLoadData: CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)\nPTX for sm_75: cuModuleLoadData: CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)\n"},
		"limit":    {"limit", whole, []string{"FAKE_LIMIT=1073741824"}, "3 true 16106127360 17179869184 <nil>\nerror: cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)\n"},
		"load":     {"load", whole, nil, "NVIDIA Fake 11111111-2222-3333-4444-555555555555 1073741824 true true true true\n"},
		"too much": {"load", whole, []string{"FAKE_LIMIT=1073741824"}, "NVIDIA Fake 11111111-2222-3333-4444-555555555555 1073741824 false false false false\nerror: hold 1073741824 bytes: cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)\n"},
	} {
		if got := play(t, test.role, test.libraries, test.env...); got != test.want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got, test.want)
		}
	}
}

// TestLoadKeepsDuty is of a device that runs a thousand rounds in a millisecond.
func TestLoadKeepsDuty(t *testing.T) {
	for _, test := range []struct{ duty, least, most float64 }{{0, 0, 0}, {0.25, 2.5, 3}, {0.5, 5, 5.5}, {1, 10, 10.1}} {
		synctest.Test(t, func(t *testing.T) {
			var r Report
			w := worker{rounds: 1, spin: func(rounds uint32) error {
				time.Sleep(time.Duration(rounds) * time.Microsecond)
				return nil
			}}
			if err := w.work(t.Context(), 10*time.Second, test.duty, &r); err != nil {
				t.Error(err)
			}
			if r.Busy < test.least || r.Busy > test.most || r.Seconds < 10 || r.Seconds > 10.1 || math.Abs(r.Rounds-r.Busy*1e6) > 1 {
				t.Errorf("duty %g: %+v", test.duty, r)
			}
			if each := r.Busy / float64(r.Kernels); r.Kernels > 0 && (each < (burst/2).Seconds() || each > (2*burst).Seconds()) {
				t.Errorf("a kernel takes %g s", each)
			}
		})
	}
}

func TestLoadEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var r Report
		w := worker{rounds: 1, spin: func(uint32) error { return nil }}
		if err := w.work(ctx, time.Hour, 0, &r); err != nil || r.Seconds != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		broken := errors.New("no more")
		w.spin = func(uint32) error { return broken }
		if err := w.work(t.Context(), time.Hour, 1, &r); !errors.Is(err, broken) {
			t.Error(err)
		}
	})
}

func TestUUID(t *testing.T) {
	u := UUID{0xaa, 0xaa, 0xaa, 0xaa, 0xbb, 0xbb, 0xcc, 0xcc, 0xdd, 0xdd, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee}
	for text, want := range map[string]bool{
		mig: true, strings.Replace(mig, "MIG", "GPU", 1): true, "MIG-GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee/3/0": true, strings.ToUpper(u.String()): true,
		cudatest.UUID: false, "": false, "MIG-": false, "GPU-aaaaaaaa": false,
	} {
		if u.Is(text) != want {
			t.Errorf("%s is %q: %v", u, text, !want)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	nan := func() float64 { zero := 0.0; return zero / zero }()
	for name, test := range map[string]struct {
		seconds, duty float64
		memory        int64
	}{"seconds": {0, 1, 0}, "endless": {nan, 1, 0}, "duty": {1, 1.1, 0}, "no duty": {1, nan, 0}, "memory": {1, 1, -1}} {
		if _, err := LoadFrom(t.Context(), t.TempDir(), test.seconds, test.duty, test.memory); err == nil || errors.Is(err, ErrNoLibrary) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
