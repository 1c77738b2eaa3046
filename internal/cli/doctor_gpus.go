package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/gpu/mps"
	"slipway/internal/gpu/remote"
	"slipway/internal/gpu/simulated"
)

// gpuChecks look at the GPUs, if the site has any.
func gpuChecks(cfg config.Config, env Env) []check {
	g := cfg.GPU
	switch g.Driver {
	case driverNone:
		return nil
	case driverSimulated:
		return []check{{"simulated GPUs", false, func(context.Context) error {
			_, err := simulated.New(simulated.Config{Models: g.Simulated})
			return err
		}}}
	}
	checks := []check{{"GPUs", false, func(ctx context.Context) error { return looksAtGPUs(ctx, cfg, env) }}}
	if slices.ContainsFunc(g.Devices, func(r config.GPURule) bool { return gpu.Mode(r.Mode) == gpu.MPS }) {
		checks = append(checks, check{"MPS", false, func(ctx context.Context) error {
			_, err := mps.New(mps.Config{Control: g.MPS.Control, Dir: g.MPS.Dir, Logger: newLogger(env, false, false)}).Probe(ctx)
			return err
		}})
	}
	return checks
}

// looksAtGPUs asks the driver what there is and how it is. It changes nothing.
func looksAtGPUs(ctx context.Context, cfg config.Config, env Env) error {
	helper, err := remote.Find(cfg.GPU.Helper)
	if err != nil {
		return err
	}
	driver := remote.New(remote.Config{Argv: []string{helper, "drive"}, Logger: newLogger(env, false, false)})
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
	return errs.New(errs.Unavailable, "GPU %d (%s, %s): %s", d.Index, d.Name, gpu.ShortUUID(d.UUID), strings.Join(words, ", ")).
		With("nothing new is started on it: look at the kernel's log for Xid, and reset it or take it out")
}
