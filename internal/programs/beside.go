//go:build linux

package programs

import (
	"context"
	"os/exec"
	"strings"
	"time"

	"slipway/internal/errs"
	"slipway/internal/homes"
	"slipway/spawner/local"
)

// Programs that lie beside slipway.
const (
	// ForJobs does what slipway itself does for each start anew, and begins sooner.
	ForJobs = "slipway-job"
	// GPUHelper calls NVIDIA's libraries.
	GPUHelper = "slipway-gpu"
	// GPUHelperInside is its build for sessions and jobs.
	GPUHelperInside = "slipway-gpu-inside"
)

// SameBuild refuses a program beside this one that was built from other sources: it may not understand what the service
// tells it.
func SameBuild(beside string) error {
	want, err := local.Identity(homes.Sources())
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), versionPatience)
	defer stop()
	said, err := exec.CommandContext(ctx, beside, "version").Output() // one of before versions fails
	if err != nil || strings.TrimSpace(string(said)) != want {
		return errs.New(
			errs.Missing, "%s is of another build than slipway, which is started for each job in its place", beside,
		).With("build both from the same sources, as deploy/lib/go.sh does, and restart the service")
	}
	return nil
}

// versionPatience is how long a program may take to say what it was built from.
const versionPatience = 30 * time.Second
