package mounts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/testenv"
	"slipway/internal/testenv/autofs"
)

const deployed = "../../deploy/cvmfs"

// TestDeployedUnitMakesASharedMount runs the unit's commands, twice, for another directory on a host whose root is no
// shared mount.
func TestDeployedUnitMakesASharedMount(t *testing.T) {
	testenv.Need(t, testenv.Root)
	unit, err := os.ReadFile(filepath.Join(deployed, "slipway-cvmfs.service"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "cvmfs")
	var script []string
	for line := range strings.Lines(string(unit)) {
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), "ExecStart="); ok {
			script = append(script, strings.ReplaceAll(command, "/cvmfs", dir))
		}
	}
	all := strings.Join(append(script, script...), "\n")
	out, err := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-ec", all+"\ncat /proc/self/mountinfo").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if shared, point := propagates(string(out), dir); !shared || point != dir || strings.Count(string(out), " "+dir+" ") != 1 {
		t.Errorf("%s is held by %s, shared: %v", dir, point, shared)
	}
}

// TestDeployedMapIsOneOfAutofs has a real automount read the line, with another directory and another map in the place
// of the client's.
func TestDeployedMapIsOneOfAutofs(t *testing.T) {
	line, err := os.ReadFile(filepath.Join(deployed, "cvmfs.autofs"))
	if err != nil {
		t.Fatal(err)
	}
	a := autofs.Start(t)
	a.Down()
	a.Master(string(line))
	a.Up()
	a.Down()
}

func TestDeployedClientSettings(t *testing.T) {
	out, err := exec.Command("sh", "-euc", ". \"$0\"; echo $CVMFS_REPOSITORIES $CVMFS_TIMEOUT", filepath.Join(deployed, "default.local")).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "atlas.cern.ch,sft.cern.ch 5" {
		t.Errorf("%s (%v)", out, err)
	}
}
