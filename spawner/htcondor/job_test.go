package htcondor

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"slipway/spawner"
	"slipway/spawner/batch"
)

func ofTests(instance string) batch.Marker { return batch.NewMarker(instance, []byte(testKey)) }

func jobsOf(t testing.TB, name string) []job {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	must(t, err)
	jobs, err := parseJobs(data, ofTests("t1"))
	must(t, err)
	return jobs
}

// TestCapturedQueue reads what condor_q and condor_history of a pool have printed.
func TestCapturedQueue(t *testing.T) {
	var b strings.Builder
	for _, name := range []string{"queue.json", "past.json"} {
		for _, j := range jobsOf(t, name) {
			line, err := json.Marshal(j.Observation())
			must(t, err)
			b.WriteString(name + " " + j.Name() + " " + string(line) + "\n")
		}
	}
	golden(t, "observations.txt", b.String())
}

func TestNoJobs(t *testing.T) {
	for _, text := range []string{"", "\n", "[]", "[\n]\n"} {
		if jobs, err := parseJobs([]byte(text), ofTests("t1")); err != nil || len(jobs) > 0 {
			t.Errorf("%q: %v, %v", text, jobs, err)
		}
	}
	for _, text := range []string{"condor_q: no", "[", "[\n{\n\"ClusterId\": 1", "[{}", "WARNING: odd\n", "WARNING: odd\n[{", "[]\n[]"} {
		if _, err := parseJobs([]byte(text), ofTests("t1")); err == nil {
			t.Errorf("%q is no answer, and is taken for one", text)
		}
	}
	want := jobsOf(t, "queue.json")
	if len(want) == 0 {
		t.Error("no jobs")
	}
	data, err := os.ReadFile("testdata/queue.json")
	must(t, err)
	warned, err := parseJobs(append([]byte("WARNING: [the] configuration is odd\n"), data...), ofTests("t1"))
	if err != nil || !slices.Equal(warned, want) {
		t.Errorf("after a warning: %v, %v", warned, err)
	}
	if jobs, err := parseJobs(data, ofTests("t2")); err != nil || len(jobs) > 0 {
		t.Errorf("another service's jobs are taken for one's own: %v, %v", jobs, err)
	}
}

// TestOddJob: one job whose attributes are expressions, or of odd types, hides no other.
func TestOddJob(t *testing.T) {
	jobs, err := parseJobs([]byte(`[
		{"SlipwayInstance":"t1","SlipwayId":"j-1","Owner":"a","SlipwayLaunch":"l","SlipwayMark":"`+ofTests("t1").Mark("a", "j-1", "l")+`","ClusterId":1,"ProcId":0,"JobStatus":2,"RequestMemory":"/Expr(MemoryUsage * 2)/","RemoteHost":5,"ExitBySignal":"no","HoldReason":null},
		{"SlipwayInstance":"t1","SlipwayId":"../../etc","ClusterId":2,"ProcId":0,"JobStatus":2},
		{"SlipwayInstance":"t1","SlipwayId":["j-2"],"ClusterId":2,"ProcId":0,"JobStatus":2},
		{"SlipwayInstance":"t1","SlipwayId":"j-3","Owner":"a","SlipwayMark":"`+ofTests("t1").Mark("a", "j-3", "")+`","ClusterId":1e300,"ProcId":0,"JobStatus":"/Expr(1)/"}]`), ofTests("t1"))
	must(t, err)
	if len(jobs) != 2 || jobs[0].ID != "j-1" || jobs[1].ID != "j-3" {
		t.Errorf("%+v", jobs)
	}
}

func FuzzJobs(f *testing.F) {
	data, err := os.ReadFile("testdata/queue.json")
	must(f, err)
	f.Add(data)
	f.Add([]byte(`[{"SlipwayInstance":"t1","SlipwayId":"j-3","SlipwayMark":"` + ofTests("t1").Mark("", "j-3", "") + `"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		jobs, err := parseJobs(data, ofTests("t1"))
		if err != nil {
			return
		}
		for _, j := range jobs {
			o := j.Observation()
			if o.Existence == "" || strings.ContainsAny(o.Reason+o.Detail+o.Host, "\n\x1b") || !batch.ValidID.MatchString(string(j.ID)) {
				t.Errorf("%+v shows %+v", j, o)
			}
		}
	})
}

func TestStates(t *testing.T) {
	for name, tc := range map[string]struct {
		job  job
		want spawner.Existence
		live bool
	}{
		"idle":                       {job{Status: idle}, spawner.Queued, true},
		"idle again":                 {job{Status: idle, Shadows: 1}, spawner.Exited, false},
		"running":                    {job{Status: running, Shadows: 1}, spawner.Up, true},
		"output comes back":          {job{Status: transferring, Shadows: 1}, spawner.Up, true},
		"suspended":                  {job{Status: 7, Shadows: 1}, spawner.Up, true},
		"completed":                  {job{Status: completed, Shadows: 1}, spawner.Exited, false},
		"being removed":              {job{Status: removed, Shadows: 1, RemoteHost: "slot1@a"}, spawner.Up, true},
		"removed":                    {job{Status: removed}, spawner.Exited, false},
		"held, never ran":            {job{Status: held, HoldCode: 13}, spawner.Held, true},
		"held by an administrator":   {job{Status: held, HoldCode: 1, Shadows: 1}, spawner.Held, true},
		"held for its memory":        {job{Status: held, HoldCode: 34, HoldSub: 102, Shadows: 1}, spawner.Exited, false},
		"held by a rule for memory":  {job{Status: held, HoldCode: 26, Shadows: 1, HoldReason: "Memory usage is too high"}, spawner.Exited, false},
		"held by a rule":             {job{Status: held, HoldCode: 26, Shadows: 1, HoldReason: "site closed"}, spawner.Held, true},
		"held at the end of its day": {job{Status: held, HoldCode: 47, Shadows: 1}, spawner.Exited, false},
		"of no known status":         {job{Status: 99}, spawner.Up, true},
	} {
		if o := tc.job.Observation(); o.Existence != tc.want || (tc.job.seen().Seen.Existence != spawner.Exited) != tc.live {
			t.Errorf("%s: %+v, live %v; want %s, %v", name, o, (tc.job.seen().Seen.Existence != spawner.Exited), tc.want, tc.live)
		}
	}
}

// TestHolds: each row of the table can be reached, and says what to do.
func TestHolds(t *testing.T) {
	for _, h := range holds() {
		got := job{Status: held, HoldCode: h.code, HoldSub: h.sub}.hold()
		if got != h || h.reason == "" || h.remedy == "" {
			t.Errorf("code %d.%d gives %+v, want %+v", h.code, h.sub, got, h)
		}
	}
	o := job{Status: held, HoldCode: 34, HoldSub: 102, Shadows: 1, MemoryMB: 256, RemoteHost: "slot1@n7"}.Observation()
	want := spawner.Observation{Existence: spawner.Exited, ExitCode: 1, Reason: "out of memory (limit 256 MiB, of which 160 MiB are for what runs it)", Remedy: moreMemory, Host: "n7"}
	if o != want {
		t.Errorf("%+v, want %+v", o, want)
	}
	if o := (job{Status: held, HoldCode: 9999, HoldReason: "a new\x1b[31m one"}).Observation(); !strings.Contains(o.Reason, "9999") || strings.ContainsRune(o.Reason, 0x1b) {
		t.Errorf("%+v", o)
	}
}
