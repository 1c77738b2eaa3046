package doctor

import (
	"context"
	"os"
	"path/filepath"

	"slipway/internal/programs"
)

// programChecks look at what is started for each job of this host, where it is not slipway itself.
func programChecks() []check {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	lean := filepath.Join(filepath.Dir(self), programs.ForJobs)
	if _, err := os.Stat(lean); err != nil {
		return nil
	}
	return []check{
		{"program for jobs is of this build", true, func(context.Context) error { return programs.SameBuild(lean) }},
	}
}
