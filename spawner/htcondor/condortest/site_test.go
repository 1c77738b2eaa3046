package condortest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// site has all that deploy/htcondor says: on the pool's own machine, which is also a worker, and on a worker with GPUs.
var site = Shared{Options: Options{
	CPUs: 4,
	Config: "MEMORY = 16384\n" + siteFiles("10-access-point", "11-interactive-access-point", "12-limits-access-point", "21-interactive-manager",
		"22-limits-manager", "31-interactive-worker") + "MAX_JOBS_PER_SUBMISSION = 20\nCLAIM_WORKLIFE = 0\nSLIPWAY_OWNER = slip\n",
	Workers: []Worker{{
		Name: "gpus", CPUs: 12, Shared: true,
		Config: "GPU_DISCOVERY_EXTRA = -simulate:2,1,6,1\n" + siteFiles("31-interactive-worker", "41-gpus-worker", "42-gpus-shared-worker", "43-gpus-mps-worker"),
		Binds:  []string{siteDir() + "/libexec:/usr/local/libexec/slipway:ro", here("testdata/nvidia-cuda-mps-control") + ":/usr/local/bin/nvidia-cuda-mps-control:ro"},
	}, {Name: "people", CPUs: 6, Config: siteFiles("31-interactive-worker", "32-memory-worker")}},
}}

func siteDir() string { return here("../../../deploy/htcondor") }

func here(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		panic(err)
	}
	return abs
}

// siteFiles returns the text of some of the site's files; a missing one is seen at once, for its text is no
// configuration.
func siteFiles(names ...string) string {
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(siteDir(), name+".conf"))
		if err != nil {
			return err.Error()
		}
		all.Write(text)
		all.WriteString("\n")
	}
	return all.String()
}

// interactive has what the service puts into a session's ad.
func interactive() []string {
	return []string{`+SlipwayInteractive = true`, `+SlipwayInstance = "demo.site-1"`, `+SlipwayId = "a1"`}
}

// TestServiceKey: a token signed with the service's own key makes a user of its holder, and nothing more; without the
// key it is paper.
func TestServiceKey(t *testing.T) {
	t.Parallel()
	p := site.Pool(t)
	key := filepath.Join(p.etc(), Main+".secrets", "SLIPWAY")
	write(t, key, "as good a key as any")
	if err := os.Chmod(key, 0o600); err != nil {
		t.Fatal(err)
	}
	j := newJob(t, p, "kay", "true")
	token := p.Admin(t, "condor_token_create", "-identity", "kay@"+Domain, "-key", "SLIPWAY", "-lifetime", "600", "-authz", "READ", "-authz", "WRITE")
	as := func(command string, argv ...string) (string, error) {
		c := p.As(t, "kay", j.dir, command, argv...)
		write(t, filepath.Join(strings.TrimPrefix(c.Env[0], "_CONDOR_SEC_TOKEN_DIRECTORY="), "user"), token)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	write(t, filepath.Join(j.dir, "job.sub"), "executable = /bin/true\nhold = true\n"+strings.Join(interactive(), "\n")+"\nqueue\n")
	out, err := as("condor_submit", "-terse", "job.sub")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	j.id = strings.Fields(out)[0]
	t.Cleanup(func() { j.remove(t) })
	if owner := j.attribute(t, "Owner"); owner != "kay" {
		t.Errorf("the job is %q's", owner)
	}
	for _, name := range []string{"SlipwayId", "SlipwayMark", "SlipwayPoint"} {
		if out, err := as("condor_qedit", j.id, name, `"other"`); err == nil {
			t.Errorf("its owner changes the job's %s: %s", name, out)
		}
	}
	if out, err := as("condor_qedit", j.id, "JobPrio", "3"); err != nil {
		t.Errorf("its owner changes nothing else: %v: %s", err, out)
	}
	if out, err := as("condor_off", "-schedd"); err == nil {
		t.Errorf("a user administers: %s", out)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	p.Admin(t, "condor_reconfig")
	Await(t, "the token is worth nothing", func() bool { _, err := as("condor_rm", j.id); return err != nil })
}

// TestBackfillGivesWay: a session takes the place of one job of backfill, which is asked first and has time, and of no
// other job. When a place comes free, a session is first.
func TestBackfillGivesWay(t *testing.T) {
	t.Parallel()
	p := site.Pool(t)
	filler := newJob(t, p, "fay", "")
	saved := filepath.Join(filler.dir, "saved")
	filler.script = "trap 'sleep 2; echo $1 >>" + saved + "; exit 0' TERM\nsleep 600 & wait"
	filler.submit(t, 2, on(Main), "arguments = $(Process)", "+SlipwayBackfill = true")
	filler.runs(t, 2)
	if memory := filler.attribute(t, "RequestMemory"); memory != "2048\n2048" {
		t.Errorf("backfill asks for %q of memory, too little for a session", memory)
	}
	ordinary := newJob(t, p, "ole", "exec sleep 600")
	ordinary.submit(t, 2, on(Main))
	ordinary.runs(t, 2)

	session := newJob(t, p, "sue", "exec sleep 600")
	session.submit(t, 2, append(interactive(), on(Main))...)
	session.runs(t, 2)
	// One may have run again in between.
	if text, err := os.ReadFile(saved); err != nil || !strings.Contains(string(text), "0\n") || !strings.Contains(string(text), "1\n") {
		t.Errorf("backfill had no time to end: %q %v", text, err)
	}
	if n := ordinary.running(t); n != 2 {
		t.Errorf("of 2 ordinary jobs %d run", n)
	}

	more := newJob(t, p, "ole", "exec sleep 600")
	more.submit(t, 2, on(Main))
	late := newJob(t, p, "sid", "exec sleep 600")
	late.submit(t, 2, append(interactive(), on(Main))...)
	late.isRejected(t, 2)
	ordinary.remove(t)
	late.runs(t, 2)
	if n := session.running(t); n != 2 {
		t.Errorf("of 2 sessions %d run on", n)
	}
	if got := late.attribute(t, "AccountingGroup"); got != "interactive.sid\ninteractive.sid" {
		t.Errorf("the sessions count for %q", got)
	}
}

// TestLimits: what may flood the queue is refused with the reason, and of what may not be many at once the rest waits.
func TestLimits(t *testing.T) {
	t.Parallel()
	p := site.Pool(t)
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{[]string{"+SlipwayInteractive = true"}, "SlipwayInteractive is for sessions of a Slipway service"},
		{append(interactive(), "request_cpus = 9"), "at most 8 CPUs and 1 GPU, and this one for 9 and 0."},
		{append(interactive(), "request_gpus = 2"), "at most 8 CPUs and 1 GPU, and this one for 1 and 2."},
	} {
		j := newJob(t, p, "lea", "true")
		if out := j.refused(t, 1, c.lines...); !strings.Contains(out, c.want) {
			t.Errorf("%q are refused with %q, want %q", c.lines, out, c.want)
		}
	}
	newJob(t, p, "lea", "true").refused(t, 21)
	j := newJob(t, p, "lea", "exec sleep 600")
	j.submit(t, 5, append(interactive(), on("gpus"), "request_gpus = 1", "require_gpus = GlobalMemoryMb < 5000")...)
	j.runs(t, 4)
	Await(t, "the fifth is told why", func() bool {
		return strings.Contains(j.attribute(t, "LastRejMatchReason"), "concurrency limit")
	})
	if n := j.running(t); n != 4 {
		t.Errorf("%d sessions of one user run", n)
	}
}

// TestOneOwner: where one account owns the jobs of all users, each of them has a limit and a share of her own. Nobody
// else counts for whom she likes.
func TestOneOwner(t *testing.T) {
	t.Parallel()
	p := site.Pool(t)
	jobs, wanted := map[string]*job{}, map[string]int{"uma": 5, "una": 1}
	for user, count := range wanted {
		jobs[user] = newJob(t, p, "slip", "exec sleep 600")
		jobs[user].submit(t, count, append(interactive(), "accounting_group_user = "+user, on("people"))...)
	}
	jobs["uma"].runs(t, 4)
	jobs["una"].runs(t, 1)
	Await(t, "the fifth of one user is told why", func() bool {
		return strings.Contains(jobs["uma"].attribute(t, "LastRejMatchReason"), "concurrency limit sessions_of_user.uma")
	})
	Await(t, "each has a share of her own", func() bool {
		shares := p.Admin(t, "condor_status", "-any", "-constraint", `MyType == "Accounting"`, "-af", "Name", "ResourcesUsed")
		return strings.Contains(shares, "interactive.uma@"+Domain+" 4\n") && strings.Contains(shares, "interactive.una@"+Domain+" 1\n")
	})
	batch := newJob(t, p, "slip", "true")
	batch.submit(t, 1, "accounting_group_user = una", "hold = true")
	if got := batch.attribute(t, "AccountingGroup"); got != "una" {
		t.Errorf("another job of hers counts for %q", got)
	}
	liar := newJob(t, p, "lea", "true")
	liar.submit(t, 1, append(interactive(), "accounting_group_user = uma", "hold = true")...)
	if got := liar.attribute(t, "AccountingGroup") + " " + liar.attribute(t, "ConcurrencyLimits"); got != "interactive.lea sessions_of_user.lea,sessions_of_source.demo_site_1" {
		t.Errorf("a session that says it is another's counts for %q", got)
	}
}

// TestSharedGPU: four jobs share a card, each with a quarter of its memory, by one control daemon of their user's,
// which ends with them.
func TestSharedGPU(t *testing.T) {
	t.Parallel()
	p := site.Pool(t)
	node := p.machines["gpus"]
	j := newJob(t, p, "gus", "")
	j.script = "env >" + j.dir + "/env.$1; exec sleep 600"
	j.submit(t, 5, on("gpus"), "arguments = $(Process)", "request_gpus = 1", "gpus_minimum_memory = 5G", `environment = "MINE='a b'"`)
	j.runs(t, 4)
	j.isRejected(t, 1)
	mps := "/run/slipway-mps/" + strconv.Itoa(uids["gus"]) + "-GPU-a0223334/"
	for _, path := range glob(t, j.dir+"/env.*") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"CUDA_VISIBLE_DEVICES=GPU-a0223334", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=6055M", "CUDA_MPS_PIPE_DIRECTORY=" + mps + "pipe", "MINE=a b",
		} {
			if !strings.Contains("\n"+string(text), "\n"+want+"\n") {
				t.Errorf("a job's environment lacks %s:\n%s", want, text)
			}
		}
	}
	if n := len(glob(t, j.dir+"/env.*")); n != 4 {
		t.Errorf("%d jobs began", n)
	}
	pid := strings.TrimSpace(node.must(t, "cat", mps+"pipe/pid"))
	if env := node.must(t, "cat", mps+"log/env"); !strings.Contains(env, "CUDA_VISIBLE_DEVICES=GPU-a0223334\n") || strings.Contains(env, "MINE") {
		t.Errorf("the daemon's environment: %s", env)
	}
	if _, err := node.run("cat", "/proc/"+pid+"/comm"); err != nil {
		t.Errorf("the daemon has not outlived the hooks: %v", err)
	}
	j.remove(t)
	awaitEnd(t, node, mps, pid)
}

// awaitEnd waits until the daemon of an MPS directory has ended.
func awaitEnd(t *testing.T, node *machine, mps, pid string) {
	t.Helper()
	Await(t, "the daemon has ended", func() bool {
		_, known := node.run("cat", mps+"pipe/pid")
		name, there := node.run("cat", "/proc/"+pid+"/comm")
		return known != nil && (there != nil || strings.TrimSpace(name) != "sleep")
	})
}

// TestSharedGPUWithoutHook: HTCondor does not run the hook after a job whose starter was killed. The daemon ends with
// the job's sandbox.
func TestSharedGPUWithoutHook(t *testing.T) {
	t.Parallel()
	p := site.Pool(t)
	p.AddUser(t, "fay", uids["fay"])
	node := p.machines["gpus"]
	if _, err := node.as("fay", "mkdir /tmp/sandbox && "+hook("begin", "GPU-fay", "/tmp/sandbox")); err != nil {
		t.Fatal(err)
	}
	mps := "/run/slipway-mps/" + strconv.Itoa(uids["fay"]) + "-GPU-fay/"
	pid := strings.TrimSpace(node.must(t, "cat", mps+"pipe/pid"))
	node.must(t, "rmdir", "/tmp/sandbox")
	awaitEnd(t, node, mps, pid)
}

// as runs a script as a user inside, where processes have the machine's numbers.
func (m *machine) as(user, script string) (string, error) {
	return docker("exec", "--user", user, m.container, "sh", "-c", script)
}

// hook is a script that runs a hook for a job with a share of a GPU.
func hook(name, gpu, sandbox string) string {
	ad := "/tmp/ad-" + gpu
	return "echo 'GPUs_" + strings.ReplaceAll(gpu, "-", "_") + "_share1 = [ GlobalMemoryMb = 100; ]' >" + ad + "; " +
		"_CONDOR_SLOT=slot1 _CONDOR_SCRATCH_DIR=" + sandbox + " _CONDOR_JOB_AD=/dev/null _CONDOR_MACHINE_AD=" + ad +
		" _CONDOR_AssignedGPUs=" + gpu + "-share1 /usr/local/libexec/slipway/mps-" + name
}

// TestMPSPlace: where everybody may make directories, a user's daemon has one that is hers alone, or none.
func TestMPSPlace(t *testing.T) {
	t.Parallel()
	p := site.Pool(t)
	p.AddUser(t, "gus", uids["gus"])
	p.AddUser(t, "fay", uids["fay"])
	node := p.machines["gpus"]
	at := func(gpu string) string { return fmt.Sprintf("/run/slipway-mps/%d-%s", uids["gus"], gpu) }
	for gpu, c := range map[string]struct{ user, before, refused string }{
		"GPU-new":     {},
		"GPU-own":     {user: "gus", before: "mkdir -m 700 " + at("GPU-own")},
		"GPU-open":    {"gus", "mkdir -m 777 " + at("GPU-open"), "mode 777"},
		"GPU-hostile": {"fay", "mkdir -m 777 " + at("GPU-hostile"), fmt.Sprintf("of uid %d", uids["fay"])},
		"GPU-link":    {"fay", "mkdir -m 777 /tmp/mine && ln -s /tmp/mine " + at("GPU-link"), "a symbolic link"},
		"GPU-ownlink": {"gus", "mkdir -m 700 /tmp/hers && ln -s /tmp/hers " + at("GPU-ownlink"), "a symbolic link"},
		"GPU-file":    {"fay", "touch " + at("GPU-file"), "a regular empty file"},
	} {
		if c.before != "" {
			if _, err := node.as(c.user, c.before); err != nil {
				t.Fatal(err)
			}
		}
		out, err := node.as("gus", "/usr/local/libexec/slipway/mps-dir "+gpu)
		if c.refused == "" && (err != nil || out != at(gpu)) {
			t.Errorf("%s: %q, %v", gpu, out, err)
		}
		if c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s is taken: %q, %v", gpu, out, err)
		}
		for _, name := range []string{"begin", "end"} {
			out, err := node.as("gus", hook(name, gpu, "/tmp"))
			if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("%s on %s: %q, %v", name, gpu, out, err)
			}
		}
	}
	if made := node.must(t, "find", "/tmp/mine", "/tmp/hers", at("GPU-hostile"), at("GPU-open"), "-mindepth", "1"); made != "" {
		t.Errorf("something was made where others look: %s", made)
	}
}

// TestGPUNode: machines with GPUs are known as such, and other jobs stay away from them, but for backfill.
func TestGPUNode(t *testing.T) {
	t.Parallel()
	p := site.Pool(t)
	if got := p.Admin(t, "condor_status", "-constraint", "SlipwayGPUNode && PartitionableSlot", "-af", "Machine", "SlipwayGPUSharing"); got != "gpus."+Domain+" mps\n" {
		t.Errorf("machines with GPUs: %q", got)
	}
	j := newJob(t, p, "gil", "exec sleep 600")
	j.submit(t, 1, on("gpus"))
	j.isRejected(t, 1)
	backfill := newJob(t, p, "gil", "exec sleep 600")
	backfill.submit(t, 1, on("gpus"), "+SlipwayBackfill = true")
	backfill.runs(t, 1)
	if n := j.running(t); n != 0 {
		t.Error("a job without a GPU runs on a machine with GPUs")
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestMemoryIsHeld: where there are no control groups, a job that uses more memory than it has asked for is held, and
// its reason says so.
func TestMemoryIsHeld(t *testing.T) {
	t.Parallel()
	p := site.Pool(t)
	j := newJob(t, p, "ole", "x=$(head -c 300000000 /dev/zero | tr '\\0' a); sleep 600")
	j.submit(t, 1, on("people"))
	Await(t, "the job is held", func() bool { return j.attribute(t, "JobStatus") == "5" })
	if why := j.attribute(t, "HoldReason"); !strings.Contains(why, "memory usage exceeded request_memory") {
		t.Errorf("held for %q", why)
	}
}
