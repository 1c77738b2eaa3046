package local

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/internal/testenv"
	"slipway/spawner"
)

const (
	markEtcHost = "SLIPWAY_TEST_ETC_HOST"
	markEtcJob  = "SLIPWAY_TEST_ETC_JOB"
)

// TestTableReplacedOnTheHost: a job knows its account also when the host's table of users is replaced while it starts,
// as useradd does, and has what is mounted below /etc. It has a host of its own for that: a namespace with a copy of
// /etc.
func TestTableReplacedOnTheHost(t *testing.T) {
	switch {
	case os.Getenv(markEtcJob) != "":
		etcOfAJob(t)
	case os.Getenv(markEtcHost) != "":
		etcOfAHost(t)
	default:
		testenv.Need(t, testenv.Root)
		if out, err := etcNamespace(t, markEtcHost).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}

func must(t *testing.T, all ...error) {
	t.Helper()
	if err := errors.Join(all...); err != nil {
		t.Fatal(err)
	}
}

// etcNamespace is this test once more, in a mount namespace of its own.
func etcNamespace(t *testing.T, mark string) *exec.Cmd {
	c := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), mark+"=1")
	return c
}

func etcOfAHost(t *testing.T) {
	mine := t.TempDir()
	for _, name := range []string{"passwd", "group", "hosts"} {
		text, err := os.ReadFile(filepath.Join("/etc", name))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(mine, name), text, 0o644))
	}
	must(t, os.Mkdir(filepath.Join(mine, "a b"), 0o755), os.Mkdir(filepath.Join(mine, "kept"), 0o755))
	must(t, unix.Mount(mine, "/etc", "", unix.MS_BIND, ""))
	must(t, unix.Mount("slipway", "/etc/a b", "tmpfs", 0, ""), os.WriteFile("/etc/a b/mounted", []byte("yes"), 0o644))
	t.Cleanup(func() { must(t, unix.Unmount("/etc/a b", 0)) })
	job := etcNamespace(t, markEtcJob)
	to, err := job.StdinPipe()
	must(t, err)
	from, err := job.StdoutPipe()
	must(t, err)
	job.Stderr = os.Stderr
	must(t, job.Start())
	said := bufio.NewScanner(from)
	for said.Scan() && said.Text() != "introduced" {
		fmt.Println(said.Text())
	}
	must(t, os.WriteFile("/etc/new", []byte("root:x:0:0::/:/bin/sh\n"), 0o644), os.Rename("/etc/new", "/etc/passwd"))
	must(t, to.Close())
	for said.Scan() {
		fmt.Println(said.Text())
	}
	if err := job.Wait(); err != nil {
		t.Error(err)
	}
}

func etcOfAJob(t *testing.T) {
	must(t, os.MkdirAll(stage, 0o755), unix.Mount("slipway", stage, "tmpfs", 0, "mode=755"))
	must(t, plan{Account: spawner.Account{Login: "alice", UID: 20000, GID: 100, Home: "/home/alice"}}.introduce())
	fmt.Println("introduced")
	_, err := io.Copy(io.Discard, os.Stdin)
	must(t, err)
	users, err := os.ReadFile("/etc/passwd")
	must(t, err)
	if !strings.HasPrefix(string(users), "alice:x:20000:100::/home/alice:/bin/sh\nroot:") {
		t.Errorf("the job's table of users:\n%s", users)
	}
	for name, want := range map[string]string{"a b/mounted": "yes", "hosts": "localhost"} {
		if text, err := os.ReadFile(filepath.Join("/etc", name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("/etc/%s: %q, %v", name, text, err)
		}
	}
	if err := os.WriteFile("/etc/kept/x", nil, 0o644); err == nil {
		t.Error("/etc can be written to")
	}
}
