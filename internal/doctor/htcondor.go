package doctor

import (
	"context"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"

	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/spawner/batch"
	"slipway/spawner/htcondor"
)

// condorCommands are those of HTCondor's that the service runs.
func condorCommands() []string {
	return []string{
		"condor_submit", "condor_q", "condor_rm", "condor_history", "condor_status", "condor_config_val",
		"condor_token_create",
	}
}

// condorChecks look at the pool, if the site has one.
func condorChecks(cfg config.Config, log *slog.Logger) []check {
	if !cfg.HTCondor.Enabled {
		return nil
	}
	commands := check{"HTCondor's commands", false, func(context.Context) error { return hasCondor(cfg.HTCondor.Bin) }}
	service := check{
		"service for workers at " + cfg.Uplink.URL, true,
		func(ctx context.Context) error { return reachable(ctx, cfg.Uplink) },
	}
	if hasCondor(cfg.HTCondor.Bin) != nil { // all others would say it again
		return []check{commands, service}
	}
	return []check{
		commands,
		{"HTCondor's access point", false, func(ctx context.Context) error { return accessPoint(ctx, cfg, log) }},
		{"HTCondor's limits", true, func(ctx context.Context) error { return limitsFit(ctx, cfg.HTCondor) }},
		{"HTCondor's shares", true, func(ctx context.Context) error { return sharesApart(ctx, cfg.HTCondor) }},
		{"HTCondor's history", true, func(ctx context.Context) error { return historyKept(ctx, cfg.HTCondor.Bin) }},
		{"HTCondor's encryption", true, func(ctx context.Context) error { return encrypts(ctx, cfg.HTCondor.Bin) }},
		{"HTCondor's accounts", true, func(ctx context.Context) error { return accountsFit(ctx, cfg, accountNumbers) }},
		{"HTCondor's workers", true, func(ctx context.Context) error { return workersFit(ctx, cfg.HTCondor.Bin) }},
		service,
	}
}

func hasCondor(bin string) error {
	var lacking []string
	for _, name := range condorCommands() {
		if _, err := exec.LookPath(filepath.Join(bin, name)); err != nil {
			lacking = append(lacking, name)
		}
	}
	if len(lacking) > 0 {
		return errs.New(errs.Missing, "not there: %s", strings.Join(lacking, ", ")).
			With("install HTCondor here as an access point of the pool, or set htcondor.bin to the directory of its commands")
	}
	return nil
}

// accessPoint asks for the queue and has a token signed, as the backend does before a start.
func accessPoint(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	h := cfg.HTCondor
	backend, err := htcondor.New(htcondor.Config{
		Config: batch.Config{
			Dir: filepath.Join(cfg.DataDir, "htcondor"), Bin: h.Bin, Instance: cfg.Instance, Owner: h.Owner,
			MarkKey: make([]byte, batch.MinKey), // it looks for no jobs
			Logger:  log,
		},
		Domain: h.Domain, Key: h.Key,
	})
	if err != nil {
		return err
	}
	return backend.Check(ctx)
}
