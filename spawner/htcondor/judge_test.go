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
	"slipway/spawner/htcondor/commands"
	"slipway/spawner/htcondor/pool"
)

// idlePool returns a pool of one idle machine, as HTCondor 23.9 printed it.
func idlePool(t *testing.T, cfg pool.Config) *pool.Pool {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Run = func(context.Context, commands.Command) ([]byte, error) {
		return os.ReadFile("pool/testdata/ads/idle.json")
	}
	p, err := pool.New(cfg)
	must(t, err)
	return p
}

// TestArchitectureAtSubmit has an environment's architecture be looked at when it is submitted.
func TestArchitectureAtSubmit(t *testing.T) {
	b := &Backend{cfg: Config{Disk: 1 << 20, Pool: idlePool(t, pool.Config{})}, log: slog.New(slog.DiscardHandler)}
	w := spawner.Workload{ID: "j-1", Spec: spawner.Spec{Environment: "sha256:1", Resources: spawner.Resources{CPUs: 1, Memory: 1 << 20}}}
	for arch, want := range map[string]string{
		"amd64": "", "riscv64": "", "gone": "", "arm64": "no worker of this pool is aarch64; 1 is x86_64", "ppc64le": "no worker of this pool is ppc64le; 1 is x86_64",
	} {
		b.cfg.Arch = func(digest string) (string, error) {
			if arch == "gone" || digest != "sha256:1" {
				return "", errs.New(errs.NotFound, "no such environment")
			}
			return arch, nil
		}
		err := b.Judge(t.Context(), w)
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
	b := &Backend{cfg: Config{Pool: p}}
	for request, want := range map[string]string{
		"any": "", "any,memory>=500G": "HTCondor: no worker of now can take it, and none of the last that were seen could: it waits for others to come",
	} {
		told := ""
		l := spawner.Launch{Report: func(text string, _ int) { told = text }}
		l.Spec.Resources, l.Spec.GPU = spawner.Resources{CPUs: 1, Memory: 1 << 20}, gpuOf(t, request)
		if b.forewarn(l, batch.Record{}); told != want {
			t.Errorf("%s: %q, want %q", request, told, want)
		}
	}
}
