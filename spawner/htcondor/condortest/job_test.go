package condortest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// uids are the users of these tests.
var uids = map[string]int{
	"alice": 41234, "fay": 41301, "gil": 41302, "gus": 41303, "kay": 41304, "lea": 41305, "ole": 41306, "sid": 41307, "slip": 41309, "sue": 41308,
}

// job is a cluster of a user's, in a directory of her own.
type job struct {
	pool   *Pool
	user   string
	dir    string
	script string
	id     string
}

func newJob(t *testing.T, p *Pool, user, script string) *job {
	t.Helper()
	p.AddUser(t, user, uids[user])
	j := &job{pool: p, user: user, dir: p.TempDir(t), script: script}
	if err := os.Chown(j.dir, uids[user], 100); err != nil {
		t.Fatal(err)
	}
	p.SmallImage(t, filepath.Join(j.dir, "image.sif"))
	return j
}

// on is the line that has a job run on one machine alone.
func on(machine string) string { return `requirements = Machine == "` + machine + "." + Domain + `"` }

// submit queues so many, which are gone with the test. What has ended stays in the queue until then.
func (j *job) submit(t *testing.T, count int, lines ...string) {
	t.Helper()
	out, err := j.trySubmit(t, count, lines...)
	if err != nil {
		t.Fatal(err)
	}
	j.id, _, _ = strings.Cut(out, ".")
	t.Cleanup(func() { j.remove(t) })
}

// refused returns the words.
func (j *job) refused(t *testing.T, count int, lines ...string) string {
	t.Helper()
	out, err := j.trySubmit(t, count, lines...)
	if err == nil {
		t.Fatalf("not refused: %s", out)
	}
	return err.Error()
}

func (j *job) trySubmit(t *testing.T, count int, lines ...string) (string, error) {
	t.Helper()
	write(t, filepath.Join(j.dir, "run.sh"), "#!/bin/sh\n"+j.script+"\n")
	lines = append([]string{
		"executable = run.sh", "transfer_input_files = image.sif", "should_transfer_files = YES", "output = out", "error = err", "log = log",
		"request_cpus = 1", "request_memory = 64M", "request_disk = 10M", "leave_in_queue = true",
	}, lines...)
	write(t, filepath.Join(j.dir, "job.sub"), strings.Join(lines, "\n")+"\nqueue "+strconv.Itoa(count)+"\n")
	return output(j.pool.As(t, j.user, j.dir, "condor_submit", "-terse", "job.sub"))
}

func (j *job) remove(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"condor_qedit", j.id, "LeaveJobInQueue", "false"}, {"condor_rm", j.id}} {
		_, _ = j.pool.machines[Main].run(args...) // it may be gone
	}
	Await(t, "the job is gone", func() bool { return j.attribute(t, "JobStatus") == "" })
}

// attribute returns a line for each job of the cluster.
func (j *job) attribute(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(j.pool.Admin(t, "condor_q", "-allusers", j.id, "-af", name))
}

// running counts those whose program has begun: their status is Running from the time when their files are sent.
func (j *job) running(t *testing.T) int { return j.count(t, "JobStatus == 2 && NumJobStarts >= 1") }

func (j *job) count(t *testing.T, constraint string) int {
	t.Helper()
	constraint = "ClusterId == " + j.id + " && (" + constraint + ")"
	return len(strings.Fields(j.pool.Admin(t, "condor_q", "-allusers", "-constraint", constraint, "-af", "ProcId")))
}

func (j *job) runs(t *testing.T, jobs int) {
	t.Helper()
	Await(t, "the jobs of "+j.user+" run", func() bool { return j.running(t) == jobs })
}

func (j *job) ends(t *testing.T) {
	t.Helper()
	Await(t, "the job of "+j.user+" has ended", func() bool { return j.count(t, "JobStatus == 4") > 0 })
}

// isRejected waits until the pool has looked in vain for a place for so many, which are all that do not run. It says so
// of one of those that are alike.
func (j *job) isRejected(t *testing.T, jobs int) {
	t.Helper()
	Await(t, "the jobs of "+j.user+" find no place", func() bool {
		return j.count(t, "JobStatus == 1") == jobs && j.count(t, "JobStatus == 1 && LastRejMatchTime > (LastMatchTime ?: 0)") > 0
	})
}

func (j *job) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(j.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}
