package htcondor

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/spawner"
	"slipway/spawner/htcondor/condortest"
)

// matchCases are what is asked of the tests' pool: one machine with a V100 (capability 7.0, 24220 MiB) and seven MIG instances of 4861
// MiB that do not tell their capability, as HTCondor 23.9 has them.
var matchCases = []struct {
	name string
	gpu  string
	with func(*demand)
	want bool
	gpus int // how many it is to get at least, where it starts; with 0 none at all
}{
	{name: firstAlone, gpu: "any,optional,capability>=7.0", want: true, gpus: 1},
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
	{name: "model", gpu: "any", with: func(d *demand) { d.gpu.Model = "v100-PCIE" }, want: true, gpus: 1},
	{name: "other-model", gpu: "any", with: func(d *demand) { d.gpu.Model = "H200" }},
	{name: "processors", gpu: "none", with: func(d *demand) { d.resources.CPUs = 1000 }},
	{name: "much-memory", gpu: "none", with: func(d *demand) { d.resources.Memory = 1 << 50 }},
	{name: "much-disk", gpu: "none", with: func(d *demand) { d.disk = 1 << 60 }},
	{name: "architecture", gpu: "none", with: func(d *demand) { d.arch = "aarch64" }},
	{name: "site", gpu: "none", with: func(d *demand) { d.site = []string{`HasSingularity && regexp("^pool[.]", Machine)`} }, want: true},
	{name: "site-not", gpu: "none", with: func(d *demand) {
		d.site = []string{"TARGET.NoSuchThing is true || versionLT(SingularityVersion, OpSysLongName)"}
	}},
}

// firstAlone is decided before the others are submitted: it may go without the GPU that another has.
const firstAlone = "optional"

func demandOf(t *testing.T, request string, with func(*demand)) demand {
	t.Helper()
	d := demand{resources: spawner.Resources{CPUs: 1, Memory: 16 << 20}, disk: 1 << 20, arch: "X86_64", gpu: asked(t, request)}
	if with != nil {
		with(&d)
	}
	return d
}

// TestRealMatches submits a job for each of matchCases: it starts, with as many GPUs as it asked for, exactly when the ads say so.
func TestRealMatches(t *testing.T) {
	pool := shared.Pool(t)
	pool.AddUser(t, "alice", aliceUID)
	known, err := NewPool(PoolConfig{Bin: pool.Bin, Fresh: time.Nanosecond})
	must(t, err)
	dir := pool.TempDir(t)
	must(t, os.Chmod(dir, 0o777))
	mark := filepath.Base(dir)
	t.Cleanup(func() { pool.Admin(t, "condor_rm", "-constraint", fmt.Sprintf("Mark == %q", mark)) })
	submit := pool.As(t, "alice", dir, "condor_submit")
	for _, tc := range matchCases {
		d := demandOf(t, tc.gpu, tc.with)
		e, err := known.explain(t.Context(), d)
		must(t, err)
		if (e.Fit > 0) != tc.want {
			t.Errorf("%s: it is said that %d of %d slots can take it: %s", tc.name, e.Fit, e.Slots, e.Summary)
		}
		submitDemand(t, submit, tc.name, mark, d)
		if tc.name == firstAlone {
			settled(t, pool, mark, 1)
		}
	}
	jobs := settled(t, pool, mark, len(matchCases))
	for _, tc := range matchCases {
		got := jobs[tc.name]
		if got.ran != tc.want || got.gpus < tc.gpus || tc.gpus == 0 && got.gpus > 0 {
			t.Errorf("%s: ran: %v, with %d GPUs; the ads say %v, with %d", tc.name, got.ran, got.gpus, tc.want, tc.gpus)
		}
	}
}

// submitDemand submits as the given command would. A user's jobs take over the machine's parts from one another, with the GPUs that are
// there, so who is to get none is another user.
func submitDemand(t *testing.T, as *exec.Cmd, name, mark string, d demand) {
	t.Helper()
	gpus, err := gpuLines(d.gpu)
	must(t, err)
	lines := append(d.lines(), gpus...)
	lines = append(lines, []line{
		{"executable", "/bin/true"}, {"transfer_executable", "false"}, {"should_transfer_files", "YES"}, {"initialdir", as.Dir}, {"leave_in_queue", "JobStatus == 4"},
		{"My.Mark", `"` + mark + `"`}, {"My.Row", `"` + name + `"`}, {"requirements", requirements(clausesOf(d))},
		{"accounting_group_user", fmt.Sprintf("user%t", d.gpu.None() || name == "optional-none")},
	}...)
	path := filepath.Join(as.Dir, name+".sub")
	must(t, os.WriteFile(path, []byte(head(lines)+"queue\n"), 0o644))
	c := exec.CommandContext(t.Context(), as.Path, "-terse", path)
	c.Dir, c.Env = as.Dir, as.Env
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}

type matched struct {
	ran  bool
	gpus int
}

// settled waits until every job has run, or was refused after the last one that ran had gone: what is refused while another
// is on the slot says nothing.
func settled(t *testing.T, pool *condortest.Pool, mark string, want int) map[string]matched {
	t.Helper()
	only := fmt.Sprintf(`Mark == %q`, mark)
	deadline := time.Now().Add(3 * time.Minute)
	for {
		jobs, open, latest := map[string]matched{}, 0, 0
		var refused []int
		for row := range strings.Lines(pool.Admin(t, "condor_q", "-allusers", "-constraint", only, "-af", "Row", "JobStatus", "GPUsProvisioned ?: 0", "LastRejMatchTime ?: 0", "CompletionDate ?: 0")) {
			var name string
			var status, gpus, rejected, ended int
			if _, err := fmt.Sscan(row, &name, &status, &gpus, &rejected, &ended); err != nil {
				t.Fatalf("%q: %v", row, err)
			}
			jobs[name] = matched{ran: status == 4, gpus: gpus}
			switch status {
			case 1:
				refused = append(refused, rejected)
			case 4:
				latest = max(latest, ended)
			default:
				open++
			}
		}
		for _, at := range refused {
			if at <= latest+2 {
				open++
			}
		}
		if open == 0 && len(jobs) == want {
			return jobs
		}
		if time.Now().After(deadline) {
			t.Fatalf("after 3 min %d are not decided: %v", open, jobs)
		}
		pause(t.Context(), 500*time.Millisecond)
	}
}
