package condortest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/testenv"
)

var shared = Shared{}

// TestMain ends the pool that the tests share.
func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// TestJob submits a job as a user, who has nothing but a token, and has it run in an image.
func TestJob(t *testing.T) {
	testenv.Need(t, testenv.HTCondor)
	p := shared.Pool(t)
	p.AddUser(t, "alice", 41234)
	dir := p.TempDir(t)
	if err := os.Chown(dir, 41234, 100); err != nil {
		t.Fatal(err)
	}
	p.SmallImage(t, filepath.Join(dir, "image.sif"))
	write(t, filepath.Join(dir, "run.sh"), `#!/bin/sh
apptainer exec --userns --contain --pid --ipc --cleanenv image.sif sh -c 'echo "uid $(id -u) on $(hostname)"; test -d /.singularity.d && echo inside'
echo answered > answer
`)
	write(t, filepath.Join(dir, "job.sub"), `executable = run.sh
transfer_input_files = image.sif
transfer_output_files = answer
should_transfer_files = YES
output = out
error = err
log = log
request_cpus = 1
request_memory = 64M
request_disk = 10M
queue
`)
	id := strings.Fields(say(t, p, "alice", dir, "condor_submit", "-terse", "job.sub"))[0]
	Await(t, "the job has ended", func() bool { return strings.TrimSpace(p.Admin(t, "condor_q", id, "-af", "JobStatus")) == "" })
	if got := read(t, filepath.Join(dir, "out")); got != "uid 41234 on pool.slipway.test\ninside\n" {
		t.Errorf("the job wrote %q, and %q as errors", got, read(t, filepath.Join(dir, "err")))
	}
	if got := read(t, filepath.Join(dir, "answer")); got != "answered\n" {
		t.Errorf("the job's file is %q", got)
	}
}

func say(t *testing.T, p *Pool, user, dir, command string, argv ...string) string {
	t.Helper()
	out, err := output(p.As(t, user, dir, command, argv...))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
