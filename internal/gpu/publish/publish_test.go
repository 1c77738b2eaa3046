package publish

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/gpu"
)

var update = flag.Bool("update", false, "write the golden files that are our own")

const gib, mib = int64(1) << 30, int64(1) << 20

func capture(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join("testdata", name), []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(capture(t, name), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// simulated is a GPU as condor_gpu_discovery -simulate has it.
func simulated(n int, d gpu.Device) gpu.State {
	d.UUID = []string{"GPU-a0223334", "GPU-b1223334"}[n] + "-4445-5667-899a-abbccddeeff0"
	d.Bus = []string{"00000000:40:00.0", "00000000:41:00.0"}[n]
	return gpu.State{Device: d, Mode: gpu.Whole, Tier: gpu.Hardware, Condition: gpu.Ready}
}

func titan() gpu.Device {
	return gpu.Device{Name: "TITAN RTX", Capability: "7.5", Memory: 24220 * mib, SMs: 72, ClockMHz: 1770}
}

func a100() gpu.Device {
	return gpu.Device{Name: "A100-SXM4-40GB", Capability: "8.0", Memory: 40536 * 1024 * 1204, SMs: 42, ClockMHz: 1410, ECC: true}
}

// h200 is the host that the tool saw through libraries of our own making: two GPUs, and with cut the first is cut into
// two.
func h200(cut bool) gpu.Inventory {
	device := func(uuid, bus string) gpu.Device {
		return gpu.Device{
			UUID: uuid, Bus: bus, Name: "NVIDIA H200", Capability: "9.0", Memory: 143771 * mib, SMs: 132, ClockMHz: 1980, ECC: true, GPM: true, MIGCapable: true,
		}
	}
	inv := gpu.Inventory{
		System: gpu.System{Driver: "550.163.01", CUDA: 12040}, Taken: time.Date(2026, 11, 21, 11, 0, 0, 0, time.UTC),
		GPUs: []gpu.State{
			{
				Device: device("GPU-1a2b3c4d-1122-3344-5566-778899aabbcc", "00000000:1B:00.0"), Mode: gpu.Whole, Tier: gpu.Hardware, Condition: gpu.Ready,
				Reading: &gpu.Reading{Temperature: 31, Power: 76543}, Health: &gpu.Health{}, Offers: []gpu.Offer{{Name: "whole", Free: 1, Most: 1}},
			},
			{
				Device: device("GPU-5e6f7081-1122-3344-5566-778899aabbdd", "00000000:cb:00.0"), Mode: gpu.Whole, Tier: gpu.Hardware, Condition: gpu.Ready,
				Reading: &gpu.Reading{Temperature: 44, Power: 120001}, Health: &gpu.Health{ECC: 2}, Offers: []gpu.Offer{{Name: "whole", Free: 1, Most: 1}},
			},
		},
	}
	if cut {
		g := &inv.GPUs[0]
		g.Mode, g.Device.MIGEnabled, g.Offers = gpu.MIG, true, []gpu.Offer{{Name: "3g.71gb", Free: 1, Most: 2}, {Name: "1g.18gb", Free: 4, Most: 7}}
		part := func(uuid, profile string, memory int64, sms int) gpu.SliceState {
			return gpu.SliceState{UUID: uuid, Slice: gpu.Slice{Mode: gpu.MIG, Profile: profile, Memory: memory, SMs: sms}}
		}
		g.Slices = []gpu.SliceState{
			part("MIG-c3d4e5f6-aaaa-5bbb-8ccc-0123456789ab", "3g.71gb", 71168*mib, 60), part("MIG-0f1e2d3c-aaaa-5bbb-8ccc-0123456789ac", "1g.18gb", 16384*mib, 16),
		}
	}
	return inv
}

// What condor_gpu_discovery printed is in testdata; README.md there says how it was made to.
func TestAsTheRealTool(t *testing.T) {
	of := func(states ...gpu.State) gpu.Inventory { return gpu.Inventory{GPUs: states} }
	titans, a100s := of(simulated(0, titan()), simulated(1, titan())), of(simulated(0, a100()), simulated(1, a100()))
	for name, c := range map[string]struct {
		inv gpu.Inventory
		o   Options
	}{
		"none":         {of(), Options{}},
		"one":          {of(simulated(0, a100())), Options{}},
		"names":        {a100s, Options{Names: true}},
		"hetero":       {a100s, Options{Mixed: true}},
		"a100-extra":   {a100s, Options{Extra: true}},
		"titan":        {titans, Options{}},
		"titan-flat":   {titans, Options{Flat: true}},
		"mixed":        {of(simulated(0, titan()), simulated(1, a100())), Options{}},
		"h200":         {h200(false), Options{}},
		"h200-flat":    {h200(false), Options{Flat: true, Extra: true}},
		"h200-dynamic": {h200(false), Options{Extra: true, Dynamic: true}},
		"mig":          {h200(true), Options{}},
		"mig-extra":    {h200(true), Options{Extra: true}},
		"mig-flat":     {h200(true), Options{Flat: true, Extra: true}},
		"mig-config":   {h200(true), Options{Config: true}},
	} {
		want, got := capture(t, name+".txt"), ClassAd(c.inv, c.o)
		if strings.HasPrefix(name, "mig") { // the tool forgets driver and processors of a whole GPU beside one that is cut; we do not
			want, got = withoutDriver(want), withoutDriver(got)
		}
		want = corrected.ReplaceAllString(want, "") // we do not ask for corrected errors
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

var (
	corrected = regexp.MustCompile(` EccErrorsSingleBit=\d+;`)
	driver    = regexp.MustCompile(` ComputeUnits=132;|(?m:^)GPU_\w+ComputeUnits=132\n| (DriverVersion|MaxSupportedVersion|NvidiaDriver)=[^;]*;|(?m:^)\w+(DriverVersion|MaxSupportedVersion|NvidiaDriver)=.*\n`)
)

func withoutDriver(s string) string { return driver.ReplaceAllString(s, "") }

func TestDriverEverywhere(t *testing.T) {
	if got := ClassAd(h200(true), Options{}); !strings.Contains(got, `Common=[ Capability=9.0; DriverVersion=12.40; ECCEnabled=true; MaxSupportedVersion=12040; NvidiaDriver="550.163.01"; ]`) {
		t.Error(got)
	}
}

// busy is the cut host with somebody on everything but one instance.
func busy() gpu.Inventory {
	inv, until := h200(true), time.Now()
	sm := 3.5
	inv.GPUs[0].Slices[0].Holder, inv.GPUs[0].Slices[0].Lent = "w-secret", "j-secret"
	inv.GPUs[0].Slices[0].Use = gpu.Use{Source: gpu.SourceGPM, SM: &sm}
	add := func(uuid string, change func(*gpu.SliceState)) {
		s := inv.GPUs[0].Slices[1]
		s.UUID = uuid
		change(&s)
		inv.GPUs[0].Slices = append(inv.GPUs[0].Slices, s)
	}
	add("MIG-foreign", func(s *gpu.SliceState) { s.Foreign = true })
	add("MIG-sick", func(s *gpu.SliceState) { s.Quarantined = &until })
	add("", func(s *gpu.SliceState) { s.Holder = "w-secret-2" })
	inv.GPUs[1].Slices = []gpu.SliceState{{Holder: "w-secret-3", Slice: gpu.Slice{Mode: gpu.Whole}}}
	inv.GPUs[1].Offers[0].Free = 0
	shared := inv.GPUs[1]
	shared.Device.UUID, shared.Mode, shared.Tier = "GPU-00000001-0000-0000-0000-000000000000", gpu.Shared, gpu.None
	shared.Offers = []gpu.Offer{{Name: "shared", Free: 3, Most: 4, Tier: gpu.None}}
	sick := h200(false).GPUs[0]
	sick.Device.UUID, sick.Condition = "GPU-0000dead-0000-0000-0000-000000000000", gpu.Drained
	inv.GPUs = append(inv.GPUs, shared, sick)
	return inv
}

func TestOnlyWhatIsFree(t *testing.T) {
	got := ClassAd(busy(), Options{Own: true, Extra: true})
	golden(t, "own-free.golden", got)
	if strings.Contains(got, "secret") {
		t.Error("a workload is named")
	}
	all := ClassAd(busy(), Options{Own: true, All: true})
	golden(t, "own-all.golden", all)
	if strings.Contains(all, "secret") {
		t.Error("a workload is named")
	}
	if got := ClassAd(gpu.Inventory{GPUs: busy().GPUs[3:]}, Options{}); got != "DetectedGPUs=0\n" {
		t.Errorf("a drained GPU is published: %s", got)
	}
}

func TestHostileName(t *testing.T) {
	inv := gpu.Inventory{GPUs: []gpu.State{simulated(0, gpu.Device{Name: `x"; Evil=true; y="\`})}}
	if got := ClassAd(inv, Options{}); !strings.Contains(got, `DeviceName="x\"; Evil=true; y=\"\\";`) {
		t.Error(got)
	}
}

func TestCMS(t *testing.T) {
	golden(t, "cms.golden", CMS(h200(true), Options{}))
	if got := CMS(gpu.Inventory{}, Options{}); got != "" {
		t.Errorf("of no GPU: %q", got)
	}
	mixed := gpu.Inventory{GPUs: []gpu.State{simulated(0, titan()), simulated(1, a100())}}
	want := "CUDACapability=7.5\nCUDAGlobalMemoryMB=24220\n" // no driver, no name in common
	if got := CMS(mixed, Options{}); got != want {
		t.Errorf("of a mixed host: %q, want %q", got, want)
	}
}

func TestRuntimes(t *testing.T) {
	for cuda, want := range map[int]string{
		0:     "",
		10010: "10.0 10.1",
		11020: "10.0 10.1 10.2 11.0 11.1 11.2 11.3 11.4 11.5 11.6 11.7 11.8",
		13070: "10.0 10.1 10.2 11.0 11.1 11.2 11.3 11.4 11.5 11.6 11.7 11.8 12.0 12.1 12.2 12.3 12.4 12.5 12.6 12.8 12.9 13.0 13.1 13.2 13.3 13.4 13.7",
		14010: "10.0 10.1 10.2 11.0 11.1 11.2 11.3 11.4 11.5 11.6 11.7 11.8 12.0 12.1 12.2 12.3 12.4 12.5 12.6 12.8 12.9 13.0 13.1 13.2 13.3 13.4 14.0 14.1",
	} {
		if got := strings.Join(Runtimes(cuda), " "); got != want {
			t.Errorf("a driver for %d serves %s, want %s", cuda, got, want)
		}
	}
}

func TestGLUE(t *testing.T) {
	got, err := GLUE(busy(), Options{Resource: "gpu01.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "glue.golden", string(got))
	if strings.Contains(string(got), "secret") {
		t.Error("a workload is named")
	}
}
