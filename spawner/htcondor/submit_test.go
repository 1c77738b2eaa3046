package htcondor

import (
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/batch/command"
	"slipway/spawner/htcondor/pool"
)

// testKey makes the marks of tests, also of what was captured.
const testKey = "no key of anybody but of the tests"

// testIDs are the user's of tests, whom they can give files.
func testIDs() (uid, gid int) {
	if uid = os.Geteuid(); uid > 0 {
		return uid, os.Getegid()
	}
	return 4711, 4711
}

// inMemory returns HTCondor whose commands are played.
func inMemory(t testing.TB, cfg Config, run command.Runner) *system {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if cfg.Instance == "" {
		cfg.Instance = "t1"
	}
	cfg.MarkKey = []byte(testKey)
	if cfg.Domain == "" {
		cfg.Domain = "slipway.test"
	}
	if cfg.Lookup == nil {
		cfg.Lookup = func(string) (uid, gid int, err error) {
			uid, gid = testIDs()
			return uid, gid, nil
		}
	}
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	cfg = cfg.filled()
	must(t, cfg.check())
	return newSystem(cfg, run)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		must(t, os.WriteFile("testdata/"+name, []byte(got), 0o644))
	}
	want, err := os.ReadFile("testdata/" + name)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; UPDATE=1 writes it):\n%s", name, diff)
	}
}

func point(n int) spawner.Workload {
	return spawner.Workload{
		ID: spawner.ID("j-000000000000000" + string(rune('0'+n))), Kind: spawner.Job, Owner: "Åsa @ CERN\nqueue 9", Launch: "l-1", LeaseRecord: spawner.LeaseRecord{Moves: n}, JobRecord: spawner.JobRecord{Scan: "c-77", Point: n},
		Spec: spawner.Spec{JobSpec: spawner.JobSpec{TimeLimit: time.Hour}, Resources: spawner.Resources{CPUs: 1.5, Memory: 2<<30 + 1}},
	}
}

func TestDescription(t *testing.T) {
	b := inMemory(t, Config{
		Config: batch.Config{Dir: "/var/lib/slipway/htcondor"}, Requirements: `TARGET.HasCVMFS`, Rank: "KFlops", AccountingGroup: "group_physics",
		Extra: map[string]string{"+ProjectName": `"cms"`, "concurrency_limits": "licence"},
	}, nil)
	rec := batch.Record{Run: "l-1.2", Login: "slipway", User: "asa", Program: "/opt/agent/slipway", Inputs: true, Send: "/sif/a.sif", Arch: "X86_64", Bytes: 5000}
	var heads []string
	var rows []row
	for n := range 3 {
		w := point(n)
		lines, err := b.describe(w, rec)
		must(t, err)
		heads = append(heads, head(lines))
		rows = append(rows, rowOf(entryOf(b, rec, w)))
	}
	if heads[0] != heads[1] || heads[1] != heads[2] {
		t.Error("the points of a scan do not share their lines")
	}
	golden(t, "scan.sub", description(heads[0], rows))

	w := point(0)
	w.Kind, w.Scan, w.Spec.TimeLimit = spawner.Lab, "", 0
	lines, err := inMemory(t, Config{Config: batch.Config{Dir: "/var/lib/slipway/htcondor"}}, nil).describe(w, batch.Record{Login: "asa", User: "asa", Program: "/opt/agent/slipway"})
	must(t, err)
	golden(t, "session.sub", description(head(lines), []row{rowOf(entryOf(b, batch.Record{Run: "l-9", Login: "asa"}, w))}))
}

// entryOf is a workload's part of a submission, as the backend makes it.
func entryOf(s *system, r batch.Record, w spawner.Workload) batch.Entry {
	e := batch.Entry{ID: w.ID, Run: batch.Encode(r.Run), Point: -1}
	if w.Scan != "" {
		e.Point = w.Point
	}
	e.Mark = s.marker.Mark(r.Login, string(w.ID), e.Run)
	return e
}

var safeLine = regexp.MustCompile(`^[A-Za-z_.+]+ = "?[A-Za-z0-9._@%+-]*"?$`)

// FuzzEncode: whatever a user is called, the name stays within its quotes, and is nobody else's.
func FuzzEncode(f *testing.F) {
	for _, s := range []string{"alice", `a"b`, "a\nqueue 1000", `\`, "$(Dollar)", "$$([ 1 ])", "a,b", "é☃", "\x00\x1f", "%41", "A", ""} {
		f.Add(s, "other")
	}
	f.Fuzz(func(t *testing.T, x, y string) {
		if (batch.Encode(x) == batch.Encode(y)) != (x == y) {
			t.Errorf("%q and %q become %q and %q", x, y, batch.Encode(x), batch.Encode(y))
		}
		text := head([]pool.Line{{Name: "My.SlipwayUser", Value: quoted(x)}})
		if !safeLine.MatchString(strings.TrimSuffix(text, "\n")) {
			t.Errorf("%q becomes the line %q", x, text)
		}
	})
}

// FuzzDescription: a description has the lines that it has, whatever workload it is of.
func FuzzDescription(f *testing.F) {
	f.Add("alice", "c-1", "l-1", "lab")
	f.Add("a\nqueue", "$(x)", ")\nqueue", "\"")
	f.Fuzz(func(t *testing.T, user, scan, launch, kind string) {
		b := newSystem(Config{Config: batch.Config{Dir: "/d", Instance: "i", MarkKey: []byte(testKey), Logger: slog.New(slog.DiscardHandler)}}.filled(), nil)
		describe := func(user, scan, launch, kind string) []string {
			w := spawner.Workload{ID: "j-1", Kind: spawner.Kind(kind), Owner: spawner.User(user), JobRecord: spawner.JobRecord{Scan: scan}, Launch: launch}
			lines, err := b.describe(w, batch.Record{Run: launch, Login: "a", User: "a", Program: "/p"})
			if err != nil {
				t.Fatal(err)
			}
			return strings.Split(description(head(lines), []row{rowOf(entryOf(b, batch.Record{Run: launch}, w))}), "\n")
		}
		plainScan := ""
		if scan != "" {
			plainScan = "c"
		}
		plainKind := "lab"
		if kind == string(spawner.Job) {
			plainKind = kind
		}
		got, want := describe(user, scan, launch, kind), describe("u", plainScan, "l", plainKind)
		if len(got) != len(want) {
			t.Fatalf("%d lines, want %d: %q", len(got), len(want), got)
		}
		for i := range got {
			name, value, _ := strings.Cut(got[i], " = ")
			wanted, wantedValue, _ := strings.Cut(want[i], " = ")
			row := strings.HasPrefix(want[i], "j-1,")
			if name != wanted && !row || value != wantedValue && !safeLine.MatchString(got[i]) {
				t.Errorf("line %d is %q where another's is %q", i, got[i], want[i])
			}
			if row && !regexp.MustCompile(`^j-1,[A-Za-z0-9._@%+-]*,-?[0-9]+,[0-9a-f]{64}$`).MatchString(got[i]) {
				t.Errorf("row %q", got[i])
			}
		}
	})
}

func TestConfigThatCannotBeWritten(t *testing.T) {
	good := Config{Config: batch.Config{Dir: "/var/lib/slipway/htcondor", Instance: "a", MarkKey: []byte(testKey), Logger: slog.New(slog.DiscardHandler)}}.filled()
	must(t, good.check())
	for name, change := range map[string]func(*Config){
		"relative":      func(c *Config) { c.Dir = "jobs" },
		"space":         func(c *Config) { c.Dir = "/a b" },
		"macro":         func(c *Config) { c.Dir = "/$(HOME)" },
		"instance":      func(c *Config) { c.Instance = `a"` },
		"no instance":   func(c *Config) { c.Instance = "" },
		"no key":        func(c *Config) { c.MarkKey = nil },
		"short key":     func(c *Config) { c.MarkKey = c.MarkKey[:batch.MinKey-1] },
		"owner":         func(c *Config) { c.Owner = "../x" },
		"domain":        func(c *Config) { c.Domain = "a b" },
		"group":         func(c *Config) { c.AccountingGroup = "a\nb" },
		"image":         func(c *Config) { c.Image = "/cvmfs/x.sif" },
		"image word":    func(c *Config) { c.Image = "fetch" },
		"requirements":  func(c *Config) { c.Requirements = "true\nqueue" },
		"continued":     func(c *Config) { c.Rank = `1 \` },
		"no expression": func(c *Config) { c.Requirements = "Arch == (" },
		"no rank":       func(c *Config) { c.Rank = "KFlops +" },
		"extra ours":    func(c *Config) { c.Extra = map[string]string{"Executable": "/bin/sh"} },
		"extra mark":    func(c *Config) { c.Extra = map[string]string{"+SlipwayId": `"j-1"`} },
		"extra queue":   func(c *Config) { c.Extra = map[string]string{"queue 3": "x"} },
		"extra include": func(c *Config) { c.Extra = map[string]string{"include": "/etc/passwd"} },
		"extra value":   func(c *Config) { c.Extra = map[string]string{"+A": "1\nqueue"} },
		"extra none":    func(c *Config) { c.Extra = map[string]string{"+A": ""} },
		"logger":        func(c *Config) { c.Logger = nil },
	} {
		bad := good
		change(&bad)
		if err := bad.check(); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: %v, want invalid", name, err)
		}
	}
}

func TestSubmittedNames(t *testing.T) {
	for _, tc := range []struct {
		out  string
		n    int
		want []string
	}{
		{"5.0 - 5.0\n", 1, []string{"5.0"}},
		{"5.0 - 5.2\n", 3, []string{"5.0", "5.1", "5.2"}},
		{"WARNING: something\n6.0 - 6.1\n", 2, []string{"6.0", "6.1"}},
		{"5.0 - 5.0\n6.0 - 6.0\n", 2, []string{"5.0", "6.0"}},
		{"5.0 - 5.2\n", 2, nil}, {"5.0 - 5.0\n", 2, nil}, {"", 1, nil}, {"5.0 - 6.0\n", 2, nil}, {"5.0 - 5.999999999\n", 1, nil}, {"5.3 - 5.1\n", 1, nil},
	} {
		jobs, err := parseSubmitted(tc.out, tc.n)
		var got []string
		for _, j := range jobs {
			got = append(got, j.Name)
		}
		if !cmp.Equal(got, tc.want) || (err == nil) != (tc.want != nil) {
			t.Errorf("%q for %d jobs: %q, %v; want %q", tc.out, tc.n, got, err, tc.want)
		}
	}
}

func FuzzSubmittedNames(f *testing.F) {
	f.Add("5.0 - 5.2\n", 3)
	f.Fuzz(func(t *testing.T, out string, n int) {
		if names, err := parseSubmitted(out, n); err == nil && len(names) != n {
			t.Errorf("%q gives %d names for %d jobs", out, len(names), n)
		}
	})
}
