package htcondor

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/internal/clock"
	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/htcondor/commands"
	"slipway/spawner/htcondor/condortest"
	"slipway/spawner/htcondor/pool"
)

// matchCases are what is asked of the tests' pool: one machine with a V100 (capability 7.0, 24220 MiB) and seven MIG
// instances of 4861 MiB that do not tell their capability, as HTCondor 23.9 has them. The first is decided before the
// others are submitted: it may go without the GPU that another has.
var matchCases = []struct {
	name string
	gpu  string
	with func(*pool.Demand)
	want bool
	gpus int // how many it is to get at least, where it starts; with 0 none at all
}{
	{name: "optional", gpu: "any,optional,capability>=7.0", want: true, gpus: 1},
	{name: "nine", gpu: "any,count=9"},
	{name: "whole", gpu: "whole", want: true, gpus: 1},
	{name: "two-whole", gpu: "whole,count=2"},
	{name: "mig", gpu: "1g.5gb", want: true, gpus: 1},
	{name: "mig-larger", gpu: "1g.10gb"},
	{name: "mig-any-size", gpu: "1g"}, // needs a name, and these have none
	{name: "mig-media", gpu: "1g.5gb+me"},
	{name: "more-capability", gpu: "any,capability>=7.5"},
	{name: "mig-capability", gpu: "1g.5gb,capability>=7.0"},
	{name: "memory", gpu: "any,memory>=24220M", want: true, gpus: 1},
	{name: "more-memory", gpu: "any,memory>=24221M"},
	{name: "memory-of-two", gpu: "any,count=2,memory>=4861M", want: true, gpus: 2},
	{name: "memory-of-two-whole", gpu: "any,count=2,memory>=5G"},
	{name: "runtime", gpu: "any,runtime>=11.0"}, // simulated devices tell none
	{name: "driver", gpu: "any,driver>=450"},
	{name: "all-of-it", gpu: "any,capability>=7.0,memory>=20G", want: true, gpus: 1},
	{name: "in-two-parts", gpu: "1g.5gb,memory>=20G"},
	{name: "mps", gpu: "mps:25%/1G"},
	{name: "optional-none", gpu: "any,optional,memory>=500G", want: true},
	{name: "model", gpu: "any", with: func(d *pool.Demand) { d.GPU.Model = "v100-PCIE" }, want: true, gpus: 1},
	{name: "other-model", gpu: "any", with: func(d *pool.Demand) { d.GPU.Model = "H200" }},
	{name: "processors", gpu: "none", with: func(d *pool.Demand) { d.Resources.CPUs = 1000 }},
	{name: "much-memory", gpu: "none", with: func(d *pool.Demand) { d.Resources.Memory = 1 << 50 }},
	{name: "much-disk", gpu: "none", with: func(d *pool.Demand) { d.Disk = 1 << 60 }},
	{name: "architecture", gpu: "none", with: func(d *pool.Demand) { d.Arch = "aarch64" }},
	{name: "site", gpu: "none", with: func(d *pool.Demand) { d.Site = []string{`HasSingularity && regexp("^pool[.]", Machine)`} }, want: true},
	{name: "site-not", gpu: "none", with: func(d *pool.Demand) {
		d.Site = []string{"TARGET.NoSuchThing is true || versionLT(SingularityVersion, OpSysLongName)"}
	}},
}

func gpuOf(t *testing.T, text string) gpu.Request {
	t.Helper()
	r, err := gpu.ParseRequest(text)
	must(t, err)
	return r
}

func demandOf(t *testing.T, request string, with func(*pool.Demand)) pool.Demand {
	t.Helper()
	d := pool.Demand{Hope: time.Second, Resources: spawner.Resources{CPUs: 1, Memory: 16 << 20}, Disk: 1 << 20, Arch: "X86_64", GPU: gpuOf(t, request)}
	if with != nil {
		with(&d)
	}
	return d
}

// TestRealMatches submits a job for each of matchCases: it starts, with as many GPUs as it asked for, exactly when the
// ads say so.
func TestRealMatches(t *testing.T) {
	condor := shared.Pool(t)
	condor.AddUser(t, "alice", aliceUID)
	known, err := pool.New(pool.Config{Run: commands.In(condor.Bin), Fresh: time.Nanosecond, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	dir := condor.TempDir(t)
	must(t, os.Chmod(dir, 0o777))
	mark := filepath.Base(dir)
	t.Cleanup(func() { condor.Admin(t, "condor_rm", "-constraint", fmt.Sprintf("Mark == %q", mark)) })
	var first, without, with [][]pool.Line
	for _, tc := range matchCases {
		d := demandOf(t, tc.gpu, tc.with)
		e, err := known.Explain(t.Context(), d)
		must(t, err)
		if (e.Fit > 0) != tc.want {
			t.Errorf("%s: it is said that %d of %d slots can take it: %s", tc.name, e.Fit, e.Slots, e.Summary)
		}
		switch lines := describeDemand(t, tc.name, mark, d); {
		case len(first) == 0:
			first = append(first, lines)
		case d.GPU.None():
			without = append(without, lines)
		default:
			with = append(with, lines)
		}
	}
	submit := condor.As(t, "alice", dir, "condor_submit", "-terse", "-")
	submitAll(t, submit, first)
	settled(t, condor, mark, 1)
	submitAll(t, submit, without)
	submitAll(t, submit, with)
	jobs := settled(t, condor, mark, len(matchCases))
	for _, tc := range matchCases {
		got := jobs[tc.name]
		if got.ran != tc.want || got.gpus < tc.gpus || tc.gpus == 0 && got.gpus > 0 {
			t.Errorf("%s: ran: %v, with %d GPUs; the ads say %v, with %d", tc.name, got.ran, got.gpus, tc.want, tc.gpus)
		}
	}
}

// describeDemand returns what is submitted. A user's jobs take over the machine's parts from one another, with the GPUs
// that are there, so who is to get none is another user.
func describeDemand(t *testing.T, name, mark string, d pool.Demand) []pool.Line {
	t.Helper()
	gpus, err := pool.GPULines(d.GPU)
	must(t, err)
	return slices.Concat(d.Lines(), gpus, []pool.Line{
		{Name: "executable", Value: "/bin/true"}, {Name: "transfer_executable", Value: "false"}, {Name: "should_transfer_files", Value: "YES"}, {Name: "leave_in_queue", Value: "JobStatus == 4"},
		{Name: "My.Mark", Value: `"` + mark + `"`}, {Name: "My.Row", Value: `"` + name + `"`}, {Name: "requirements", Value: pool.Requirements(pool.ClausesOf(d))},
		{Name: "accounting_group_user", Value: fmt.Sprintf("user%t", d.GPU.None() || name == "optional-none")},
	})
}

// submitAll submits several at once, for a command takes its time. What one sets and the next does not is taken back
// between them.
func submitAll(t *testing.T, as *exec.Cmd, all [][]pool.Line) {
	t.Helper()
	var text strings.Builder
	set := map[string]bool{}
	for _, lines := range all {
		for name := range set {
			empty := ""
			if strings.HasPrefix(name, "My.") {
				empty = "undefined"
			}
			text.WriteString(name + " = " + empty + "\n")
		}
		for _, l := range lines {
			set[l.Name] = true
		}
		text.WriteString(head(lines) + "queue\n")
	}
	c := exec.CommandContext(t.Context(), as.Path, as.Args[1:]...)
	c.Dir, c.Env, c.Stdin = as.Dir, as.Env, strings.NewReader(text.String())
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

type matched struct {
	ran             bool
	gpus            int
	status, refused int // JobStatus, and the second in which it was refused last
}

// freed is how many seconds it takes at most until the pool counts a part of a machine as free that a job had.
const freed = 3

// settled waits until every job has run, or was refused when nobody had a part of the machine any more: what is refused
// while it is given to another says nothing.
func settled(t *testing.T, condor *condortest.Pool, mark string, want int) map[string]matched {
	t.Helper()
	only := fmt.Sprintf(`Mark == %q`, mark)
	deadline, quiet := time.Now().Add(3*time.Minute), int(time.Now().Unix())
	for {
		if strings.Contains(condor.Admin(t, "condor_status", "-af", "State"), "Claimed") {
			quiet = int(time.Now().Unix())
		}
		jobs, open := map[string]matched{}, 0
		for row := range strings.Lines(condor.Admin(t, "condor_q", "-allusers", "-constraint", only, "-af", "Row", "JobStatus", "GPUsProvisioned ?: 0", "LastRejMatchTime ?: 0", "CompletionDate ?: 0")) {
			var name string
			var status, gpus, refused, done int
			if _, err := fmt.Sscan(row, &name, &status, &gpus, &refused, &done); err != nil {
				t.Fatalf("%q: %v", row, err)
			}
			jobs[name] = matched{ran: status == 4, gpus: gpus, status: status, refused: refused}
			quiet = max(quiet, done) // a job may come and go between two looks
		}
		for _, j := range jobs {
			if j.status != 4 && (j.status != 1 || j.refused <= quiet+freed) {
				open++
			}
		}
		if open == 0 && len(jobs) == want {
			return jobs
		}
		if time.Now().After(deadline) {
			t.Fatalf("after 3 min %d are not decided: %v", open, jobs)
		}
		clock.Sleep(t.Context(), 500*time.Millisecond)
	}
}
