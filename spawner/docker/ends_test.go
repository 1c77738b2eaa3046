package docker

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"

	"slipway/internal/errs"
	"slipway/spawner"
)

func TestExistence(t *testing.T) {
	for state, want := range map[container.ContainerState]spawner.Existence{
		container.StateRunning: spawner.Up, container.StatePaused: spawner.Up, container.StateRestarting: spawner.Up,
		container.StateCreated: spawner.Created, container.StateExited: spawner.Exited, container.StateDead: spawner.Exited,
		container.StateRemoving: spawner.Exited,
	} {
		if got := existence(state, nil); got != want {
			t.Errorf("existence(%s) = %s, want %s", state, got, want)
		}
	}
}

func TestWhyItEnded(t *testing.T) {
	tests := map[string]struct {
		end    ending
		reason string // its beginning; empty: none at all
		remedy string // a part of it
	}{
		"by itself":           {ending{code: 7}, "", ""},
		"well":                {ending{}, "", ""},
		"out of memory":       {ending{code: 137, oom: true, memory: 2 << 30}, "out of memory (limit 2.0 GB)", "start it with more memory, or use less"},
		"a child was killed":  {ending{oom: true, memory: 2 << 30}, "", ""},
		"machine went down":   {ending{code: 255}, "this machine or its Docker Engine went down", "your changes are kept"},
		"engine restarted":    {ending{code: 137, with: true}, "the Docker Engine was restarted", "live-restore"},
		"ended well with it":  {ending{with: true}, "the Docker Engine was restarted", "your changes are kept"},
		"stopped":             {ending{code: 143, signaled: true}, "its container was ended outside Slipway", "start it again"},
		"stopped, ended well": {ending{signaled: true}, "its container was ended outside Slipway", "start it again"},
		"killed":              {ending{code: 137}, "its container was killed from outside (signal 9)", "the kernel's log"},
		"crashed":             {ending{code: 139}, "its first process was ended by signal 11 (segmentation fault)", "start it again"},
		"no program":          {ending{code: 127, err: `runc create failed: exec: "/x": stat /x: no such file or directory`}, "the engine cannot run Slipway's agent", "noexec"},
		"foreign program":     {ending{code: 1, foreign: true}, "the engine cannot run Slipway's agent in it: exec format error", "noexec"},
		"unknown words":       {ending{code: 128, err: "the moon is full"}, "the moon is full", ""},
	}
	for name, test := range tests {
		reason, remedy := test.end.why()
		if !strings.HasPrefix(reason, test.reason) || (test.reason == "") != (reason == "") || !strings.Contains(remedy, test.remedy) {
			t.Errorf("%s: %q, %q, want %q, %q", name, reason, remedy, test.reason, test.remedy)
		}
	}
}

// engineErrors are words of real engines and registries.
func engineErrors() map[string]errs.Kind {
	const oci = "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: "
	return map[string]errs.Kind{
		oci + `exec: "/nope": stat /nope: no such file or directory: unknown`:                                                                        errs.Missing,
		oci + `exec: "/etc/passwd": permission denied: unknown`:                                                                                      errs.Missing,
		oci + `container init was OOM-killed (memory limit too low?): unknown`:                                                                       errs.Invalid,
		oci + `unable to apply cgroup configuration: mkdir /sys/fs/cgroup/memory/docker/x: no space left on device: unknown`:                         errs.Missing,
		oci + `error during container init: error mounting "/tmp/x" to rootfs at "/etc": mount /tmp/x:/etc, flags: 0x5001: not a directory: unknown`: errs.Missing,
		`invalid mount config for type "bind": bind source path does not exist: /nonexist`:                                                           errs.Missing,
		`Cannot pause container 0cg: OCI runtime pause failed: unable to freeze: unknown`:                                                            errs.Unavailable,
		`network nonet not found`: errs.Missing,
		`no available IPv4 addresses on this network's address pools: slwnet (3cef3284c3dd)`:             errs.NoCapacity,
		`Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs available`:                         errs.Invalid,
		`Unknown runtime specified nope`:                                                                 errs.Missing,
		`mkdir /var/lib/docker/overlay2/x-init: no space left on device`:                                 errs.NoSpace,
		`failed to create endpoint x on network bridge: adding interface veth1 to bridge docker0 failed`: errs.Unavailable,
		`fork/exec /usr/bin/containerd-shim-runc-v2: resource temporarily unavailable`:                   errs.NoCapacity,
		`removal of container slipway-s-x is already in progress`:                                        errs.Conflict,
		`No such image: slipway/notebook:1`:                                                              errs.Missing,
	}
}

func registryErrors() map[string]errs.Kind {
	return map[string]errs.Kind{
		`Get "https://registry.invalid/v2/": dial tcp: lookup registry.invalid on 10.0.0.53:53: no such host`:                      errs.Unavailable,
		`Get "http://127.0.0.1:1/v2/": dial tcp 127.0.0.1:1: connect: connection refused`:                                          errs.Unavailable,
		`Get "https://r.example/v2/": net/http: TLS handshake timeout`:                                                             errs.Unavailable,
		`Get "https://r.example/v2/": tls: failed to verify certificate: x509: certificate signed by unknown authority`:            errs.Unavailable,
		`Get "https://r.example/v2/": http: server gave HTTP response to HTTPS client`:                                             errs.Unavailable,
		`toomanyrequests: You have reached your pull rate limit. You may increase the limit by authenticating and upgrading`:       errs.Unavailable,
		`pull access denied for nobody/nothing, repository does not exist or may require 'docker login': denied: requested access`: errs.Missing,
		`Head "https://r.example/v2/x/manifests/1": unauthorized: authentication required`:                                         errs.Missing,
		`Get "https://r.example/v2/x/manifests/1": no basic auth credentials`:                                                      errs.Missing,
		`manifest for r.example/x:2 not found: manifest unknown: manifest unknown`:                                                 errs.Missing,
		`no matching manifest for linux/amd64 in the manifest list entries`:                                                        errs.Missing,
		`filesystem layer verification failed for digest sha256:00aa`:                                                              errs.Unavailable,
		`received unexpected HTTP status: 500 Internal Server Error`:                                                               errs.Unavailable,
		`write /var/lib/docker/tmp/GetImageBlob1: no space left on device`:                                                         errs.NoSpace,
		`failed to register layer: Error processing tar file(exit status 1): write /x: no space left on device`:                    errs.NoSpace,
		`unexpected EOF`: errs.Unavailable,
	}
}

func TestSayings(t *testing.T) {
	for name, set := range map[string]struct {
		words   map[string]errs.Kind
		sayings []saying
	}{"engine": {engineErrors(), ofRuns()}, "registry": {registryErrors(), ofPulls()}} {
		for words, kind := range set.words {
			s, known := means(words, set.sayings)
			if !known || s.kind != kind || s.plain == "" || s.remedy == "" {
				t.Errorf("%s: %q means %+v (%v), want kind %d", name, words, s, known, kind)
			}
		}
		if s, known := means("the moon is full", set.sayings); known {
			t.Errorf("%s: nothing known means %+v", name, s)
		}
		for _, s := range set.sayings {
			for _, form := range s.forms {
				if form != strings.ToLower(form) || strings.Trim(form, "* ") == "" {
					t.Errorf("%s: form %q can match nothing, or everything", name, form)
				}
			}
		}
	}
}

func TestHas(t *testing.T) {
	for form, want := range map[string]bool{"network*not found": true, "not found*network": false, "network a not found": true, "a*a": false} {
		if got := has("network a not found", form); got != want {
			t.Errorf("has(%q) = %v", form, got)
		}
	}
}

func TestAbsence(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(1_000_000+int64(seconds), 0) }
	b := &Backend{}
	if b.away.Load().holds(at(0)) {
		t.Error("there was no absence yet")
	}
	b.returned(at(0))
	b.left(at(10))
	b.left(at(20)) // still the same one
	if a := b.away.Load(); !a.holds(at(10)) || !a.holds(at(1000)) || a.holds(at(7)) || a.holds(time.Time{}) {
		t.Errorf("while it lasts: %+v", a)
	}
	b.returned(at(30))
	if a := b.away.Load(); !a.holds(at(9)) || !a.holds(at(30)) || a.holds(at(31)) {
		t.Errorf("after it: %+v", a)
	}
	b.left(at(50))
	if a := b.away.Load(); a.holds(at(30)) || !a.holds(at(60)) {
		t.Errorf("the next one: %+v", a)
	}
}

func TestClean(t *testing.T) {
	var long strings.Builder
	for range 50 {
		long.WriteString("line\n")
	}
	for text, want := range map[string]string{
		"":                                  "",
		"\n\na\r\nb\tc\n\n":                 "a\nb\tc",
		"\x1b[1;31mred\x1b[0m \x07bell\x00": "red bell",
		"b\xffd":                            "b\uFFFDd",
		long.String():                       strings.TrimSuffix(strings.Repeat("line\n", tailLines), "\n"),
		strings.Repeat("é", tailBytes):      strings.Repeat("é", tailBytes/2),
	} {
		if diff := cmp.Diff(want, clean(text)); diff != "" {
			t.Errorf("clean(%.20q): %s", text, diff)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b[0mb\n\xff")
	f.Add(strings.Repeat("é\n", tailBytes))
	f.Fuzz(func(t *testing.T, text string) {
		got := clean(text)
		if len(got) > tailBytes || strings.Count(got, "\n") >= tailLines || strings.ContainsAny(got, "\x1b\x00\r") || strings.ToValidUTF8(got, "") != got {
			t.Errorf("clean gave %q", got)
		}
	})
}

// TestTailOfElsewhere: a log that is not on this machine, or nowhere, is not asked for.
func TestTailOfElsewhere(t *testing.T) {
	b := stub(t, Config{}, nil)
	for _, driver := range []string{"none", "syslog", "journald", "local"} { // the stub has no log for the last one either
		c := container.InspectResponse{HostConfig: &container.HostConfig{LogConfig: container.LogConfig{Type: driver}}, State: &container.State{}, Config: &container.Config{}}
		if got := b.tail(t.Context(), c); got != "" {
			t.Errorf("%s: %q", driver, got)
		}
	}
}

// What was killed for memory is a container's end only if it was at its end: a kernel's goes on, with another process.
func TestKilledForMemoryLongAgo(t *testing.T) {
	const ended = "2026-01-02T03:04:05Z"
	for name, test := range map[string]struct {
		kind   spawner.Kind
		before []time.Duration // the end: when something was killed for memory
		want   bool
	}{
		"at its end":       {spawner.Kernel, []time.Duration{time.Hour, time.Second}, true},
		"seen a bit later": {spawner.Kernel, []time.Duration{-time.Second}, true},
		"long ago":         {spawner.Kernel, []time.Duration{2 * time.Hour, time.Hour}, false},
		"forgotten":        {spawner.Lab, nil, true},
		"a job":            {spawner.Job, []time.Duration{time.Hour}, true},
	} {
		b := stub(t, Config{}, map[string]http.HandlerFunc{"/events": func(w http.ResponseWriter, r *http.Request) {
			if !strings.Contains(r.URL.Query().Get("filters"), `"oom"`) {
				t.Errorf("%s: asked for %s", name, r.URL.Query())
			}
			for _, d := range test.before {
				_ = json.NewEncoder(w).Encode(map[string]any{"Action": "oom", "timeNano": moment(ended).Add(-d).UnixNano()})
			}
		}})
		c := container.InspectResponse{
			State: &container.State{OOMKilled: true, StartedAt: "2026-01-02T00:00:00Z", FinishedAt: ended}, Config: &container.Config{Labels: map[string]string{labelKind: string(test.kind)}},
		}
		if got := b.ofMemory(t.Context(), c); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
