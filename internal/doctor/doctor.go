// Package doctor looks at a host for what the service's configuration asks of it, and says what to do about what is
// missing: `slipway doctor`. A check looks at one thing, for ten seconds at the most, and none waits for a file system
// that does not answer.
//
// It changes nothing on the host, and what it has to write goes below a directory of its own that it removes. It may
// run beside the service. The look at a user's data from inside a session is package datacheck.
package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"slipway/internal/config"
	"slipway/internal/cvmfs"
	"slipway/internal/errs"
	"slipway/internal/service/backends"
	"slipway/internal/units"
	"slipway/spawner/docker"
)

// Finding is what the doctor says of one thing.
type Finding struct {
	Check   string `json:"check"`
	Result  string `json:"result"` // ok, warn or fail
	Message string `json:"message,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
}

// check looks at one thing. What the service can do without for a while is a warning.
type check struct {
	name    string
	warning bool
	look    func(context.Context) error
}

// goodWord is what a check gives that has found nothing amiss and has something to say.
type goodWord string

// Error returns the words.
func (w goodWord) Error() string { return string(w) }

// inShort returns the first of the mistakes in a configuration, without the line of the file that its message shows.
func inShort(err error, path string) error {
	first, ok := errors.AsType[*errs.Error](err)
	if !ok {
		return err
	}
	short := *first
	short.Message, _, _ = strings.Cut(first.Message, "\n")
	all := "`slipway config check --config " + path + "` tells of all mistakes"
	if short.Remedy != "" {
		all = short.Remedy + "; " + all
	}
	short.Remedy = all
	return &short
}

// Look looks at a host for what the configuration asks of it: a finding a check. It changes nothing, and returns an error
// only where it cannot look. Path is the configuration's.
func Look(ctx context.Context, path string, log *slog.Logger) ([]Finding, error) {
	cfg, err := config.Load(path)
	findings := []Finding{
		examine(ctx, check{"configuration", false, func(context.Context) error { return inShort(err, path) }}),
	}
	if err != nil {
		return findings, nil
	}
	// a backend makes its directory; the service's is not the doctor's to make
	scratch, err := os.MkdirTemp("", "slipway-doctor-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	checks, err := hostChecks(ctx, cfg, scratch, log)
	if err != nil {
		return nil, err
	}
	for _, c := range checks {
		findings = append(findings, examine(ctx, c))
	}
	return findings, nil
}

// patience is how long a check may take.
const patience = 10 * time.Second

// examine runs a check.
func examine(ctx context.Context, c check) Finding {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := c.look(ctx)
	if err == nil {
		return Finding{Check: c.name, Result: "ok"}
	}
	if said, ok := errors.AsType[goodWord](err); ok {
		return Finding{Check: c.name, Result: "ok", Message: said.Error()}
	}
	f := Finding{Check: c.name, Result: "fail", Message: err.Error()}
	if c.warning {
		f.Result = "warn"
	}
	if e, ok := errors.AsType[*errs.Error](err); ok && e.Remedy != "" {
		f.Message, f.Remedy = e.Message, e.Remedy
	}
	return f
}

// hostChecks are all checks, for this configuration. They write below scratch alone.
func hostChecks(ctx context.Context, cfg config.Config, scratch string, log *slog.Logger) ([]check, error) {
	engine, err := backends.Docker(cfg, "", cvmfs.Directory{}, log)
	if err != nil {
		return nil, err
	}
	harmless := cfg
	harmless.DataDir = scratch
	jobs, err := backends.Local(harmless, "slipway", "", cvmfs.Directory{}, log)
	if err != nil {
		return nil, err
	}
	// what it would log stands in the table
	repositories, err := cvmfsChecks(cfg, scratch, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	checks := []check{
		{"root", false, isRoot},
		{"Apptainer", cfg.Jobs.Backend != jobs.Name(), jobs.Check},
		{"network of jobs", true, func(context.Context) error { return networkOfJobs(cfg, jobs) }},
		{"disk limit of jobs", true, func(context.Context) error { return diskOfJobs(cfg) }},
		{"images mounted once for all of a user's jobs", true, jobs.Shares},
		{"disk space for " + cfg.DataDir, true, func(context.Context) error { return hasSpace(cfg.DataDir) }},
	}
	below, err := homesChecks(cfg)
	if err != nil {
		return nil, err
	}
	checks = append(checks, below...)
	checks = append(checks, programChecks()...)
	checks = append(checks, check{"service", true, func(ctx context.Context) error {
		return releaseRuns(ctx, serviceAt(cfg))
	}})
	checks = append(checks, freezeChecks(cfg.DataDir)...)
	checks = append(checks, engineChecks(ctx, engine, cfg.Images)...)
	checks = append(checks, placeChecks(cfg.Environments)...)
	checks = append(checks, gpuChecks(cfg, log)...)
	checks = append(checks, condorChecks(harmless, log)...)
	checks = append(checks, slurmChecks(harmless, log)...)
	checks = append(checks, sshChecks(cfg)...)
	checks = append(checks, kernelChecks(cfg)...)
	checks = append(checks, storageChecks(cfg.Data)...)
	checks = append(checks, accountChecks(cfg)...)
	checks = append(checks, credentialChecks(cfg.Credentials)...)
	checks = append(checks, repositories...)
	if cfg.TLS.Cert != "" {
		checks = append(checks, check{
			"certificate " + cfg.TLS.Cert, true, func(context.Context) error { return certificateLasts(cfg.TLS) },
		})
	}
	for _, h := range cfg.Hubs {
		checks = append(checks, hubChecks(h)...)
	}
	return checks, nil
}

// engineChecks look at the Docker Engine. Of one that does not answer they say that alone.
func engineChecks(ctx context.Context, engine *docker.Backend, images []config.Image) []check {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	state := engine.Check(ctx)
	checks := []check{{"Docker Engine", false, func(context.Context) error { return state }}}
	if errs.Is(state, errs.Unavailable) || ctx.Err() != nil {
		return checks
	}
	checks = append(checks, check{"sessions apart by network", true, engine.Isolation}, check{
		"sessions outlive a restart of the engine", true,
		func(ctx context.Context) error { return outlivesRestart(ctx, engine) },
	}, check{
		"freezes read the engine's directories", true,
		func(ctx context.Context) error { return readsEngine(ctx, engine) },
	})
	for _, i := range images {
		checks = append(
			checks,
			check{"image " + i.Ref, false, func(ctx context.Context) error { return hasImage(ctx, engine, i.Ref) }},
		)
	}
	return checks
}

func isRoot(context.Context) error {
	if os.Geteuid() != 0 {
		return errs.New(errs.Missing, "running as user id %d", os.Geteuid()).
			With("the service runs as root: it freezes file trees of all owners and starts jobs as their users")
	}
	return nil
}

// outlivesRestart looks at live-restore.
func outlivesRestart(ctx context.Context, engine *docker.Backend) error {
	if outlives, err := engine.OutlivesRestart(ctx); outlives || err != nil {
		return nil
	}
	return errs.New(errs.Missing, "each restart of the engine stops all sessions, and so does an upgrade of its package").
		With(`put "live-restore": true into /etc/docker/daemon.json, then run systemctl reload docker`)
}

// leastSpace is how much room a freeze of an ordinary image needs at the least.
const leastSpace = 5e9

func hasSpace(path string) error {
	var s syscall.Statfs_t
	for syscall.Statfs(path, &s) != nil && path != "/" {
		path = filepath.Dir(path)
	}
	if free := int64(s.Bavail) * s.Bsize; free < leastSpace {
		return errs.New(errs.Unavailable, "%s free", units.DiskWords(free)).
			With("make room: a frozen environment takes about a gigabyte")
	}
	return nil
}

func hasImage(ctx context.Context, engine *docker.Backend, ref string) error {
	present, err := engine.Images(ctx)
	if err != nil || slices.Contains(present, ref) || slices.Contains(present, ref+":latest") {
		return err
	}
	return errs.New(errs.Missing, "the engine does not have it").With(docker.RemedyFor(ref))
}

// soon is how long before a certificate's end one should know of it.
const soon = 14 * 24 * time.Hour

func certificateLasts(cfg config.TLS) error {
	pair, err := tls.LoadX509KeyPair(cfg.Cert, cfg.Key)
	if err != nil {
		return errs.New(errs.Invalid, "%w", err).
			With("name a PEM certificate, with its chain, and the key that belongs to it")
	}
	if left := time.Until(pair.Leaf.NotAfter); left < soon {
		return errs.New(errs.Invalid, "it ends at %s", pair.Leaf.NotAfter.Format(time.DateTime)).
			With("renew it; the service takes the new one up by itself")
	}
	return nil
}
