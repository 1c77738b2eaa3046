package apptainer_test

import (
	"testing"

	"slipway/internal/apptainer"
)

func TestFatal(t *testing.T) {
	const output = "WARNING: a\n\x1b[31mFATAL:  \x1b[0m could not open image\nmore\n"
	if got := apptainer.Fatal(output); got != "could not open image" {
		t.Errorf("Fatal = %q", got)
	}
	if got := apptainer.Fatal("all is well"); got != "" {
		t.Errorf("Fatal = %q, want nothing", got)
	}
}
