package doctor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/service/backends"
	"slipway/spawner/batch"
)

// slurmChecks look at the cluster, if the site has one.
func slurmChecks(cfg config.Config, log *slog.Logger) []check {
	c := cfg.Slurm
	if !c.Enabled {
		return nil
	}
	all := []check{
		{"Slurm's commands", false, func(context.Context) error { return hasSlurm(c.Bin) }},
		{"Slurm's shared directory", false, func(context.Context) error { return canGive(c.Dir) }},
	}
	if !cfg.HTCondor.Enabled { // else it is looked at for that
		all = append(all, check{
			"service for nodes at " + cfg.Uplink.URL, true,
			func(ctx context.Context) error { return reachable(ctx, cfg.Uplink) },
		})
	}
	if hasSlurm(c.Bin) != nil { // what follows would say it again
		return all
	}
	return append(
		all,
		check{"Slurm's controller", false, func(ctx context.Context) error { return controller(ctx, cfg, log) }},
		check{"Slurm's history", true, func(ctx context.Context) error {
			return askSlurm(ctx, c.Bin, judgeHistory)
		}},
		check{"Slurm's patience", true, func(ctx context.Context) error {
			return askSlurm(ctx, c.Bin, judgePatience)
		}},
	)
}

// hasSlurm looks for the commands that the service runs.
func hasSlurm(bin string) error {
	var lacking []string
	for _, name := range []string{"sbatch", "squeue", "sacct", "scancel", "scontrol"} {
		if _, err := exec.LookPath(filepath.Join(bin, name)); err != nil {
			lacking = append(lacking, name)
		}
	}
	if len(lacking) > 0 {
		return errs.New(errs.Missing, "not there: %s", strings.Join(lacking, ", ")).
			With("install Slurm's commands here (slurm-client), or set slurm.bin to their directory")
	}
	return nil
}

// canGive looks whether root can give files to users in the directory that the nodes share.
func canGive(dir string) (err error) {
	const nobody = 65534
	own, err := os.MkdirTemp(dir, ".doctor-*")
	if errors.Is(err, os.ErrNotExist) {
		return errs.New(errs.Missing, "%s is not there", dir).
			With("make it on a file system that the nodes see at the same path, or set slurm.dir to another")
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(own)) }()
	if err := os.Lchown(own, nobody, nobody); err != nil {
		return errs.New(errs.Forbidden, "root of this host cannot give files in %s to users: %w", dir, err).
			With("export it to this host with no_root_squash, or set slurm.dir to another directory")
	}
	return nil
}

// controller asks for the queue and for the limits, as the backend does before a start.
func controller(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	cfg.Slurm.Dir = filepath.Join(cfg.DataDir, "slurm")              // not the site's, which it would make
	key := func(string) []byte { return make([]byte, batch.MinKey) } // it looks for no jobs
	backend, err := backends.Host{Config: cfg, Key: key, Log: log}.Slurm()
	if err != nil {
		return err
	}
	return backend.Check(ctx)
}

// askSlurm judges what the controller's configuration says.
func askSlurm(ctx context.Context, bin string, judge func(config map[string]string) error) error {
	out, err := askProgram(ctx, bin, "scontrol", "show", "config")
	if err != nil {
		return err
	}
	return judge(parseSlurmConfig(string(out)))
}

var slurmConfigLine = regexp.MustCompile(`(?m)^([A-Za-z]+)\s*=\s*(.*?)\s*$`)

// parseSlurmConfig reads scontrol show config.
func parseSlurmConfig(text string) map[string]string {
	all := map[string]string{}
	for _, m := range slurmConfigLine.FindAllStringSubmatch(text, -1) {
		all[m[1]] = m[2]
	}
	return all
}

// judgeHistory looks whether a job that has left the queue is found again, by its comment.
func judgeHistory(config map[string]string) error {
	const remedy = "set AccountingStorageType = accounting_storage/slurmdbd and AccountingStoreFlags = job_comment " +
		"in slurm.conf, and restart slurmctld"
	switch kind := config["AccountingStorageType"]; {
	case !strings.HasSuffix(kind, "/slurmdbd"):
		return errs.New(
			errs.Invalid, "Slurm keeps no accounts of jobs (AccountingStorageType is %q): one that ends while the "+
				"service is away may count as lost", kind,
		).With(remedy)
	case !slices.Contains(strings.Split(config["AccountingStoreFlags"], ","), "job_comment"):
		return errs.New(
			errs.Invalid, "Slurm does not keep the comments of jobs, by which the service finds those that have ended",
		).With(remedy)
	}
	return goodWord("sacct knows the service's jobs")
}

// leastKillWait is what a worker needs from being asked to end: its app has 20 s, and then its files go into slurm.dir.
const leastKillWait = 30

// judgePatience looks whether Slurm gives what it ends the time to end.
func judgePatience(config map[string]string) error {
	number, _, _ := strings.Cut(config["KillWait"], " ") // "30 sec"
	wait, err := strconv.Atoi(number)
	if err != nil {
		return fmt.Errorf("scontrol says of KillWait %q", config["KillWait"])
	}
	if wait < leastKillWait {
		return errs.New(
			errs.Invalid, "Slurm kills what it ends after %d s (KillWait): what a session has changed may be lost", wait,
		).With(fmt.Sprintf(
			"set KillWait = %d or more in slurm.conf, such as 60, and run scontrol reconfigure", leastKillWait,
		))
	}
	return goodWord(fmt.Sprintf("what is ended has %d s", wait))
}
