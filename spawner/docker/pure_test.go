package docker

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/storage"
	"github.com/moby/moby/api/types/system"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/docker/overlay"
)

var update = flag.Bool("update", false, "write the golden files anew")

// sample is a launch in which every field is set; what must not reach the engine says so.
func sample() spawner.Launch {
	return spawner.Launch{
		Workload: spawner.Workload{
			ID: "s-abcdefgh12345678", Kind: spawner.Lab, Owner: "Åsa.O'Neill+x@cern", Hub: "private-hub", Name: "private-name",
			Launch: "private-launch",
			Spec: spawner.Spec{SessionSpec: spawner.SessionSpec{Profile: "private-profile", Image: "slipway/notebook:1",
				Prefix: "/user/private-prefix/", Ready: "/private-ready"}, Argv: []string{"jupyterhub-singleuser", "--token=private-token"},
				Env:       map[string]string{"LANG": "C.UTF-8", "A": "1"},
				Resources: spawner.Resources{CPUs: 1.5, Memory: 2 << 30, Pids: 512},
			},
		},
		Account:  spawner.Account{UID: 20001, GID: 20002, Login: "asa", HomeDir: "/srv/homes/asa", Home: "/home/asa"},
		Dir:      "/var/lib/slipway/work/s-abcdefgh12345678",
		AgentDir: "/usr/lib/slipway/agent",
		SIF:      "private-sif",
		Report:   func(string, int) {},
	}
}

func backend(t *testing.T, cfg Config) *Backend {
	t.Helper()
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCreateGolden(t *testing.T) {
	b := backend(t, Config{Version: "1.2.3", Mounts: []Mount{{Source: "/srv/root", Target: "/host", ReadOnly: true, Propagation: "rslave"}}})
	got, err := json.MarshalIndent(b.options(nameOf(sample().ID), plan{Launch: sample()}), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	golden := filepath.Join("testdata", "create.golden.json")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the container's configuration has changed (-want +got):\n%s", diff)
	}
	if i := strings.Index(string(got), "private"); i >= 0 {
		// IpcMode has the word for its own meaning.
		rest := strings.ReplaceAll(string(got), `"IpcMode": "private"`, "")
		if i := strings.Index(rest, "private"); i >= 0 {
			t.Errorf("the engine is told what is none of its business: %.60q", rest[i:])
		}
	}
}

func TestRefusals(t *testing.T) {
	tests := map[string]struct {
		change func(*spawner.Launch)
		field  string
	}{
		"no memory":       {func(l *spawner.Launch) { l.Spec.Resources.Memory = 0 }, "memory"},
		"no cpus":         {func(l *spawner.Launch) { l.Spec.Resources.CPUs = 0 }, "cpus"},
		"no image":        {func(l *spawner.Launch) { l.Spec.Image = "" }, "image"},
		"root":            {func(l *spawner.Launch) { l.Account.UID = 0 }, "uid"},
		"root's group":    {func(l *spawner.Launch) { l.Account.GID = 0 }, "uid"},
		"forged passwd":   {func(l *spawner.Launch) { l.Account.Login = "a:x:0:0::/:/bin/sh\nb" }, "login"},
		"no login":        {func(l *spawner.Launch) { l.Account.Login = "" }, "login"},
		"forged home":     {func(l *spawner.Launch) { l.Account.Home = "/home/a:b" }, "home"},
		"relative home":   {func(l *spawner.Launch) { l.Account.Home = "home" }, "home"},
		"negative memory": {func(l *spawner.Launch) { l.Spec.Resources.Memory = -1 }, "memory"},
	}
	b := backend(t, Config{Host: filepath.Join(t.TempDir(), "never.sock")})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := sample()
			test.change(&l)
			err := b.Start(t.Context(), l)
			e, ok := err.(*errs.Error)
			if !ok || e.Kind != errs.Invalid || e.Field != test.field || e.Remedy == "" {
				t.Errorf("Start = %v, want invalid %s with a remedy", err, test.field)
			}
		})
	}
}

func TestEngineMissing(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "docker.sock")
	b := backend(t, Config{Host: socket})
	ctx := t.Context()
	calls := map[string]func() error{
		"check":   func() error { return b.Check(ctx) },
		"start":   func() error { return b.Start(ctx, sample()) },
		"stop":    func() error { return b.Stop(ctx, "s-x", time.Second) },
		"remove":  func() error { return b.Remove(ctx, "s-x") },
		"list":    func() error { _, err := b.List(ctx); return err },
		"images":  func() error { _, err := b.Images(ctx); return err },
		"capture": func() error { _, err := b.Capture(ctx, "s-x"); return err },
		"observe": func() error {
			o, err := b.Observe(ctx, "s-x")
			if o.Existence != spawner.Unknown {
				t.Errorf("Observe without an engine = %s, want unknown", o.Existence)
			}
			return err
		},
	}
	for name, call := range calls {
		err := call()
		if !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), socket) || !strings.Contains(err.Error(), "systemctl start docker") {
			t.Errorf("%s = %v, want unavailable with the socket and the remedy", name, err)
		}
	}
}

func TestNewRefusesMounts(t *testing.T) {
	for _, m := range []Mount{
		{Source: "rel", Target: "/x"},
		{Source: "/x", Target: "rel"},
		{Source: "/x", Target: "/x", Propagation: "rshared"},
		{Source: "/x", Target: "/x", Propagation: "shared"},
		{Source: "/x", Target: "/x", Propagation: "odd"},
	} {
		if _, err := New(Config{Mounts: []Mount{m}}); !errs.Is(err, errs.Invalid) {
			t.Errorf("New(%+v) = %v, want invalid", m, err)
		}
	}
}

func TestTreeRefusesOtherDrivers(t *testing.T) {
	c := container.InspectResponse{Name: "/slipway-s-x", GraphDriver: &storage.DriverData{Name: "btrfs"}, Config: &container.Config{}, HostConfig: &container.HostConfig{}}
	if _, err := tree(c); !errs.Is(err, errs.Missing) || !strings.Contains(err.Error(), "btrfs") || !strings.Contains(err.Error(), "overlay2") {
		t.Errorf("tree(btrfs) = %v", err)
	}
	c.GraphDriver = nil
	if _, err := tree(c); !errs.Is(err, errs.Missing) {
		t.Errorf("tree(nothing) = %v", err)
	}
	c.GraphDriver = &storage.DriverData{Name: "overlay2", Data: map[string]string{}}
	if _, err := tree(c); !errs.Is(err, errs.Unavailable) {
		t.Errorf("tree(no directories) = %v", err)
	}
}

// TestElsewhere: of these engines the directories are not taken, though they may be there.
func TestElsewhere(t *testing.T) {
	for name, test := range map[string]struct {
		options []string
		want    bool
	}{
		"plain":    {[]string{"name=seccomp,profile=default", "name=cgroupns"}, false},
		"rootless": {[]string{"name=seccomp,profile=builtin", "name=rootless"}, true},
		"userns":   {[]string{"name=userns"}, true},
	} {
		if err := sameIDs(system.Info{SecurityOptions: test.options}); errs.Is(err, errs.Missing) != test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := backend(t, Config{Host: "tcp://192.0.2.1:2375"})
	if err := b.Reach(t.Context()); !errs.Is(err, errs.Missing) || !strings.Contains(err.Error(), "tcp://192.0.2.1:2375") {
		t.Errorf("Reach over the network = %v, want missing and the address", err)
	}
	if _, err := visible(overlay.Stack{Upper: t.TempDir(), Layers: []string{"/not/there"}}); !errs.Is(err, errs.Missing) || !strings.Contains(err.Error(), "/not/there") {
		t.Errorf("visible = %v, want missing and the directory", err)
	}
}

// TestLayersOf: an image's own layer is on top of those below it.
func TestLayersOf(t *testing.T) {
	d := &storage.DriverData{Name: "overlay2", Data: map[string]string{"UpperDir": "/top/diff", "LowerDir": "/mid/diff:/low/diff"}}
	if diff := cmp.Diff([]string{"/top/diff", "/mid/diff", "/low/diff"}, layersOf(d)); diff != "" {
		t.Error(diff)
	}
	delete(d.Data, "LowerDir")
	if diff := cmp.Diff([]string{"/top/diff"}, layersOf(d)); diff != "" {
		t.Error(diff)
	}
	if all := append(layersOf(nil), layersOf(&storage.DriverData{Name: "overlayfs"})...); len(all) > 0 {
		t.Errorf("layers of engines that do not say: %q", all)
	}
}

func TestLacks(t *testing.T) {
	good := system.Info{OSType: "linux", Driver: "overlay2", MemoryLimit: true, PidsLimit: true, CPUCfsQuota: true}
	if err := lacks(good); err != nil {
		t.Errorf("lacks(good) = %v", err)
	}
	err := lacks(system.Info{OSType: "windows"})
	if err == nil {
		t.Fatal("lacks(nothing) = nil")
	}
	for _, word := range []string{"windows", "memory", "processes", "CPUs"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q lacks %q", err, word)
		}
	}
}

func TestPullable(t *testing.T) {
	for ref, want := range map[string]bool{
		"debian": true, "registry.example/a/b:1": true, "localhost:5000/x": true,
		"slipway/notebook:1": false, "docker.io/slipway/notebook:1": false, "UPPER": false, "": false, "a b": false,
	} {
		if got := pullable(ref); got != want {
			t.Errorf("pullable(%q) = %v, want %v", ref, got, want)
		}
		if RemedyFor(ref) == "" {
			t.Errorf("RemedyFor(%q) is empty", ref)
		}
	}
}
