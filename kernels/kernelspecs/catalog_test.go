package kernelspecs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/hubapi"
	"slipway/internal/agent/control"
	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/store"
	"slipway/internal/webui"
	"slipway/kernels"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// menuEngine is an engine that has room as a test says.
type menuEngine struct {
	site    catalog.Catalogue
	room    spawner.Room
	looked  int
	kernels []spawner.Workload
	open    func(catalog.Profile) (bool, error)
}

func (e *menuEngine) Offers(string, spawner.User) catalog.Catalogue { return e.site.Only(e.open) }
func (e *menuEngine) InGroup(r gpu.Request, _ string, _ spawner.User) gpu.Request {
	return r
}
func (e *menuEngine) Room(string, spawner.Resources, gpu.Request) spawner.Room {
	e.looked++
	return e.room
}
func (e *menuEngine) Kernels(spawner.Caller) []spawner.Workload { return e.kernels }
func (e *menuEngine) StandbysOf() map[string]spawner.Standbys {
	return map[string]spawner.Standbys{"own": {Ready: 1, Lacking: 2, Why: "no room"}}
}

var alice = spawner.Caller{Hub: "main", User: "alice"}

const menuSite = `
images: [{name: notebook, display_name: Notebook, ref: "slipway/notebook:1"}, {name: other, ref: "other:1"}]
gpu: {driver: simulated, simulated: [H200]}
profiles:
  - {name: small, display_name: Small, kind: lab, images: [notebook], cpus: 1, max_cpus: 2, memory: 2G, max_memory: 4G, default: true}
  - {name: gpu, display_name: A slice, kind: lab, images: [notebook], cpus: 4, memory: 8G, gpu: 1g.18gb}
  - {name: far, kind: lab, images: [notebook], cpus: 2, memory: 4G, backend: htcondor, gpu: "mps:25%%/20G"}
data:
  stacks:
    - {name: lcg-106, display_name: LCG 106, setup: /cvmfs/a/setup.sh, python: python3, language: python, env: {A: b}}
    - {name: root, display_name: ROOT, setup: /cvmfs/b/setup.sh, python: python3, language: "c++"}
kernels:
  max_per_user: 2
  specs:
%s`

// siteOf returns the profiles and images of the test's site.
func siteOf(cfg config.Config) (c catalog.Catalogue) {
	c.BatchSystems = config.BatchSystems()
	for _, i := range cfg.Images {
		c.Images = append(c.Images, catalog.ImageChoice{Name: i.Name, Title: i.DisplayName, Ref: i.Ref})
	}
	for _, p := range cfg.Profiles {
		slice, _ := gpu.ParseRequest(p.GPU)
		one := catalog.Profile{
			Name: p.Name, Title: p.DisplayName, Kind: spawner.Kind(p.Kind), Images: p.Images, CPUs: p.CPUs, MaxCPUs: p.MaxCPUs, Memory: int64(p.Memory),
			MaxMemory: int64(p.MaxMemory), Default: p.Default, GPU: slice,
		}
		if p.Backend != config.BackendDocker {
			one.Backend = p.Backend
		}
		c.Profiles = append(c.Profiles, one)
	}
	return c
}

// newMenu makes the menu of a site with some kernelspecs.
func newMenu(t testing.TB, specs string) (*Catalog, *menuEngine) {
	t.Helper()
	cfg, err := config.Parse([]byte(fmt.Sprintf(menuSite, specs)))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	records, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "records", "slipway.db"), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = records.Close() })
	switches, err := RecallSwitches(t.Context(), records, log)
	if err != nil {
		t.Fatal(err)
	}
	e := &menuEngine{site: siteOf(cfg), room: spawner.Room{Most: 4, Free: 3}, open: func(catalog.Profile) (bool, error) { return true, nil }}
	return New(Config{
		Kernels: cfg.Kernels, Stacks: cfg.Data.Stacks, Site: siteOf(cfg), Engine: e, Switches: switches, Logger: log, Words: webui.RoomOf,
		Principal: func(hub string, user spawner.User) string { return hub + "/" + string(user) },
		Own:       func(string, spawner.User) ([]Environment, error) { return nil, nil },
		Find: func(_ string, _ spawner.User, ref string) (Environment, error) {
			return Environment{}, errs.New(errs.NotFound, "no %s", ref)
		},
		Stack: func(c config.Stack, _ spawner.Workload) (control.Stack, bool) {
			return control.Stack{Name: c.Name, Title: c.DisplayName, Setup: c.Setup, Python: c.Python, Language: c.Language, Env: c.Env}, true
		},
	}), e
}

func names(list []kernels.Spec) (all []string) {
	for _, s := range list {
		all = append(all, s.Name+" = "+s.DisplayName)
	}
	return all
}

// anEnvironment is one of alice's over the notebook's image.
func anEnvironment(name, tag string) Environment {
	return Environment{Digest: "sha256:" + name + tag, Name: name, Tag: tag, Base: "slipway/notebook:1"}
}

func TestKernelspecsSayWhatSetsThemApart(t *testing.T) {
	m, _ := newMenu(t, `
    - {name: python, profile: small}
    - {name: gpu, profile: gpu}
    - {name: far, profile: far}
    - {name: own, profile: gpu, environments: own}
    - {name: lcg, profile: small, stack: lcg-106}
    - {name: all, profile: gpu, stacks: ["*"]}
    - {name: half, profile: gpu, gpu: "mps:50%/40G", display_name: "{language} on {gpu}, {cpus} CPUs, {memory}, {backend}: {available}"}
`)
	other := anEnvironment("x", "y")
	other.Base = "gone:1"
	m.Own = func(string, spawner.User) ([]Environment, error) {
		return []Environment{anEnvironment("ana", "v1"), other, anEnvironment("a.b", "c"), anEnvironment("Ana", "v1")}, nil
	}
	want := `python = Python (Small)
gpu = Python (GPU 1g.18gb)
far = Python (MPS 20 GiB, HTCondor)
own.ana.v1 = Python (ana:v1, GPU 1g.18gb)
own.a.b.c-b2a25f70 = Python (a.b:c, GPU 1g.18gb)
own.Ana.v1-597a92c6 = Python (Ana:v1, GPU 1g.18gb)
lcg = LCG 106
all.lcg-106 = LCG 106 (GPU 1g.18gb)
all.root = ROOT (GPU 1g.18gb)
half = Python on MPS 40 GiB, 4 CPUs, 8 GiB, this host: free now`
	list := m.Specs(alice)
	if got := strings.Join(names(list), "\n"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	own, lcg := list[3], list[6]
	if own.Session.Environment != "sha256:anav1" || own.Session.Image != "slipway/notebook:1" || own.Session.GPU.String() != "1g.18gb" {
		t.Errorf("own: %+v", own.Session)
	}
	if got := strings.Join(lcg.Session.Argv, " "); got != "python3 /run/slipway/jupyter/stack.py start LCG 106 /cvmfs/a/setup.sh python3 {connection_file}" || lcg.Session.Env["A"] != "b" {
		t.Errorf("lcg: %s %v", got, lcg.Session.Env)
	}
	for _, s := range list {
		if len(s.Logos) != 3 || s.Metadata[slipwayKey].(hubapi.KernelSpec).Name != s.Name {
			t.Errorf("%s: %d logos, metadata %v", s.Name, len(s.Logos), s.Metadata)
		}
	}
	if far := list[2]; far.Backend != config.BackendHTCondor || far.Metadata[slipwayKey].(hubapi.KernelSpec).Available.State != hubapi.RoomQueued {
		t.Errorf("far: %+v", far)
	}
}

func TestOwnEnvironmentsAreBounded(t *testing.T) {
	m, _ := newMenu(t, "    - {name: own, profile: gpu, environments: own}\n")
	m.Own = func(string, spawner.User) (all []Environment, err error) {
		for i := range 100 {
			all = append(all, anEnvironment("ana", fmt.Sprint("v", 100-i)))
		}
		return all, nil
	}
	if list := m.Specs(alice); len(list) != mostOwnKernels || list[0].Name != "own.ana.v100" {
		t.Errorf("%d, the first %v", len(list), names(list[:1]))
	}
	long := anEnvironment(strings.Repeat("a", 64), strings.Repeat("t", 128))
	if name := nameOfOwn("own", long); len(name) != mostKernelName || name != nameOfOwn("own", long) {
		t.Errorf("a long name is %d long", len(name))
	}
}

func TestSiteEnvironmentIsForThoseWhoMayUseIt(t *testing.T) {
	m, _ := newMenu(t, "    - {name: ana, profile: gpu, environment: 'carol/ana:v1'}\n")
	if list := m.Specs(alice); len(list) != 0 {
		t.Errorf("not hers, and shown: %v", names(list))
	}
	m.own = newBriefly[string, []Environment](ownEvery, mostAsked)
	m.Find = func(_ string, user spawner.User, ref string) (Environment, error) {
		if user != "alice" || ref != "carol/ana:v1" {
			t.Errorf("%s looks for %s", user, ref)
		}
		return anEnvironment("ana", "v1"), nil
	}
	if list := m.Specs(alice); len(list) != 1 || list[0].DisplayName != "Python (carol/ana:v1, GPU 1g.18gb)" || list[0].Session.Environment != "sha256:anav1" {
		t.Errorf("%v", names(list))
	}
}

func TestAvailability(t *testing.T) {
	m, e := newMenu(t, "    - {name: gpu, profile: gpu, display_name: '{available}'}\n")
	running := spawner.Workload{Phase: spawner.Running}
	unknown := func(catalog.Profile) (bool, error) { return false, errors.New("the Hub cannot be asked") }
	for _, tc := range []struct {
		room    spawner.Room
		kernels []spawner.Workload
		open    func(catalog.Profile) (bool, error)
		state   string
		name    string
		words   string
	}{
		{spawner.Room{Most: 4, Free: 3}, nil, nil, hubapi.RoomFree, "free now", "3 free now"},
		{spawner.Room{Most: 4, Lacks: "no slice is free", Estimate: 11 * time.Minute}, nil, nil, hubapi.RoomWaits, "waits ~15 min", "none free now: no slice is free; you would be number 1 in line, about 11 min"},
		{spawner.Room{Most: 4, Lacks: "no slice is free", Estimate: -1}, nil, nil, hubapi.RoomWaits, "waits", "none free now"},
		{spawner.Room{Lacks: "there is none"}, nil, nil, hubapi.RoomRefused, "not for you now", "does not fit here: there is none"},
		{spawner.Room{Most: 4, Free: 3}, []spawner.Workload{running, running, {Phase: spawner.Stopped}}, nil, hubapi.RoomLimit, "at your limit", "you have 2 kernels, and may have 2 at once: shut one down first"},
		{spawner.Room{Most: 4, Free: 3}, nil, unknown, hubapi.RoomRefused, "not for you now", "whether profile gpu is open to you is not known"},
	} {
		m.rooms = newBriefly[roomKey, spawner.Room](roomEvery, mostAsked)
		e.room, e.kernels = tc.room, tc.kernels
		e.open = func(catalog.Profile) (bool, error) { return true, nil }
		if tc.open != nil {
			e.open = tc.open
		}
		list := m.Specs(alice)
		if len(list) != 1 {
			t.Fatalf("%s: %d kernelspecs", tc.words, len(list))
		}
		got := list[0].Metadata[slipwayKey].(hubapi.KernelSpec).Available
		if got.State != tc.state || !strings.HasPrefix(got.Words, tc.words) || list[0].DisplayName != tc.name || (list[0].Refused != nil) != (tc.open != nil) {
			t.Errorf("%s: %+v, shown as %s, %v", tc.state, got, list[0].DisplayName, list[0].Refused)
		}
	}
	e.open = func(catalog.Profile) (bool, error) { return false, nil }
	if list := m.Specs(alice); len(list) != 0 {
		t.Errorf("a profile that is not open shows %v", names(list))
	}
}

func TestManyAsksAreFewLooks(t *testing.T) {
	m, e := newMenu(t, "    - {name: gpu, profile: gpu}\n    - {name: gpu2, profile: gpu}\n")
	for range 50 {
		m.Specs(alice)
	}
	if e.looked > 25 { // one would do; a loaded machine is slow
		t.Errorf("100 kernelspecs took %d looks at what is free", e.looked)
	}
}

func TestSwitch(t *testing.T) {
	m, e := newMenu(t, `
    - {name: gpu, profile: gpu, gpus: [3g.71gb, whole]}
    - {name: python, profile: small}
`)
	now := func() hubapi.KernelSpec { return m.offered(alice)[0].wire }
	change := func(name string, to hubapi.KernelSwitch) (hubapi.KernelSpec, error) {
		return m.SwitchKernel(t.Context(), alice, name, to)
	}
	k, err := change("gpu", hubapi.KernelSwitch{GPU: "3g.71gb"})
	if err != nil || k.GPU != "3g.71gb" || k.DisplayName != "Python (GPU 3g.71gb)" || k.Switched.GPU != "3g.71gb" || now().GPU != "3g.71gb" {
		t.Fatalf("%+v, %v", k, err)
	}
	if got := m.Specs(alice)[0].Session.GPU.String(); got != "3g.71gb" {
		t.Errorf("the next start leases %s", got)
	}
	if got := m.Specs(spawner.Caller{Hub: "main", User: "bob"})[0].Session.GPU.String(); got != "1g.18gb" {
		t.Errorf("bob's leases %s", got)
	}
	if err := m.Switches.records.Put(t.Context(), switchBucket, "main/eve", "nonsense"); err != nil {
		t.Fatal(err)
	}
	again, err := RecallSwitches(t.Context(), m.Switches.records, m.Logger)
	if err != nil || again.of("main/alice")["gpu"].GPU != "3g.71gb" {
		t.Errorf("after a restart: %v, %v", again, err)
	}
	for _, bad := range []struct {
		name string
		to   hubapi.KernelSwitch
		want string
	}{
		{"gpu", hubapi.KernelSwitch{GPU: "7g.141gb"}, "one of 1g.18gb, 3g.71gb, whole, or default"},
		{"gpu", hubapi.KernelSwitch{GPU: "much"}, "one of 1g.18gb, 3g.71gb, whole, or default"},
		{"python", hubapi.KernelSwitch{GPU: "whole"}, "for kernels of python, which have no GPU"},
		{"python", hubapi.KernelSwitch{CPUs: "3"}, "at most 2"},
		{"python", hubapi.KernelSwitch{Memory: "1T"}, "at most 4 GiB"},
		{"no", hubapi.KernelSwitch{GPU: "whole"}, "one of gpu, python"},
		{hubapi.Self, hubapi.KernelSwitch{GPU: "7g.141gb"}, "none of your 2 kernelspecs can be switched so"},
		{hubapi.Self, hubapi.KernelSwitch{GPU: "7g.141gb"}, "slipway kernels specs"},
		{hubapi.Self, hubapi.KernelSwitch{CPUs: "1"}, "name one of them with --kernel: gpu, python"},
	} {
		_, err := change(bad.name, bad.to)
		if e, ok := errors.AsType[*errs.Error](err); !ok || !strings.Contains(e.Error()+e.Remedy, bad.want) {
			t.Errorf("%s to %+v: %v", bad.name, bad.to, err)
		}
	}
	if k, err = change(hubapi.Self, hubapi.KernelSwitch{GPU: "whole"}); err != nil || k.Name != "gpu" || k.GPU != "whole" {
		t.Errorf("the only one that can be whole: %+v, %v", k, err)
	}
	e.kernels = []spawner.Workload{{ID: "s-1", Name: "python"}}
	inside := alice
	inside.Workload = "s-1"
	e.room = spawner.Room{Most: 4, Lacks: "no room", Estimate: -1}
	if k, err = m.SwitchKernel(t.Context(), inside, hubapi.Self, hubapi.KernelSwitch{Memory: "3G", CPUs: "2"}); err != nil || k.Name != "python" || k.Memory != "3G" || k.CPUs != 2 {
		t.Errorf("from inside: %+v, %v", k, err)
	}
	if words := k.Available.Words; !strings.Contains(words, "none free now") || !strings.HasSuffix(words, "what this kernel gives back when it is shut down is not counted") {
		t.Errorf("what a kernel is told that holds something: %q", words)
	}
	m.Kernels.Specs[0].GPUs = nil
	if k := now(); k.GPU != "1g.18gb" || k.Switched.GPU != "" {
		t.Errorf("what the site took away is still had: %+v", k)
	}
	if k, err = change("python", hubapi.KernelSwitch{Memory: hubapi.SwitchDefault, CPUs: hubapi.SwitchDefault}); err != nil || k.Switched != (hubapi.KernelSwitch{}) || k.Memory != "2G" {
		t.Errorf("back to the usual: %+v, %v", k, err)
	}
	for _, c := range []spawner.Caller{{}, {Hub: "main", Spawner: true}, {Hub: "main", User: "alice", Workload: "j-0"}} {
		if _, err := m.SwitchKernel(context.Background(), c, "gpu", hubapi.KernelSwitch{GPU: "whole"}); !errs.Is(err, errs.Forbidden) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Who has switched to an environment has it until it is not there for her any more; kernels of a stack run that.
func TestSwitchedEnvironment(t *testing.T) {
	m, _ := newMenu(t, "    - {name: python, profile: small}\n    - {name: lcg, profile: small, stack: lcg-106}\n")
	there := Environment{Digest: "sha256:0123456789abcdef", Base: "slipway/notebook:1"}
	m.Find = func(_ string, user spawner.User, ref string) (Environment, error) {
		switch ref {
		case there.Digest, "ana":
			return there, nil
		case "odd":
			return Environment{Digest: "sha256:odd", Base: "odd:1"}, nil
		}
		return Environment{}, errs.New(errs.NotFound, "there is no environment %s", ref)
	}
	k, err := m.SwitchKernel(t.Context(), alice, "python", hubapi.KernelSwitch{Environment: "ana"})
	if err != nil || k.Digest != there.Digest || k.Switched.Environment != there.Digest || k.DisplayName != "Python (sha256:0123456789ab)" {
		t.Errorf("%+v, %v", k, err)
	}
	if k, err = m.SwitchKernel(t.Context(), alice, "python", hubapi.KernelSwitch{Memory: "3G"}); err != nil || k.Digest != there.Digest || k.Memory != "3G" {
		t.Errorf("with more memory: %+v, %v", k, err)
	}
	for name, ref := range map[string]string{"python": "odd", "lcg": "ana"} {
		if _, err := m.SwitchKernel(t.Context(), alice, name, hubapi.KernelSwitch{Environment: ref}); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s to %s: %v", name, ref, err)
		}
	}
	if _, err := m.SwitchKernel(t.Context(), alice, "python", hubapi.KernelSwitch{Environment: "none"}); !errs.Is(err, errs.NotFound) {
		t.Errorf("one that is not there: %v", err)
	}
	if s := m.Specs(alice)[0].Session; s.Environment != there.Digest {
		t.Errorf("the next kernel starts in %q", s.Environment)
	}
	there.Digest = "sha256:another"
	m.own = newBriefly[string, []Environment](ownEvery, mostAsked)
	if s := m.Specs(alice)[0].Session; s.Environment != "" || s.Resources.Memory != 3<<30 {
		t.Errorf("without it: %+v", s)
	}
	if k, err = m.SwitchKernel(t.Context(), alice, "python", hubapi.KernelSwitch{Environment: hubapi.SwitchDefault}); err != nil || k.Switched.Environment != "" {
		t.Errorf("back: %+v, %v", k, err)
	}
}

// A switch stays while it is not known what a kernelspec's environments are, and goes with the kernelspec.
func TestSwitchesThatStay(t *testing.T) {
	m, _ := newMenu(t, "    - {name: own, profile: gpu, environments: own, gpus: [whole]}\n    - {name: gpu, profile: gpu, gpus: [whole]}\n")
	mine := func(list ...Environment) {
		m.Own = func(string, spawner.User) ([]Environment, error) { return list, nil }
		m.own = newBriefly[string, []Environment](ownEvery, mostAsked)
	}
	change := func(name string) {
		t.Helper()
		if _, err := m.SwitchKernel(t.Context(), alice, name, hubapi.KernelSwitch{GPU: "whole"}); err != nil {
			t.Fatal(err)
		}
	}
	mine(anEnvironment("ana", "v1"))
	change("own.ana.v1")
	mine()
	change("gpu")
	if kept := m.Switches.of("main/alice"); kept["own.ana.v1"].GPU != "whole" || len(kept) != 2 {
		t.Errorf("%v", kept)
	}
	m.Kernels.Specs = m.Kernels.Specs[1:]
	change("gpu")
	if kept := m.Switches.of("main/alice"); len(kept) != 1 || kept["gpu"].GPU != "whole" {
		t.Errorf("after the site has taken it away: %v", kept)
	}
}

func BenchmarkKernelspecs(b *testing.B) {
	var specs strings.Builder
	for i := range 20 {
		fmt.Fprintf(&specs, "    - {name: k%d, profile: gpu}\n", i)
	}
	m, _ := newMenu(b, specs.String())
	for b.Loop() {
		if len(m.Specs(alice)) != 20 {
			b.Fatal()
		}
	}
}

// What stands by is told administrators alone, by entries.
func TestStandbysAreToldAdministrators(t *testing.T) {
	m, _ := newMenu(t, `
    - {name: own, profile: gpu, environments: own, max_warm: 3}
    - {name: small, profile: small, max_warm: 1}
    - {name: cold, profile: small}`)
	m.Own = func(string, spawner.User) ([]Environment, error) {
		return []Environment{anEnvironment("ana", "v1")}, nil
	}
	boss := alice
	boss.Admin = true
	for c, want := range map[spawner.Caller]string{alice: "[]", boss: "[own.ana.v1 1 of 3: no room small 0 of 1: ]"} {
		list, err := m.KernelSpecs(c)
		told := []string{}
		for _, k := range list {
			if s := k.Standbys; s != nil {
				told = append(told, fmt.Sprintf("%s %d of %d: %s", k.Name, s.Ready, s.Most, s.Why))
			}
		}
		if got := fmt.Sprint(told); err != nil || got != want {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
}
