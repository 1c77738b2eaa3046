package mps

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// written returns a file of testdata.
func written(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAbility(t *testing.T) {
	old, multi, v3 := written(t, "help-v2.txt"), written(t, "help-v2-multiuser.txt"), written(t, "help-v3.txt")
	for name, c := range map[string]struct {
		help, help3 string
		want        Ability
	}{
		"old":        {old, old, Ability{Clients: 48}},
		"multi-user": {multi, multi, Ability{MultiUser: true, Clients: 60, flag: "--multiuser-server"}},
		"v3":         {multi, v3, Ability{MultiUser: true, V3: true, Clients: 60, flag: "--multiuser"}},
		"nothing":    {"", "", Ability{Clients: 48}},
		"protocol without namespaces": {multi, strings.ReplaceAll(v3, "namespace", ""),
			Ability{MultiUser: true, Clients: 60, flag: "--multiuser-server"}},
	} {
		if got := parseAbility(c.help, c.help3); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestParse(t *testing.T) {
	if got := parsePIDs(written(t, "pids.txt") + "No more\n-3\n"); !slices.Equal(got, []int{6472, 6480}) {
		t.Errorf("processes: %v", got)
	}
	wantServers := []server{{name: "slipway", pid: 48201, status: "Ready"}, {name: "uid_1000", pid: 48299, status: "Fault"}}
	if diff := cmp.Diff(wantServers, parseServers(written(t, "server-list.csv")), cmp.AllowUnexported(server{})); diff != "" {
		t.Error(diff)
	}
	wantClients := []client{{pid: 48201, space: "wcd26a1f4a7e0b1c2"}, {pid: 51087, space: "default"}}
	if diff := cmp.Diff(wantClients, parseClients(written(t, "client-list.csv")), cmp.AllowUnexported(client{})); diff != "" {
		t.Error(diff)
	}
	spaces := parseSpaces(written(t, "namespace-list.csv"))
	if len(spaces) != 2 || !spaces[0].holds(part{Percent: 30, Memory: 20 * gib}) || spaces[1].holds(part{Percent: 30, Memory: 20 * gib}) {
		t.Errorf("namespaces: %+v", spaces)
	}
}

func TestSameLimits(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
		same bool
	}{
		{"20480M\n", 20 * gib, true}, {"20G\n", 20 * gib, true}, {"1G", 1536 << 20, true}, {"2G", 1536 << 20, false}, {"1536M", 1536 << 20, true},
		{"1535M", 1536 << 20, false}, {"0 20G", 20 * gib, true}, {"1536M", 1536<<20 + 5, true}, {"", gib, false}, {"-", gib, false},
		{"unlimited", gib, false}, {"0M", gib, false}, {"0G", 512 << 20, false}, {"19G", 20 * gib, false},
	} {
		if got := sameMemory(c.text, c.want); got != c.same {
			t.Errorf("%q is %d: %v", c.text, c.want, got)
		}
	}
	for text, want := range map[string]bool{"25.0\n": true, "25": true, "25%": true, "25.00": true, "26.0": false, "": false, "NaN": false, "100.0": false} {
		if got := samePercent(text, 25); got != want {
			t.Errorf("%q is 25: %v", text, got)
		}
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "25.0\n": "", "6472\n": "", "Cannot find MPS control daemon process\n": "Cannot find MPS control daemon process",
		"\nFailed to do it: no\n": "Failed to do it: no", "Unknown command: x": "Unknown command: x", "python error.py\n": "",
	} {
		if got := refused(text); got != want {
			t.Errorf("%q is refused as %q", text, got)
		}
	}
}

// TestNames: a process is not taken for a daemon by its words.
func TestNames(t *testing.T) {
	for argv, want := range map[string]bool{
		"/usr/bin/nvidia-cuda-mps-control\x00-d\x00": true, "/bin/sh\x00/opt/nvidia-cuda-mps-control\x00-d\x00": true,
		"vi\x00-d\x00nvidia-cuda-mps-control\x00": false, "nvidia-cuda-mps-controller\x00-d\x00": false, "": false,
	} {
		if got := named([]byte(argv), "nvidia-cuda-mps-control"); got != want {
			t.Errorf("%q is the daemon: %v", argv, got)
		}
	}
	if hasField([]byte("A=1\x00CUDA_MPS_PIPE_DIRECTORY=/a/pipe2\x00"), []byte("CUDA_MPS_PIPE_DIRECTORY=/a/pipe")) {
		t.Error("another pipe is taken for this one")
	}
}

// FuzzParse: whatever a control program prints, nothing panics, and what is read is of the kind that it should be.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"help-v3.txt", "pids.txt", "client-list.csv", "server-list.csv", "namespace-list.csv"} {
		f.Add(written(f, name))
	}
	for _, s := range []string{"25.0\n", "20G", "Failed", "\"a,b\n", "99999999999999999999G", "1e400", "\xff,\xfe,,,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		parseAbility(s, s)
		refused(s)
		parseServers(s)
		parseSpaces(s)
		for _, c := range parseClients(s) {
			if c.pid <= 0 {
				t.Errorf("client %d", c.pid)
			}
		}
		for _, pid := range parsePIDs(s) {
			if pid <= 0 {
				t.Errorf("process %d", pid)
			}
		}
		if p, ok := parsePercent(s); ok && (p <= 0 || p > 100) {
			t.Errorf("percent %g", p)
		}
		if n, unit, ok := parseMemory(s); ok && (n <= 0 || unit <= 0 || sameMemory(s, n+1<<40)) {
			t.Errorf("memory %d of unit %d", n, unit)
		}
	})
}

// A control program that never stops printing does not fill the service's memory.
func TestLongAnswer(t *testing.T) {
	d := Daemons{cfg: Config{Control: "head", Deadline: time.Minute}}
	text, err := d.run(t.Context(), daemon{}, "", "-c", strconv.Itoa(3*maxAnswer), "/dev/zero")
	if len(text) != maxAnswer || err != nil {
		t.Errorf("%d bytes are kept, %v, want %d", len(text), err, maxAnswer)
	}
}
