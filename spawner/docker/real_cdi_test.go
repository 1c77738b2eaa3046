package docker

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/gpu"
	"slipway/internal/testenv"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// TestGPUByName: on an engine with CDI one container is started with a slice, with another and with none: it stays the
// same.
func TestGPUByName(t *testing.T) {
	testenv.Need(t, testenv.CDI)
	specs := t.TempDir()
	e := newEngine(t, "--config-file", cdiConfig(t, specs))
	w := e.world(Config{Instance: "test-cdi"})
	w.importImage(t, nil)
	l := w.launch(t, "")
	w.greedy(t, &l)
	first := ""
	for i, test := range []struct {
		gpu  *gpu.Binding
		want []string
	}{
		{standIn(t, fuse, autofs), []string{"/dev/nvidia229 10:229 true", "/dev/nvidia-caps/nvidia-cap235 10:235 true"}},
		{standIn(t, loop), []string{"/dev/nvidia237 10:237 true"}},
		{nil, nil},
		{standIn(t, fuse), []string{"/dev/nvidia229 10:229 true"}},
	} {
		if l.GPU = test.gpu; l.GPU != nil {
			l.GPU.Env["CUDA_VISIBLE_DEVICES"] = "GPU-mine"
		}
		w.up(t, l)
		if diff := cmp.Diff(test.want, w.gpus(t, l.ID)); diff != "" {
			t.Errorf("start %d: %s", i, diff)
		}
		env := w.env(t, l.ID)
		if !slices.Contains(env, "NVIDIA_VISIBLE_DEVICES=void") || slices.Contains(env, "CUDA_VISIBLE_DEVICES=GPU-mine") != (test.gpu != nil) {
			t.Errorf("start %d: its environment is %q", i, env)
		}
		w.heedless(t, l)
		c := w.stopped(t, l.ID)
		if first == "" {
			first = c.ID
		}
		if c.ID != first || c.Config.Labels[labelGPU] != viaCDI {
			t.Errorf("start %d: the container was made anew, or with %q", i, c.Config.Labels[labelGPU])
		}
		if left, err := os.ReadDir(specs); err != nil || len(left) > 0 {
			t.Errorf("start %d: descriptions are left of what does not run: %v, %v", i, left, err)
		}
	}
}

// TestGPUByNameLater: a session that began without a GPU gets one, and keeps its changes.
func TestGPUByNameLater(t *testing.T) {
	testenv.Need(t, testenv.CDI)
	e := newEngine(t, "--config-file", cdiConfig(t, t.TempDir()))
	w := e.world(Config{Instance: "test-cdi"})
	w.importImage(t, nil)
	l := w.launch(t, "")
	w.up(t, l)
	w.await(t, l.ID, spawnertest.RunsFile)
	w.stopped(t, l.ID)
	l.GPU = standIn(t, fuse)
	w.resumed(t, l, "/dev/nvidia229 10:229 true")
}

// cdiConfig writes the configuration of an engine that reads descriptions in a directory.
func cdiConfig(t *testing.T, specs string) string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "daemon.json")
	if err := os.WriteFile(config, []byte(`{"features": {"cdi": true}, "cdi-spec-dirs": ["/etc/cdi", "`+specs+`"]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	return config
}

// heedless: a container that was given another slice than the launch's is found out.
func (w world) heedless(t *testing.T, l spawner.Launch) {
	t.Helper()
	c, _, err := w.find(t.Context(), l.ID)
	if err != nil {
		t.Fatal(err)
	}
	p := plan{Launch: l}
	if given, err := w.given(t.Context(), p, c); !given || err != nil {
		t.Errorf("with its own slice: %v, %v", given, err)
	}
	p.GPU = &gpu.Binding{Env: map[string]string{"CUDA_VISIBLE_DEVICES": "GPU-other"}}
	if given, err := w.given(t.Context(), p, c); given || err != nil {
		t.Errorf("with another's slice: %v, %v", given, err)
	}
}
