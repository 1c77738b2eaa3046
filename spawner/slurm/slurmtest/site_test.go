package slurmtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/testenv"
)

// TestSiteFiles: Slurm takes the configuration of deploy/slurm, and a job of backfill gives its place to a session.
func TestSiteFiles(t *testing.T) {
	t.Parallel()
	c := Start(t)
	dir := c.TempDir(t)
	for _, name := range []string{"slipway.conf", "partitions.conf"} {
		text, err := os.ReadFile(filepath.Join(testenv.Checkout(t), "deploy/slurm", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c.Admin(t, "sh", "-c", "cd /etc/slurm && sed -i '/^KillWait/d; /^MinJobAge/d' slurm.conf && "+
		"printf 'Include "+dir+"/slipway.conf\\nInclude "+dir+"/partitions.conf\\n' >>slurm.conf && scontrol reconfigure")
	testenv.Until(t, "the node takes jobs of the new partitions", testenv.Hang, func() bool {
		out, err := c.run("sinfo", "--noheader", "--partition=interactive,backfill", "--format=%R %T")
		return err == nil && out == "interactive idle\nbackfill idle"
	})
	config := c.Admin(t, "scontrol", "show", "config")
	for name, want := range map[string]string{
		"KillWait": "60 sec", "MinJobAge": "300 sec", "MaxArraySize": "10001", "PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL",
	} {
		line := config[strings.Index(config, "\n"+name+" ")+1:]
		line, _, _ = strings.Cut(line, "\n")
		if _, got, _ := strings.Cut(line, "= "); strings.TrimSpace(got) != want {
			t.Errorf("of %s Slurm says %q, want %q", name, line, want)
		}
	}
	submit := func(partition string) string {
		return c.Admin(t, "sbatch", "--parsable", "--partition="+partition, "--gres=gpu:v100:1", "--output=/dev/null", "--mem=16M", "--wrap=exec sleep infinity")
	}
	state := func(job, want string) {
		t.Helper()
		testenv.Until(t, job+" is "+want, testenv.Hang, func() bool {
			return c.Admin(t, "squeue", "--noheader", "--states=all", "--jobs="+job, "--format=%T") == want
		})
	}
	filler := submit("backfill")
	state(filler, "RUNNING")
	session := submit("interactive")
	state(filler, "PREEMPTED")
	state(session, "RUNNING")
	c.Admin(t, "scancel", session)
}
