package commands

import (
	"os/exec"
	"strings"
	"testing"
)

// TestPrintsTooMuch: a command that prints without end is ended, and its output is none.
func TestPrintsTooMuch(t *testing.T) {
	out := bounded{most: 100 << 10}
	cmd := exec.CommandContext(t.Context(), "yes")
	cmd.Stdout = &out
	if err := cmd.Run(); err == nil || !out.over || out.Len() > out.most {
		t.Errorf("%v after %d bytes", err, out.Len())
	}
	out = bounded{most: 5}
	cmd = exec.CommandContext(t.Context(), "printf", "12345")
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil || out.over || out.String() != "12345" {
		t.Errorf("%v, %q", err, out.String())
	}
}

func TestComplaints(t *testing.T) {
	exit := exec.Command("false").Run()
	for text, want := range map[string]string{
		"ERROR: Can't find address of local schedd":                                                    "HTCondor's queue does not answer",
		"ERROR: Failed to create proc\nNumber of submitted jobs would exceed MAX_JOBS_PER_OWNER":       "you have as many jobs",
		"ERROR: Failed to commit job submission into the queue.\nERROR: no more than 10 sessions each": "the site does not take this job",
		"ERROR: Failed to commit job submission into the queue.":                                       "HTCondor's queue has not taken it",
		"something else": "condor_submit: something else",
	} {
		err := explain(t.Context(), "condor_submit", exit, []byte("Submitting job(s).\n"+text))
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Submitting") {
			t.Errorf("%q becomes %v", text, err)
		}
	}
}
