package config

import (
	"errors"
	"strings"
	"testing"
)

// Each of these was once passed over in silence, with all that stood below the key.
func TestKeysThatAreNotTextAreMistakes(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"listen: a:1\n7: x\n", "line 2: the key 7 is not text"},
		{"jobs:\n  max_cpus: 2\n  7: x\n", "line 3: the key 7 is not text"},
		{"htcondor:\n  true: true\n  poll_interval: 1s\n", "line 2: the key true is not text"},
		{"htcondor: {on: true}\n", `unknown field "on"`},
		{"htcondor: {1.5: true}\n", "the key 1.5 is not text"},
		{"htcondor: {~: true}\n", "the key ~ is not text"},
		{"htcondor: {2026-01-02: true}\n", "the key 2026-01-02 is not text"},
		{"? [a, b]\n: x\n", "the key [list] is not text"},
		{"? {a: b}\n: x\n", "the key {mapping} is not text"},
		{"htcondor: {extra: {7: x}}\n", "the key 7 is not text"},
		{"jobs: {max_cpus: 1, max_cpus: 2}\n", `"max_cpus" stands here for the second time`},
		{"a: &a {cpus: 1}\njobs: {<<: *a}\n", "<< does not merge here"},
		{"listen: a\n---\nlisten: b\n", "a second document begins here"},
		{"jobs: [1]\n", `"[list]" is not a mapping of keys to values`},
		{"hubs: {name: a}\n", `"{mapping}" is not a list`},
		{"listen: [a]\n", `"[list]" is not a text`},
	} {
		_, err := Parse([]byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
}

func TestWhatIsReadIsAllThatIsWritten(t *testing.T) {
	c, err := Parse([]byte("x: &x\n"))
	if err == nil {
		t.Errorf("%+v", c)
	}
	c, err = Parse([]byte("jobs:\nhubs:\n- name: &n main\n  api_url: *n\n- name: b\n  unknown_sessions: {action: stop}\n- {name: c}\ngpu: {devices: [{mode: mig}]}\nhtcondor: {extra: {'7': x}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Hubs[0].APIURL != "main" || c.Hubs[1].Service != "slipway" || c.Hubs[1].UnknownSessions.Action != UnknownStop ||
		c.Hubs[2].UnknownSessions.Action != UnknownReport {
		t.Errorf("%+v", c.Hubs)
	}
	if c.GPU.Devices[0].Match != "*" || len(c.GPU.Devices) != 1 || c.HTCondor.Extra["7"] != "x" || c.Jobs.MaxTime != Default().Jobs.MaxTime {
		t.Errorf("%+v %+v", c.GPU.Devices, c.HTCondor)
	}
}

func TestAliasesThatMakeTooMuch(t *testing.T) {
	const ten = ", *a, *a, *a, *a, *a, *a, *a, *a, *a"
	text := "profiles: [{images: &a [x" + strings.Repeat(", x", 5000) + "]}" + strings.Repeat(", {images: *a}", 40) + "]\n"
	_, err := Parse([]byte(text))
	if err == nil || !strings.Contains(err.Error(), "make too much") || strings.Count(err.Error(), "make too much") != 1 {
		t.Errorf("%v", err)
	}
	if wrong := errors.Join(Decode([]byte("listen: &a [x"+ten+"]"), &Config{}, "")...); wrong == nil {
		t.Error("an anchor inside itself is read")
	}
}
