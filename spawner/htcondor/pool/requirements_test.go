package pool

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/htcondor/classad"
)

func asked(t testing.TB, text string) gpu.Request {
	t.Helper()
	r, err := gpu.ParseRequest(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestGPULines(t *testing.T) {
	for _, tc := range []struct {
		text string
		with func(*gpu.Request)
		want []string
	}{
		{"none", nil, []string{"My.RequiresGPU = 0", "request_gpus = 0"}},
		{"any", nil, []string{"My.RequiresGPU = 1", "request_gpus = 1"}},
		{"any,optional", nil, []string{"My.RequiresGPU = 0", "request_gpus = ifThenElse((size(TARGET.AvailableGPUs) ?: 0) >= 1, 1, 0)"}},
		{"any,count=2,capability>=8.0,memory>=40G,runtime>=12.2,driver>=550", nil, []string{
			"My.RequiresGPU = 1", "request_gpus = 2",
			`require_gpus = (Capability >= 8.0) && (GlobalMemoryMb >= 40960) && (MaxSupportedVersion >= 12020) && (versionGE(NvidiaDriver, "550"))`,
			"gpus_minimum_memory = 40960", "My.DESIRED_GPUMemoryMB = 40960", "My.GPUMemoryMB = 40960",
			"gpus_minimum_capability = 8.0", "My.DESIRED_GPUMinimumCapability = 8.0", `My.CUDACapability = "8.0,8.6,8.7,8.9,9.0,10.0,10.3,12.0,12.1"`,
			"gpus_minimum_runtime = 12.2", "My.DESIRED_GPURuntime = 12.2", `My.CUDARuntime = "12.2"`,
		}},
		{"any,optional,memory>=1500M", nil, []string{
			"My.RequiresGPU = 0", "request_gpus = ifThenElse((countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) ?: 0) >= 1, 1, 0)",
			"require_gpus = (GlobalMemoryMb >= 1500)", "gpus_minimum_memory = 1500", "My.DESIRED_GPUMemoryMB = 1500", "My.GPUMemoryMB = 1500",
		}},
		{"1g.5gb", nil, []string{
			"My.RequiresGPU = 1", "request_gpus = 1", `require_gpus = (substr(DeviceUuid, 0, 4) == "MIG-" && GlobalMemoryMb >= 4352 && GlobalMemoryMb <= 5120` +
				` && (regexp("MIG [0-9]+g", DeviceName ?: "") == false || regexp("MIG 1g[.]5gb$", DeviceName)))`,
		}},
		{"1g", nil, []string{"My.RequiresGPU = 1", "request_gpus = 1", `require_gpus = (substr(DeviceUuid, 0, 4) == "MIG-" && regexp("MIG 1g[.]", DeviceName))`}},
		{"any", func(r *gpu.Request) { r.Model = `H200 "x" \ (80GB)` }, []string{
			"My.RequiresGPU = 1", "request_gpus = 1", `require_gpus = (regexp("(?i)H200 .x. . [(]80GB[)]", DeviceName))`,
		}},
	} {
		r := asked(t, tc.text)
		if tc.with != nil {
			tc.with(&r)
		}
		lines, err := GPULines(r)
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
		}
		var got []string
		for _, l := range lines {
			got = append(got, l.Name+" = "+l.Value)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.text, diff)
		}
	}
	for _, text := range []string{"shared", "shared/10G", "1g.18gb,count=2"} {
		if _, err := GPULines(asked(t, text)); err == nil || !strings.Contains(err.Error(), "ask for") {
			t.Errorf("%s is taken: %v", text, err)
		}
	}
}

// TestWindows has each profile of the GPUs that there are take its own instances by their memory, and none of the next
// size.
func TestWindows(t *testing.T) {
	mib := map[string]int64{ // as drivers report them
		"1g.5gb": 4864, "1g.10gb": 9984, "3g.20gb": 20096, "7g.40gb": 40192, "7g.80gb": 80640, "1g.18gb": 16384, "1g.35gb": 33280, "3g.71gb": 71168, "7g.141gb": 143360,
		"1g.23gb": 22144, "1g.45gb": 44544, "3g.90gb": 91136, "7g.180gb": 182784, "1g.12gb": 11008, "1g.24gb": 22144, "3g.47gb": 47488, "7g.94gb": 95360, "1g.6gb": 5952,
		"2g.12gb": 11968, "4g.24gb": 24000, "2g.48gb": 48256, "4g.96gb": 96896,
	}
	for profile, own := range mib {
		e, err := classad.Parse(profileText(profile))
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range mib {
			a := classad.New()
			a.Set("GlobalMemoryMb", other)
			if got, near := classad.Evaluate(e, a, nil) == true, float64(other) > 0.8*float64(own) && float64(other) < 1.25*float64(own); got && !near || other == own && !got {
				t.Errorf("%s of %d MiB: one of %d MiB is taken: %v", profile, own, other, got)
			}
		}
	}
}

// TestNamesOfInstances has a name that tells the profile be the one that is asked for.
func TestNamesOfInstances(t *testing.T) {
	for _, tc := range []struct {
		profile, name string
		want          bool
	}{
		{"1g.18gb", "NVIDIA H200 MIG 1g.18gb", true}, {"1g.18gb", "NVIDIA H200 MIG 2g.18gb", false}, {"1g.18gb", "NVIDIA H200", true},
		{"1g.18gb", "NVIDIA H200 MIG 1g.18gb+me", false}, {"1g.18gb+me", "NVIDIA H200 MIG 1g.18gb+me", true}, {"1g.18gb+me", "NVIDIA H200", false},
		{"1g", "NVIDIA H200 MIG 1g.18gb", true}, {"1g", "NVIDIA H200 MIG 2g.18gb", false}, {"1g", "NVIDIA H200", false}, {"nonsense", "NVIDIA H200", false},
	} {
		a := classad.New()
		a.Set("GlobalMemoryMb", int64(16384))
		a.Set("DeviceName", tc.name)
		e, err := classad.Parse(profileText(tc.profile))
		if err != nil {
			t.Fatal(err)
		}
		if got := classad.Evaluate(e, a, nil) == true; got != tc.want {
			t.Errorf("%s on %s: %v", tc.profile, tc.name, got)
		}
	}
}

func TestRequirements(t *testing.T) {
	d := Demand{
		Resources: spawner.Resources{CPUs: 1.5, Memory: 2 << 30}, Disk: 1 << 30, Arch: "X86_64", Site: []string{"HasSingularity"}, GPU: asked(t, "any,capability>=8.0,memory>=4G"),
	}
	want := strings.Join([]string{
		`(TARGET.OpSys == "LINUX")`, `(TARGET.Arch == "X86_64")`, "(HasSingularity)", "(size(TARGET.AvailableGPUs) >= RequestGPUs)",
		"(countMatches(Capability >= 8.0, TARGET.AvailableGPUs) >= RequestGPUs)", "(countMatches(GlobalMemoryMb >= 4096, TARGET.AvailableGPUs) >= RequestGPUs)",
		"(countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= RequestGPUs)",
	}, " && ")
	if diff := cmp.Diff(want, Requirements(ClausesOf(d))); diff != "" {
		t.Error(diff)
	}
	d.GPU = asked(t, "any,memory>=4G,optional")
	if got, want := Requirements(gpuClauses(d.GPU, 0)), "((countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) ?: 0) >= 1 || time() - MY.QDate > 120)"; got != want {
		t.Errorf("a GPU that is optional is %s", got)
	}
	for _, c := range ClausesOf(d) {
		if c.e == nil {
			t.Errorf("%s cannot be read back", c.Text)
		}
	}
	if n := d.job().Get("RequestCpus"); n != int64(2) {
		t.Errorf("1.5 CPUs are asked for as %v", n)
	}
}
