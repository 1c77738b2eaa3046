package stack

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/agent/control"
	"slipway/internal/testenv"
	"slipway/internal/testenv/autofs"
)

func TestWhatJupyterFinds(t *testing.T) {
	dir := t.TempDir()
	old := []control.Stack{{Name: "old", Title: "Old", Setup: "/s"}}
	stacks := []control.Stack{
		{Name: "lcg-106", Title: "LCG 106", Setup: "/cvmfs/a.b/setup.sh", Python: "python3", Language: "python", Env: map[string]string{"A": "b"}, Logo: []byte("<svg/>"), LogoExt: ".svg"},
		{Name: "../../out", Title: "Out", Setup: "/s"},
	}
	for _, list := range [][]control.Stack{old, stacks} {
		if err := Write(dir, list); err != nil {
			t.Fatal(err)
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, "kernels/*"))
	if err != nil || len(names) != 2 || filepath.Base(names[0]) != "lcg-106" || filepath.Base(names[1]) != "out" {
		t.Errorf("the kernels are %v (%v)", names, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "kernels/lcg-106/kernel.json"))
	var got spec
	if err != nil || json.Unmarshal(text, &got) != nil || got.Title != "LCG 106" || got.Env["A"] != "b" || got.Argv[0] != "python3" || got.Argv[4] != "/cvmfs/a.b/setup.sh" {
		t.Errorf("%s (%v)", text, err)
	}
	if logo, err := os.ReadFile(filepath.Join(dir, "kernels/lcg-106/logo-svg.svg")); string(logo) != "<svg/>" {
		t.Error("no logo", err)
	}
}

// drive starts each kernel that it is told and runs a cell in it, by Jupyter's client, with the notebook's own
// interpreter.
const drive = `
import sys, time
from jupyter_client.manager import start_new_kernel
for name in sys.argv[1:]:
    manager, client = start_new_kernel(kernel_name=name, startup_timeout=120)
    said = []
    def hear(message):
        content = message["content"]
        if message["msg_type"] == "stream":
            said.append(content["text"])
        elif message["msg_type"] == "error":
            said.append(content["ename"] + ": " + " ".join(content["traceback"]))
    client.execute_interactive("import os, sys; print(sys.prefix, os.environ.get('STACK'), os.environ.get('GIVEN'))", output_hook=hear, timeout=120)
    print("##", name, " ".join("".join(said).split()))
    client.stop_channels(); manager.shutdown_kernel(now=True)
`

// TestKernelsOfStacks is the real thing: an environment of Python on the look-alike of CVMFS, seen by a container that
// was started before it was mounted, and a cell run in it by Jupyter's client. And what the notebook shows where a
// stack does not work.
func TestKernelsOfStacks(t *testing.T) {
	testenv.Need(t, testenv.Docker, testenv.Notebook)
	a := autofs.Start(t)
	const repository = "sw.example.org"
	tree := t.TempDir()
	a.Run("docker", "run", "--rm", "--entrypoint", "sh", "--user", "0", "-v", tree+":/cvmfs/"+repository, testenv.NotebookImage, "-c",
		"python3 -m venv --without-pip /cvmfs/"+repository+"/view && echo /opt/env/lib/python3.13/site-packages >/cvmfs/"+repository+"/view/lib/python3.13/site-packages/base.pth")
	for name, text := range map[string]string{
		"setup.sh":  "echo setting up\nexport STACK=lookalike PATH=/cvmfs/" + repository + "/view/bin:$PATH\n",
		"exits.sh":  "echo this release is gone\nexit 3\n",
		"fails.sh":  "echo no such platform >&2\nfalse\n",
		"strict.sh": "set -eu\nexport STACK=$1\n",
	} {
		if err := os.WriteFile(filepath.Join(tree, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a.PublishTree(repository, tree)
	dir := filepath.Join(t.TempDir(), "jupyter")
	var stacks []control.Stack
	for name, setup := range map[string]string{"good": "setup.sh", "exits": "exits.sh", "fails": "fails.sh", "strict": "strict.sh", "gone": "gone.sh", "noprogram": "setup.sh"} {
		s := control.Stack{Name: name, Title: "Stack " + name, Setup: "/cvmfs/" + repository + "/" + setup, Python: "python3", Language: "python", Env: map[string]string{"GIVEN": "yes"}}
		if name == "noprogram" {
			s.Python = "python9"
		}
		stacks = append(stacks, s)
	}
	if err := Write(dir, stacks); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755); err != nil {
		t.Fatal(err)
	}
	a.AwaitExpiry(repository)
	cmd := exec.Command("docker", "run", "--rm", "--entrypoint", "python3", "-v", a.Dir+":/cvmfs:ro,rslave", "-v", dir+":"+dir+":ro", "-e", "JUPYTER_PATH="+dir,
		"-e", "HOME=/tmp", "--user", "1000:100", testenv.NotebookImage, "-c", drive, "good", "exits", "fails", "strict", "gone", "noprogram")
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, log.String())
	}
	at := "/cvmfs/" + repository + "/"
	for _, want := range []string{
		"## good " + at + "view lookalike yes\n",
		"## exits StackError: The kernel Stack exits could not be started: " + at + "exits.sh ended the shell with code 3 The script said: this release is gone\n",
		"## fails StackError: The kernel Stack fails could not be started: " + at + "fails.sh failed with code 1 The script said: no such platform\n",
		"## gone StackError: The kernel Stack gone could not be started: " + at + "gone.sh is not there, or may not be read: tell your administrator\n",
		"## noprogram StackError: The kernel Stack noprogram could not be started: " + at + "setup.sh brings no program python9 The script said: setting up\n",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing", want)
		}
	}
	if !strings.Contains(string(out), "## strict StackError") || !strings.Contains(log.String(), "slipway: Stack exits: ") {
		t.Error("what goes wrong is not told")
	}
	if t.Failed() {
		t.Logf("%s\n%s", out, log.String())
	}
}
