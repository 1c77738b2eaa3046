package htcondor

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/htcondor/condortest"
)

// jobOf returns the name of a workload's job.
func jobOf(t testing.TB, w *world, id spawner.ID) string {
	t.Helper()
	rec := recordOf(t, w.cfg.Dir, id)
	if rec.Job == "" {
		t.Fatalf("%s has the record %+v", id, rec)
	}
	return rec.Job
}

// recordOf reads the record of a workload below a directory of jobs.
func recordOf(t testing.TB, dir string, id spawner.ID) (rec batch.Record) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, string(id), batch.RecordFile))
	must(t, err)
	must(t, json.Unmarshal(data, &rec))
	return rec
}

func begin(t testing.TB, b *batch.Backend, l spawner.Launch) spawner.Launch {
	t.Helper()
	must(t, b.Start(t.Context(), l))
	t.Cleanup(func() { sweep(t, b, l.ID) })
	return l
}

// sweep leaves nothing of a workload.
func sweep(t testing.TB, b *batch.Backend, id spawner.ID) {
	ctx, cancel := contextOfOwn()
	defer cancel()
	if err := b.Stop(ctx, id, 0); err != nil {
		t.Error(err)
	}
	if err := b.Remove(ctx, id); err != nil {
		t.Error(err)
	}
}

// TestRealRemains: what a job takes along arrives, its user's alone; what it leaves comes back.
func TestRealRemains(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.backend(t)
	l := orders(w.launch(t), "report")
	l.Spec.Inputs = []string{"data.txt"}
	l.Uplink = &control.Uplink{URL: "wss://s/", Token: "t0k3n"}
	must(t, os.WriteFile(filepath.Join(l.InputDir, "data.txt"), []byte("of the user"), 0o600))
	begin(t, b, l)
	left := begin(t, b, orders(w.launch(t), "leave"))
	await(t, b, l.ID, spawner.Exited)
	r, err := b.StagedOutput(t.Context(), l.ID)
	must(t, err)
	said := logOf(t, r)
	for _, want := range []string{
		fmt.Sprintf("uid %d\n", aliceUID), `"token":"t0k3n"`, "input of the user <nil>", "-rw------- link/uplink.json\n", "drwx------ link\n", "-rwxr-xr-x slipway\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("there is no %q in:\n%s", want, said)
		}
	}
	o := await(t, b, left.ID, spawner.Exited)
	if want := (spawner.Observation{Existence: spawner.Exited, ExitCode: 3, Reason: "it said so", Remedy: "ask it", Tail: "the last line", Host: "pool.slipway.test"}); o != want {
		t.Errorf("%+v, want %+v", o, want)
	}
	if r, err = b.StagedOutput(t.Context(), left.ID); err != nil {
		t.Fatal(err)
	}
	f, size, err := r.File(t.Context(), "result.txt")
	must(t, err)
	defer f.Close()
	pack, err := r.Changes(t.Context())
	must(t, err)
	defer pack.Close()
	if s := r.Status(); size != 3 || s.State != control.Exited || s.ExitCode != 3 || s.Launch != left.Run() || !strings.Contains(logOf(t, r), string(left.ID)) {
		t.Errorf("%d bytes, status %+v", size, s)
	}
}

func logOf(t testing.TB, r spawner.StagedOutput) string {
	t.Helper()
	f, err := r.Log(t.Context(), 0)
	must(t, err)
	defer f.Close()
	data, err := io.ReadAll(f)
	must(t, err)
	return string(data)
}

// TestRealWords: what the pool, an administrator or an owner of a machine does to jobs is told in plain words.
func TestRealWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.backend(t)
	run := func(change func(*spawner.Launch)) spawner.ID {
		l := w.launch(t)
		change(&l)
		return begin(t, b, l).ID
	}
	same, large := func(*spawner.Launch) {}, func(l *spawner.Launch) { l.Spec.Resources.CPUs = 1000 }
	kept, evicted, gone, waits := run(same), run(same), run(same), run(large)
	lacks := run(func(l *spawner.Launch) { l.AgentDir = "/nowhere" })
	for _, id := range []spawner.ID{kept, evicted, gone} {
		await(t, b, id, spawner.Up)
	}
	w.pool.Admin(t, "condor_hold", "-reason", "the site is being repaired", jobOf(t, w, kept))
	w.pool.Vacate(t, jobOf(t, w, evicted))
	w.pool.Admin(t, "condor_rm", "-reason", "it is too loud", jobOf(t, w, gone))
	for id, tc := range map[spawner.ID]struct {
		want    spawner.Existence
		words   string
		evicted bool
	}{
		kept:    {spawner.Held, "an administrator holds it: the site is being repaired", false},
		evicted: {spawner.Exited, "its place was taken away", true},
		gone:    {spawner.Exited, "it was removed from HTCondor's queue: it is too loud", false},
		lacks:   {spawner.Held, "a file that it is to take along is not there: ", false},
	} {
		o := await(t, b, id, tc.want)
		if !strings.Contains(o.Reason, tc.words) || o.Evicted != tc.evicted || o.Remedy == "" && !o.Evicted {
			t.Errorf("%+v, want %q", o, tc.words)
		}
	}
	if o := await(t, b, waits, spawner.Queued); o.Detail == "" {
		t.Errorf("%+v", o)
	}
	// HTCondor does not begin again what it has begun: the evicted one, nor the held one when it is released.
	w.pool.Admin(t, "condor_release", jobOf(t, w, kept))
	for _, id := range []spawner.ID{kept, evicted} {
		if o := await(t, b, id, spawner.Exited); !o.Evicted {
			t.Errorf("%+v", o)
		}
	}
}

// TestRealQueueDown: while the schedd is down nothing is concluded; what runs goes on, and what is submitted is there
// once.
func TestRealQueueDown(t *testing.T) {
	w := newWorld(t)
	b := w.backend(t)
	runs := begin(t, b, w.launch(t))
	await(t, b, runs.ID, spawner.Up)
	job := jobOf(t, w, runs.ID)
	w.pool.Admin(t, "condor_off", "-fast", "-daemon", "schedd")
	up := sync.OnceFunc(func() { w.pool.Admin(t, "condor_on", "-daemon", "schedd") })
	defer up()
	l := w.launch(t)
	until(t, "the queue is down", func() bool {
		_, err := w.system().Queue(t.Context())
		return err != nil
	})
	until(t, "who asks is told", func() bool { // at first of the look at the queue before
		_, err := b.Observe(t.Context(), runs.ID)
		return errs.Is(err, errs.Unavailable)
	})
	if err := b.Start(t.Context(), l); !errs.Is(err, errs.Unavailable) {
		t.Errorf("Start = %v", err)
	}
	if err := b.Stop(t.Context(), runs.ID, 0); !errs.Is(err, errs.Unavailable) {
		t.Errorf("Stop = %v", err)
	}
	up()
	until(t, "the queue is up", func() bool {
		_, err := w.system().Queue(t.Context())
		return err == nil
	})
	b = w.backend(t) // as if the service had been killed meanwhile
	begin(t, b, l)
	await(t, b, l.ID, spawner.Up)
	// The access point takes its jobs up again, or gives them up, as it came to be ended: it never begins them again.
	o := await(t, b, runs.ID, spawner.Up, spawner.Exited)
	if jobOf(t, w, runs.ID) != job || o.Existence == spawner.Exited && !o.Evicted {
		t.Errorf("%+v of job %s, which was %s", o, jobOf(t, w, runs.ID), job)
	}
	jobs, err := w.system().Queue(t.Context())
	must(t, err)
	if len(jobs) != 2 || jobs[0].ID == jobs[1].ID || jobs[0].ID != l.ID && jobs[1].ID != l.ID {
		t.Errorf("in the queue: %+v", jobs)
	}
}

// TestRealScan: the points of a scan are one cluster, or two where the first came before the others.
func TestRealScan(t *testing.T) {
	t.Parallel()
	const points = 300
	w := newWorld(t)
	b := w.backend(t)
	ls := make([]spawner.Launch, points)
	for i := range ls {
		ls[i] = w.launch(t)
		ls[i].Scan, ls[i].Point, ls[i].Spec.Resources.CPUs = "c-1", i, 1000
	}
	begun := time.Now()
	for i, err := range startAll(t, b, ls) {
		if err != nil {
			t.Fatalf("point %d: %v", i, err)
		}
	}
	t.Logf("%d points are in the queue after %v", points, time.Since(begun))
	out := w.pool.Admin(t, "condor_q", "-allusers", "-json", "-attributes", "ClusterId,SlipwayPoint,SlipwayScan,SlipwayUser,Owner", "-constraint", w.system().constraint())
	var ads []struct {
		ClusterID                       int `json:"ClusterId"`
		SlipwayPoint                    int
		SlipwayScan, SlipwayUser, Owner string
	}
	must(t, json.Unmarshal([]byte(out), &ads))
	clusters, seen := map[int]bool{}, map[int]bool{}
	for _, ad := range ads {
		clusters[ad.ClusterID], seen[ad.SlipwayPoint] = true, true
		if ad.SlipwayScan != "c-1" || ad.SlipwayUser != "alice@cern.ch" || ad.Owner != "alice" {
			t.Fatalf("%+v", ad)
		}
	}
	if len(clusters) > 4 || len(seen) != points || len(ads) != points {
		t.Errorf("%d clusters have %d jobs for %d points", len(clusters), len(ads), len(seen))
	}
	var wg sync.WaitGroup
	for _, l := range ls {
		wg.Go(func() { sweep(t, b, l.ID) })
	}
	wg.Wait()
	if all, err := b.List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("List() has %d, %v", len(all), err)
	}
}

// TestRealDescriptions: HTCondor reads every description as it was meant, whatever the user is called.
func TestRealDescriptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.backend(t)
	for i, user := range []spawner.User{`a"b\`, "$(HOME) $$(Memory)", "x\nqueue 100\n", "Åsa, the ☃", "# no", "@=end\n@end"} {
		l := w.launch(t)
		l.Owner, l.Spec.Resources.CPUs, l.Launch = user, 1000, "l-"+string(user)
		begin(t, b, l)
		out := w.pool.Admin(t, "condor_q", "-allusers", "-af", attrUser, attrLaunch, "-constraint", fmt.Sprintf("%s == %q", attrID, l.ID))
		if want := batch.Encode(string(user)) + " " + batch.Encode("l-"+string(user)); strings.TrimSpace(out) != want {
			t.Errorf("user %d: %q, want %q", i, out, want)
		}
	}
}

// TestRealPartition: a worker that is cut off for less than the lease changes nothing; one that vanishes loses the job
// its place.
func TestRealPartition(t *testing.T) {
	t.Parallel()
	pool := condortest.Start(t, condortest.Options{CPUs: -1, Workers: []condortest.Worker{{Name: "far"}}})
	w := worldOf(t, pool)
	w.cfg.Lease = 12 * time.Second
	b := w.backend(t)
	l := begin(t, b, w.launch(t))
	job := jobOf(t, w, l.ID)
	until(t, "it runs on the worker", func() bool { return await(t, b, l.ID, spawner.Up).Host == "far.slipway.test" })
	pool.Cut(t, "far")
	for begun := time.Now(); time.Since(begun) < 6*time.Second; clock.Sleep(t.Context(), time.Second) {
		if o := await(t, b, l.ID, spawner.Up, spawner.Exited, spawner.Queued, spawner.Held); o.Existence != spawner.Up {
			t.Fatalf("while its worker is cut off it shows %+v", o)
		}
	}
	pool.Heal(t, "far")
	clock.Sleep(t.Context(), 2*time.Second)
	if o := await(t, b, l.ID, spawner.Up, spawner.Exited); o.Existence != spawner.Up || jobOf(t, w, l.ID) != job {
		t.Errorf("once its worker is back it shows %+v", o)
	}
	pool.Kill(t, "far")
	if o := await(t, b, l.ID, spawner.Exited); !o.Evicted {
		t.Errorf("without its worker it shows %+v", o)
	}
	l.Moves++
	must(t, b.Start(t.Context(), l))
	if got := jobOf(t, w, l.ID); got == job || !regexp.MustCompile(`^[0-9]+\.0$`).MatchString(got) {
		t.Errorf("the next run is job %s, after %s", got, job)
	}
}
