package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/gpu/driverrpc"
	"slipway/internal/gpu/fakegpu"
	"slipway/internal/gpu/mps"
	"slipway/internal/programs"
	"slipway/internal/version"
)

// gpuChecks look at the GPUs, if the site has any.
func gpuChecks(cfg config.Config, log *slog.Logger) []check {
	g := cfg.GPU
	switch g.Driver {
	case config.DriverNone:
		return nil
	case config.DriverSimulated:
		return []check{{"simulated GPUs", false, func(context.Context) error {
			_, err := fakegpu.New(fakegpu.Config{Models: g.Simulated})
			return err
		}}}
	}
	checks := []check{
		{"GPUs", false, func(ctx context.Context) error { return looksAtGPUs(ctx, cfg, log) }},
		{
			"GPU helper", true,
			func(ctx context.Context) error { return helpersFit(ctx, programs.GPUHelper, version.This()) },
		},
	}
	if slices.ContainsFunc(g.Devices, func(r config.GPURule) bool { return gpu.Mode(r.Mode) == gpu.MPS }) {
		checks = append(checks, check{"MPS", false, func(ctx context.Context) error {
			_, err := mps.New(mps.Config{Logger: log}).Probe(ctx)
			return err
		}})
	}
	return checks
}

// looksAtGPUs asks the driver what there is and how it is. It changes nothing.
func looksAtGPUs(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	helper, err := driverrpc.Find(programs.GPUHelper)
	if err != nil {
		return err
	}
	driver := driverrpc.New(driverrpc.Config{Argv: []string{helper, "drive"}, Logger: log})
	all, err := driver.Devices(ctx)
	for _, d := range all {
		health, asked := driver.Health(ctx, d.UUID)
		err = errors.Join(err, asked, sickness(d, health))
	}
	if err == nil && len(all) == 0 {
		err = errs.New(errs.Missing, "the driver knows of no GPU").With("look at `nvidia-smi` and at the kernel's log, or set gpu.driver to none")
	}
	return errors.Join(err, driver.Close())
}

// helpersFit checks that the helper, and its build for workloads beside it, are of the service's own build.
func helpersFit(ctx context.Context, name string, own version.Build) error {
	helper, err := driverrpc.Find(name)
	if err != nil {
		return err
	}
	if err := helperFits(ctx, helper, own, false); err != nil {
		return err
	}
	inside := filepath.Join(filepath.Dir(helper), programs.GPUHelperInside)
	if _, err := os.Stat(inside); errors.Is(err, os.ErrNotExist) {
		return errs.New(
			errs.Missing, "%s is not there: slices are not tested in images that are older than this host", inside,
		).With("build it with build_gpu_inside of deploy/lib/go.sh, and install it beside slipway-gpu")
	}
	return helperFits(ctx, inside, own, true)
}

// helperFits checks one of them.
func helperFits(ctx context.Context, path string, own version.Build, inside bool) error {
	var its struct {
		version.Build
		Inside bool `json:"inside"`
	}
	text, err := exec.CommandContext(ctx, path, "version", "--json").Output()
	if err == nil {
		err = json.Unmarshal(text, &its)
	}
	const again = "build slipway, slipway-gpu and slipway-gpu-inside from one checkout with deploy/lib/go.sh, and install the three together"
	switch {
	case err != nil:
		return errs.New(errs.Conflict, "%s does not say what it was built from: %w%s", path, err, lastWords(err)).
			With(again)
	case its.Inside != inside:
		return errs.New(
			errs.Conflict,
			"%s is the other of two builds: slipway-gpu is the one with CGO_ENABLED=1, %s the one with 0", path,
			programs.GPUHelperInside,
		).With(again)
	case !its.Same(own):
		return errs.New(errs.Conflict, "%s is of %s, and this program of %s", path, its.Build, own).With(again)
	}
	return nil
}

// lastWords is what a program said before it failed.
func lastWords(err error) string {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || len(exit.Stderr) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
	return ": " + lines[len(lines)-1]
}

// sickness says what speaks against using a GPU.
func sickness(d gpu.Device, h gpu.Health) error {
	var words []string
	if h.Lost {
		words = append(words, "it does not answer")
	}
	if h.RowsPending {
		words = append(words, "rows of its memory wait for a reset")
	}
	if h.ECC > 0 {
		words = append(words, fmt.Sprintf("%d memory errors that could not be corrected", h.ECC))
	}
	if len(words) == 0 {
		return nil
	}
	return errs.New(
		errs.Unavailable, "GPU %d (%s, %s): %s", d.Index, d.Name, gpu.ShortUUID(d.UUID), strings.Join(words, ", "),
	).With("nothing new is started on it: look at the kernel's log for Xid, and reset it or take it out")
}
