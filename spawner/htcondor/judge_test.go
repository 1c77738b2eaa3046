package htcondor

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/batch/command"
	"slipway/spawner/htcondor/pool"
)

// idlePool returns a pool of one idle machine, as HTCondor 23.9 printed it.
func idlePool(t *testing.T, cfg pool.Config) *pool.Pool {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Run = func(context.Context, command.Command) ([]byte, error) {
		return os.ReadFile("pool/testdata/ads/idle.json")
	}
	p, err := pool.New(cfg)
	must(t, err)
	return p
}

// TestArchitectureAtSubmit has an environment's architecture be looked at when it is submitted.
func TestArchitectureAtSubmit(t *testing.T) {
	cfg := Config{Disk: 1 << 20, Pool: idlePool(t, pool.Config{})}
	w := spawner.Workload{ID: "j-1", Spec: spawner.Spec{Environment: "sha256:1", Resources: spawner.Resources{CPUs: 1, Memory: 1 << 20}}}
	for arch, want := range map[string]string{
		"amd64": "", "riscv64": "", "gone": "", "arm64": "no worker of this pool is aarch64; 1 is x86_64", "ppc64le": "no worker of this pool is ppc64le; 1 is x86_64",
	} {
		cfg.Arch = func(digest string) (string, error) {
			if arch == "gone" || digest != "sha256:1" {
				return "", errs.New(errs.NotFound, "no such environment")
			}
			return arch, nil
		}
		s := inMemory(t, cfg, nil)
		b, err := batch.New(s.cfg.Config, s)
		must(t, err)
		err = b.Judge(t.Context(), w)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arch, err, want)
		}
	}
}

// TestForewarned has a user be told at the start that what she asked for is not there.
func TestForewarned(t *testing.T) {
	p := idlePool(t, pool.Config{Elastic: true})
	if _, err := p.Catalogue(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &system{cfg: Config{Pool: p}}
	for request, want := range map[string]string{
		"any": "", "any,memory>=500G": "no worker of now can take it, and none of the last that were seen could: it waits for others to come",
	} {
		w := spawner.Workload{Spec: spawner.Spec{Resources: spawner.Resources{CPUs: 1, Memory: 1 << 20}, GPU: gpuOf(t, request)}}
		if told := s.warning(w, batch.Record{}); told != want {
			t.Errorf("%s: %q, want %q", request, told, want)
		}
	}
}
