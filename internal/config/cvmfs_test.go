package config

import (
	"os"
	"strings"
	"testing"
)

func TestCVMFSMistakes(t *testing.T) {
	tests := []struct{ text, want string }{
		{"cvmfs: {path: cvmfs}", "data.cvmfs.path"},
		{"cvmfs: {path: /}", "data.cvmfs.path"},
		{"cvmfs: {path: /cvmfs/}", "data.cvmfs.path"},
		{"cvmfs: {repositories: [atlas.cern.ch]}", "data.cvmfs.repositories"},
		{"cvmfs: {path: /cvmfs, repositories: [../etc]}", "data.cvmfs.repositories[0]"},
		{"cvmfs: {path: /cvmfs, repositories: [a.b, a.b]}", "data.cvmfs.repositories[1]"},
		{"stacks: [{name: A/b, display_name: x, setup: /s}]", "data.stacks[0].name"},
		{"stacks: [{name: a, display_name: x, setup: /s}, {name: a, display_name: x, setup: /s}]", "data.stacks[1].name"},
		{"stacks: [{name: a, setup: /s}]", "data.stacks[0].display_name"},
		{"stacks: [{name: a, display_name: x, setup: s}]", "data.stacks[0].setup"},
		{"stacks: [{name: a, display_name: x, setup: /s, python: ''}]", "data.stacks[0].python"},
		{"stacks: [{name: a, display_name: x, setup: /s, profiles: [none]}]", "data.stacks[0].profiles[0]"},
		{"stacks: [{name: a, display_name: x, setup: /s, allowed_groups: [none]}]", "data.stacks[0].allowed_groups[0]"},
		{"stacks: [{name: a, display_name: x, setup: /s, env: {a-b: c}}]", "data.stacks[0].env"},
		{"stacks: [{name: a, display_name: x, setup: /s, logo: /etc/passwd}]", "data.stacks[0].logo"},
		{"stacks: [{name: a, display_name: x, setup: /s, logo: /nonexistent.png}]", "data.stacks[0].logo"},
	}
	for _, tt := range tests {
		c, err := Parse([]byte("data:\n  " + tt.text + "\n"))
		if err != nil {
			t.Fatalf("%s: %v", tt.text, err)
		}
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v does not name %s", tt.text, err, tt.want)
		}
	}
}

func TestStacksHaveDefaults(t *testing.T) {
	c, err := Parse([]byte("data:\n  cvmfs: {path: /cvmfs, repositories: [sft.cern.ch, sft-nightlies.cern.ch]}\n  stacks: [{name: lcg-106, display_name: LCG 106, setup: /cvmfs/sft.cern.ch/setup.sh}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil && strings.Contains(err.Error(), "data.") {
		t.Error(err)
	}
	if s := c.Data.Stacks[0]; s.Python != "python3" || s.Language != "python" {
		t.Errorf("the stack is %+v", s)
	}
}

func TestDeployedDataIsRight(t *testing.T) {
	text, err := os.ReadFile("../../deploy/cvmfs/data.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var p problems
	c.checkCVMFS(&p)
	c.checkStacks(&p)
	if len(p) > 0 || len(c.Data.Stacks) != 2 || c.Data.CVMFS.Path != "/cvmfs" {
		t.Errorf("%+v %v", c.Data, p)
	}
}
