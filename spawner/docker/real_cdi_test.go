package docker

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/testenv"
	"slipway/spawner"
)

// TestGPUByName: on an engine with CDI one container is started with a slice, with another and with none: it stays the same.
func TestGPUByName(t *testing.T) {
	testenv.Need(t, testenv.CDI)
	specs := t.TempDir()
	config := filepath.Join(t.TempDir(), "daemon.json")
	if err := os.WriteFile(config, []byte(`{"features": {"cdi": true}, "cdi-spec-dirs": ["/etc/cdi", "`+specs+`"]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, "--config-file", config)
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

// heedless: a container that was given another slice than the launch's is found out.
func (w world) heedless(t *testing.T, l spawner.Launch) {
	t.Helper()
	c, _, err := w.find(t.Context(), l.ID)
	if err != nil {
		t.Fatal(err)
	}
	p := plan{Launch: l}
	if err := w.heeded(t.Context(), p, c); err != nil {
		t.Errorf("with its own slice: %v", err)
	}
	p.GPU = &gpu.Binding{Env: map[string]string{"CUDA_VISIBLE_DEVICES": "GPU-other"}}
	if err := w.heeded(t.Context(), p, c); !errs.Is(err, errs.Unavailable) {
		t.Errorf("with another's slice: %v", err)
	}
}
