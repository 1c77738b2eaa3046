package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/spawner/batch/command"
)

// TestComplaints: what HTCondor complains of is told in plain words.
func TestComplaints(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"ERROR: Can't find address of local schedd":                                                    "HTCondor's queue does not answer",
		"ERROR: Failed to create proc\nNumber of submitted jobs would exceed MAX_JOBS_PER_OWNER":       "you have as many jobs",
		"ERROR: Failed to commit job submission into the queue.\nERROR: no more than 10 sessions each": "the site does not take this job",
		"ERROR: Failed to commit job submission into the queue.":                                       "HTCondor's queue has not taken it",
		"something else": "condor_submit: something else",
	} {
		script := fmt.Sprintf("#!/bin/sh\ncat >&2 <<'END'\nSubmitting job(s).\n%s\nEND\nexit 1\n", text)
		if err := os.WriteFile(filepath.Join(dir, "condor_submit"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := In(dir)(t.Context(), command.Command{Name: "condor_submit"})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Submitting") {
			t.Errorf("%q becomes %v", text, err)
		}
	}
}
