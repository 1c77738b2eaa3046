package htcondor

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/batch"
)

// orphanDir names where a service is to be that this program becomes, to be killed.
const orphanDir = "SLIPWAY_TEST_ORPHAN"

// slowly submitting commands of HTCondor: what condor_submit has started goes on when it is killed, and submits then.
var slowCommands = map[string]string{
	"condor_token_create": "echo a.b.c",
	"condor_q":            "cat DIR/queue 2>/dev/null || echo '[]'",
	"condor_history":      "echo '[]'",
	"condor_submit": "cat > /dev/null\n" +
		"(echo submits >> DIR/log; while [ ! -e DIR/go ]; do sleep 0.1; done; mv DIR/job DIR/queue; echo 1.0 - 1.0) & wait",
}

// orphaned returns a service over the slow commands, and a launch, the same in each process.
func orphaned(t *testing.T, dir string) (*batch.Backend, spawner.Launch) {
	t.Helper()
	uid, gid := testIDs()
	b, err := New(Config{Domain: "slipway.test", Config: batch.Config{
		Dir: filepath.Join(dir, "jobs"), Bin: filepath.Join(dir, "bin"), Instance: "t1", MarkKey: []byte(testKey), PollEvery: time.Millisecond,
		Lookup: func(string) (int, int, error) { return uid, gid, nil }, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}})
	must(t, err)
	return b, spawner.Launch{
		Workload: spawner.Workload{ID: "j-1", Kind: spawner.Job, Owner: "alice", Launch: "l-1", Spec: spawner.Spec{Resources: spawner.Resources{CPUs: 1, Memory: 1 << 30}}},
		Account:  spawner.Account{UID: uid, GID: gid, Login: "alice", Home: "/home/alice"},
		Dir:      filepath.Join(dir, "work"), AgentDir: dir, Report: func(string, int) {},
	}
}

// TestOrphan: a service that is killed while it submits, and started again, does not submit what the orphaned command
// submits yet.
func TestOrphan(t *testing.T) {
	if dir := os.Getenv(orphanDir); dir != "" {
		b, l := orphaned(t, dir)
		t.Fatal("it is not killed:", b.Start(t.Context(), l))
	}
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	for name, text := range slowCommands {
		must(t, os.WriteFile(filepath.Join(dir, "bin", name), []byte("#!/bin/sh\n"+strings.ReplaceAll(text, "DIR", dir)+"\n"), 0o755))
	}
	b, l := orphaned(t, dir)
	mark := ofTests("t1").Mark("alice", string(l.ID), batch.Encode(l.Run()))
	must(t, os.WriteFile(filepath.Join(dir, "job"), fmt.Appendf(nil,
		`[{"ClusterId":1,"ProcId":0,"JobStatus":1,"Owner":"alice","SlipwayInstance":"t1","SlipwayId":"j-1","SlipwayLaunch":"%s","SlipwayMark":"%s"}]`, batch.Encode(l.Run()), mark), 0o644))
	submissions := func() int {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		return strings.Count(string(log), "submits")
	}
	killed := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOrphan$")
	killed.Env = append(os.Environ(), orphanDir+"="+dir)
	must(t, killed.Start())
	until(t, "it submits", func() bool { return submissions() == 1 })
	must(t, killed.Process.Kill())
	if err := killed.Wait(); err == nil {
		t.Error("it ended by itself")
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := b.Start(soon, l); !errs.Is(err, errs.Unavailable) || submissions() != 1 {
		t.Errorf("while the orphan runs: %v after %d submissions", err, submissions())
	}
	must(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	must(t, b.Start(t.Context(), l))
	if o, err := b.Observe(t.Context(), l.ID); err != nil || o.Existence != spawner.Queued || submissions() != 1 || recordOf(t, filepath.Join(dir, "jobs"), l.ID).Job != "1.0" {
		t.Errorf("%+v, %v after %d submissions", o, err, submissions())
	}
}
