package local_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/internal/mounts"
	"slipway/internal/testenv/autofs"
	"slipway/spawner"
	"slipway/spawner/local"
)

// TestCVMFSInAJob: a job that was started before a repository was mounted reads it through Apptainer, as its user; it
// cannot write there; and when the job ends while it is there, nothing of it is left.
func TestCVMFSInAJob(t *testing.T) {
	w := newWorld(t)
	a := autofs.Start(t)
	a.AwaitExpiry(autofs.Repository)
	w.cfg.Mounts = []local.Mount{{Source: a.Dir, Target: "/cvmfs"}}
	w.script(t, `cd /run/slipway
cat /cvmfs/`+autofs.Repository+`/hello.txt >read 2>&1
(echo x >/cvmfs/new) 2>refused
ls /cvmfs/`+autofs.Repository+` >listed
sleep 1001 &
cd /cvmfs/`+autofs.Repository+` && exec sleep 1000
`)
	j := start(t, w, w.launch(t))
	run := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(j.Dir, "run", name))
		return strings.TrimSpace(string(b))
	}
	j.await(t, func(spawner.Observation) bool { return run("listed") != "" })
	if got := run("read"); got != "hello from "+autofs.Repository {
		t.Errorf("the job read %q", got)
	}
	if got := run("refused"); !strings.Contains(got, "Read-only") && !strings.Contains(got, "ermission denied") {
		t.Errorf("the job wrote below /cvmfs: %q", got)
	}
	pids, err := j.Processes(t.Context())
	if err != nil || len(pids) != 1 {
		t.Errorf("the processes that its backend has started are %v (%v)", pids, err)
	}
	must(t, j.Stop(t.Context(), j.ID, 0))
	a.AwaitExpiry(autofs.Repository)
}

// TestAutofsIsStartedAnewUnderAJob: a job that runs has the new autofs's repositories as it had the old one's.
func TestAutofsIsStartedAnewUnderAJob(t *testing.T) {
	w := newWorld(t)
	a := autofs.Start(t)
	w.cfg.Mounts = []local.Mount{{Source: a.Dir, Target: "/cvmfs"}}
	w.script(t, `cd /run/slipway
while :; do cat /cvmfs/`+autofs.Repository+`/hello.txt >part 2>/dev/null; mv part read; busybox sleep 0.05; done
`)
	j := start(t, w, w.launch(t))
	read := filepath.Join(j.Dir, "run", "read")
	reads := func() bool { b, _ := os.ReadFile(read); return len(b) > 0 }
	j.await(t, func(spawner.Observation) bool { return reads() })
	a.Down()
	a.Up()
	k := mounts.NewKeeper(mounts.KeeperConfig{
		Source: a.Dir, Target: "/cvmfs", Processes: j.Processes, Program: []string{w.cfg.Self, "renew-mount"}, Deadline: time.Minute,
		Every: 50 * time.Millisecond, Logger: w.cfg.Logger,
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	for range 3 { // what was written before may be of the old one
		must(t, os.RemoveAll(read))
		j.await(t, func(spawner.Observation) bool { return reads() })
	}
}

func TestOutlookForbidsAStart(t *testing.T) {
	w := newWorld(t)
	var told []string
	w.cfg.Outlook = func(context.Context) ([]string, error) {
		return []string{"CVMFS: a.b does not answer"}, errs.New(errs.Unavailable, "/cvmfs does not answer")
	}
	l := w.launch(t)
	l.Report = func(message string, _ int) { told = append(told, message) }
	if err := w.backend(t).Start(t.Context(), l); !errs.Is(err, errs.Unavailable) || len(told) != 1 {
		t.Errorf("Start = %v, told %q", err, told)
	}
}
