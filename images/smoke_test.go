package images

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"slipway/images/records"
	"slipway/images/trial"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// withPython makes a tree in which there is something that looks like an interpreter.
func withPython(root string) error {
	program := filepath.Join(root, "usr/bin/python3.13")
	return errors.Join(write(program, "x"), os.Chmod(program, 0o755), os.Symlink("python3.13", filepath.Join(root, "usr/bin/python3")))
}

const smokeAnswer = `slipway-smoke: {"python": "3.13.5", "modules": 2, "failures": [{"module": "torch", "kind": "error", "message": "ImportError: libcudart.so.12: cannot open"}]}`

// tries plays what runs commands in environments.
type tries struct {
	calls chan trial.Command
	err   error
	hold  chan struct{}
}

func (r *tries) try(ctx context.Context, t trial.Command) ([]byte, error) {
	r.calls <- t
	if r.hold != nil {
		select {
		case <-r.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return []byte(smokeAnswer), r.err
}

// running runs a library until the test, or the caller, ends it.
func running(t *testing.T, l *Library) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func importing(modules ...string) func(*Request) {
	return func(r *Request) { r.Use.Imported = map[string][]string{"/usr/bin/python3": modules} }
}

func useOf(t *testing.T, l *Library, digest string) records.Use {
	t.Helper()
	e, err := l.Records.Get("alice", digest)
	must(t, err)
	return e.Use
}

// TestImportsAreTried: once for each set of modules, behind the freeze, and what came of it stays with the owner.
func TestImportsAreTried(t *testing.T) {
	f := newFixture(t, withPython)
	f.change(func(root string) error { return write(filepath.Join(root, "opt/x"), "x") })
	r := &tries{calls: make(chan trial.Command, 10)}
	l := openLibrary(t, Config{Dir: t.TempDir() + "/l", Try: r.try})
	stop := running(t, l)
	e := freeze(t, l, f, importing("torch", "numpy"))
	if !e.Use.Waiting {
		t.Errorf("just frozen: %+v", e.Use)
	}
	call := <-r.calls
	if call.Owner != "alice" || call.Image != l.dir.Image(e.Digest) || !slices.Equal(call.Argv[len(call.Argv)-2:], []string{"numpy", "torch"}) || call.Argv[0] != "/usr/bin/python3" {
		t.Errorf("%+v", call)
	}
	freeze(t, l, f, importing("torch")) // nothing new
	if e = freeze(t, l, f, importing("scipy")); !e.Unchanged {
		t.Error("it has changed")
	}
	for call = range r.calls { // the first may have found scipy already
		if slices.Contains(call.Argv, "scipy") {
			break
		}
	}
	testenv.Until(t, "what came of it is written down", testenv.Hang, func() bool { return !useOf(t, l, e.Digest).Waiting })
	stop()
	u := useOf(t, l, e.Digest)
	if u.Waiting || u.Tried.IsZero() || len(u.Attempts) != 1 || len(u.Attempts[0].Result.Failures) != 1 || u.Attempts[0].Python != "/usr/bin/python3" {
		t.Errorf("%+v", u)
	}
	if got := u.Attempts[0].Result.Lines(); !slices.Equal(got, []string{"cannot import torch: libcudart.so.12: cannot open (tried without a GPU)"}) {
		t.Errorf("%q", got)
	}
	if len(r.calls) > 0 {
		t.Error("it was tried more often than there was something new")
	}
}

// TestImportsAreTriedAfterRestart: a trial that the end of the service has cut off, and one for which there was no
// Apptainer.
func TestImportsAreTriedAfterRestart(t *testing.T) {
	f := newFixture(t, withPython)
	dir := t.TempDir() + "/l"
	r := &tries{calls: make(chan trial.Command, 10), hold: make(chan struct{})}
	l := openLibrary(t, Config{Dir: dir, Try: r.try})
	stop := running(t, l)
	e := freeze(t, l, f, importing("numpy"))
	<-r.calls
	stop()
	must(t, l.Close())
	missing := &tries{calls: make(chan trial.Command, 10), err: errs.New(errs.Missing, "no Apptainer here")}
	l = openLibrary(t, Config{Dir: dir, Try: missing.try})
	stop = running(t, l)
	<-missing.calls
	stop()
	if u := useOf(t, l, e.Digest); !u.Waiting || len(u.Attempts) > 0 {
		t.Errorf("%+v", u)
	}
	must(t, l.Close())
	r.hold = nil
	l = openLibrary(t, Config{Dir: dir, Try: r.try})
	stop = running(t, l)
	<-r.calls
	testenv.Until(t, "what came of it is written down", testenv.Hang, func() bool { return !useOf(t, l, e.Digest).Waiting })
	stop()
	if u := useOf(t, l, e.Digest); u.Waiting || len(u.Attempts) != 1 {
		t.Errorf("%+v", u)
	}
}

// TestImportsThatCannotBeTried: it is said why, and nothing is run.
func TestImportsThatCannotBeTried(t *testing.T) {
	f := newFixture(t, withPython)
	r := &tries{calls: make(chan trial.Command, 10), err: errs.New(errs.Unavailable, "time limit reached")}
	l := openLibrary(t, Config{Dir: t.TempDir() + "/l", Try: r.try})
	e := freeze(t, l, f, func(q *Request) {
		q.Use.Imported = map[string][]string{"/home/alice/venv/bin/python": {"numpy"}, "/usr/bin/python3": {"numpy"}, "": {"_x"}}
	})
	_, err := l.About(t.Context(), e.Digest)
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var trials sync.WaitGroup
	trials.Go(func() { l.trials.Run(ctx) })
	testenv.Until(t, "the imports are tried", testenv.Hang, func() bool { return len(useOf(t, l, e.Digest).Attempts) > 0 })
	stop()
	trials.Wait()
	u := useOf(t, l, e.Digest)
	if len(u.Attempts) != 3 || u.Attempts[0].Why != "" || !strings.Contains(u.Attempts[1].Why, "is not in the environment") || u.Attempts[2].Why != "time limit reached" {
		t.Errorf("%+v", u)
	}
	if len(r.calls) != 1 {
		t.Errorf("%d were run", len(r.calls))
	}
}
