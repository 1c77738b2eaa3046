package doctor

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"slipway/internal/config"
	"slipway/internal/testenv"
)

// TestSlurmConfig: what the doctor says of a controller's configuration.
func TestSlurmConfig(t *testing.T) {
	const accounts = "AccountingStorageType   = accounting_storage/slurmdbd\n"
	for name, tc := range map[string]struct{ text, history, patience string }{
		"as deployed":          {accounts + "AccountingStoreFlags    = job_comment,job_extra\nKillWait                = 60 sec\n", "ok: sacct knows the service's jobs", "ok: what is ended has 60 s"},
		"without comments":     {accounts + "AccountingStoreFlags    = (null)\nKillWait                = 30 sec\n", "does not keep the comments", "ok: what is ended has 30 s"},
		"without accounting":   {"AccountingStorageType   = (null)\nKillWait                = 2 sec\n", "keeps no accounts of jobs", "kills what it ends after 2 s"},
		"of something strange": {"odd\n", "keeps no accounts of jobs", `says of KillWait ""`},
	} {
		said := parseSlurmConfig(tc.text)
		if err := judgeHistory(said); !says(err, tc.history) {
			t.Errorf("%s, history: %v", name, err)
		}
		if err := judgePatience(said); !says(err, tc.patience) {
			t.Errorf("%s, patience: %v", name, err)
		}
	}
}

// TestSlurmChecks: without Slurm's commands the doctor says that once, and it leaves nothing in the shared directory.
func TestSlurmChecks(t *testing.T) {
	testenv.Need(t, testenv.Root)
	cfg := config.Config{}
	if all := slurmChecks(cfg, slog.New(slog.DiscardHandler)); len(all) > 0 {
		t.Errorf("a site without Slurm has %d checks", len(all))
	}
	cfg.Slurm.Enabled, cfg.Slurm.Bin, cfg.Slurm.Dir = true, t.TempDir(), t.TempDir()
	all := slurmChecks(cfg, slog.New(slog.DiscardHandler))
	if len(all) != 3 || !says(all[0].look(t.Context()), "not there: sbatch, squeue, sacct, scancel, scontrol") {
		t.Errorf("%d checks, the first: %v", len(all), all[0].look(t.Context()))
	}
	if err := canGive(cfg.Slurm.Dir); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(cfg.Slurm.Dir); len(left) > 0 || err != nil {
		t.Errorf("there stay %v, %v", left, err)
	}
	if err := canGive(filepath.Join(cfg.Slurm.Dir, "missing")); !says(err, "is not there") {
		t.Error(err)
	}
}
