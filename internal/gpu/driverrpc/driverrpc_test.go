package driverrpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/gpu/fakegpu"
	"slipway/internal/gpu/gputest"
	"slipway/internal/testenv"
)

// TestMain is also the helper of the tests that need one with a process of its own.
func TestMain(m *testing.M) {
	if as := os.Getenv("SLIPWAY_TEST_HELPER"); as != "" {
		os.Exit(helper(as))
	}
	os.Exit(m.Run())
}

func helper(as string) int {
	switch as {
	case "simulated":
		d, err := fakegpu.New(fakegpu.Config{Models: []string{"H200/mig", "H200"}})
		if err == nil {
			fmt.Fprintln(os.Stderr, "simulated and ready")
			err = Serve(context.Background(), d, os.Stdin, os.Stdout)
		}
		if err != nil {
			return 1
		}
	case "service": // it starts a helper, says its pid, and waits to be killed
		os.Setenv("SLIPWAY_TEST_HELPER", "simulated")
		c := New(Config{Argv: []string{os.Args[0]}, Logger: quiet(), Start: func(argv []string, stderr io.Writer) (Process, error) {
			// The shell writes its own pid, and becomes the helper.
			return startProcess([]string{"/bin/sh", "-c", `echo $$ >&2; exec "$0"`, argv[0]}, os.Stdout)
		}})
		if _, err := c.System(context.Background()); err != nil {
			return 1
		}
		select {}
	}
	return 0
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// beHelper has this program be a helper when it is started again.
func beHelper(t *testing.T) {
	t.Setenv("SLIPWAY_TEST_HELPER", "simulated")
	t.Setenv("GORACE", "atexit_sleep_ms=0") // else each one waits for a second
}

// self returns a client whose helper is this program.
func self(t *testing.T, logs io.Writer) *Client {
	t.Helper()
	beHelper(t)
	c := New(Config{Argv: []string{os.Args[0]}, Logger: slog.New(slog.NewTextHandler(logs, nil))})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// inside starts helpers inside the test: talk is what one does with its input and output, and returns as it ends.
func inside(talk func(in io.Reader, out io.Writer)) func([]string, io.Writer) (Process, error) {
	return func([]string, io.Writer) (Process, error) {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		gone := make(chan struct{})
		kill := func() { _, _ = inR.CloseWithError(io.ErrClosedPipe), outW.Close() }
		go func() {
			defer close(gone)
			talk(inR, outW)
			kill()
		}()
		return Process{In: inW, Out: outR, Kill: kill, Wait: func() error {
			<-gone
			return nil
		}}, nil
	}
}

// serving is a helper with a driver.
func serving(d gpu.Driver) func([]string, io.Writer) (Process, error) {
	return inside(func(in io.Reader, out io.Writer) { _ = Serve(context.Background(), d, in, out) })
}

func host(t testing.TB, models ...string) *fakegpu.Driver {
	t.Helper()
	d, err := fakegpu.New(fakegpu.Config{Models: models, R615: true})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// crowd is a client with a way to its host behind the helper's back.
type crowd struct {
	*Client
	host *fakegpu.Driver
}

func (c crowd) Busy(uuid string, gi int) (int, func(), error) {
	const pid = 4711
	err := c.host.Occupy(uuid, fakegpu.Process{PID: pid, GI: gi, Memory: 1 << 30, Load: fakegpu.Steady(50)})
	return pid, func() { c.host.Leave(pid) }, err
}

func TestConformance(t *testing.T) {
	gputest.Run(t, func(t *testing.T) gpu.Driver {
		d := host(t, "H200", "H200/mig")
		return crowd{New(Config{Start: serving(d), Logger: quiet()}), d}
	})
}

func TestConformanceOfAProcess(t *testing.T) {
	gputest.Run(t, func(t *testing.T) gpu.Driver {
		beHelper(t)
		return New(Config{Argv: []string{os.Args[0]}, Logger: quiet()})
	})
}

// What a driver says comes over whole.
func TestSameAnswers(t *testing.T) {
	near := host(t, "H200", "A100-80/mig")
	far := New(Config{Start: serving(near), Logger: quiet()})
	defer far.Close()
	for _, d := range []struct {
		name string
		ask  func(gpu.Driver) (any, error)
	}{
		{"system", func(d gpu.Driver) (any, error) { return d.System(t.Context()) }},
		{"devices", func(d gpu.Driver) (any, error) { return d.Devices(t.Context()) }},
	} {
		want, err := d.ask(near)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.ask(far); err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("%s: %v %s", d.name, err, cmp.Diff(want, got))
		}
	}
}

func TestErrorsKeepWhatTheyAre(t *testing.T) {
	d := host(t, "H200")
	c := New(Config{Start: serving(d), Logger: quiet()})
	defer c.Close()
	for _, k := range kinds() {
		d.Fail("", fakegpu.Fault{On: fakegpu.OpSystem, Err: k.err, Times: 1})
		_, err := c.System(t.Context())
		if !errors.Is(err, k.err) {
			t.Errorf("%s comes over as %v", k.name, err)
		}
	}
	want := errs.New(errs.Missing, "open: %w", gpu.ErrNoDriver).With("install it")
	got := pack(fmt.Errorf("no use: %w", want)).unpack()
	if !errors.Is(got, gpu.ErrNoDriver) || !errs.Is(got, errs.Missing) || got.Error() != "no use: "+want.Error() {
		t.Errorf("an error with a remedy comes over as %v", got)
	}
	if got := pack(errors.New("odd")).unpack(); got.Error() != "odd" || errors.Unwrap(got) != nil {
		t.Errorf("an error without a name comes over as %v", got)
	}
}

// stuck is a driver that comes back from no call before its context ends.
type stuck struct {
	gpu.Driver
	seen chan context.Context
}

func (s stuck) Health(ctx context.Context, _ string) (gpu.Health, error) {
	s.seen <- ctx
	<-ctx.Done()
	return gpu.Health{}, ctx.Err()
}

func TestDeadlineAndCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stuck{seen: make(chan context.Context, 2)}
		c := New(Config{Start: serving(s), Logger: quiet()})
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := c.Health(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 3*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if at, ok := (<-s.seen).Deadline(); !ok || at.Sub(began) != 3*time.Second {
			t.Errorf("the driver's deadline is %v %v", at, ok)
		}
		ctx, cancel = context.WithCancel(t.Context())
		go func() {
			far := <-s.seen
			cancel()
			<-far.Done() // or the test never ends
		}()
		if _, err := c.Health(ctx, "x"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		if _, err := c.Health(ctx, "x"); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: %v", err)
		}
	})
}

func TestDeathInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stuck{Driver: host(t, "H200"), seen: make(chan context.Context, 100)}
		c := New(Config{Start: serving(s), Logger: quiet()})
		defer c.Close()
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				if _, err := c.Health(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "died") {
					t.Errorf("a call under way: %v", err)
				}
			})
		}
		synctest.Wait()
		if len(s.seen) != 50 {
			t.Fatalf("%d calls are under way at once", len(s.seen))
		}
		began := time.Now()
		c.child.process.Kill()
		calls.Wait()
		if time.Since(began) != 0 {
			t.Errorf("they fail after %s", time.Since(began))
		}
		synctest.Wait()
		if _, err := c.System(t.Context()); err == nil {
			t.Error("the next helper is started at once")
		}
		time.Sleep(farewell + firstPause)
		if s, err := c.System(t.Context()); err != nil || !s.Simulated {
			t.Errorf("after the pause: %+v, %v", s, err)
		}
	})
}

func TestPauseGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts atomic.Int32
		c := New(Config{Logger: quiet(), Start: inside(func(io.Reader, io.Writer) { starts.Add(1) })})
		defer c.Close()
		for range 600 {
			if _, err := c.System(t.Context()); err == nil {
				t.Fatal("a helper that ends at once answers")
			}
			time.Sleep(time.Second)
		}
		if n := starts.Load(); n < 20 || n > 30 { // ten minutes, at last every half a minute
			t.Errorf("it was started %d times", n)
		}
	})
}

func TestBadHelpers(t *testing.T) {
	hello := `{"id":0,"protocol":1}` + "\n"
	for _, f := range []struct{ name, says, want string }{
		{"garbage", hello + "Segmentation fault\n", "no answer"},
		{"garbage at once", "\x7fELF\x00\x00\n", "no answer"},
		{"another version", `{"id":0,"protocol":7}` + "\n", "protocol 7"},
		{"a line without end", hello + strings.Repeat("x", longestAnswer+1), "too long"},
		{"no result", hello + `{"id":1}` + "\n", "answer to system"},
		{"a result of another kind", hello + `{"id":1,"result":[1]}` + "\n", "answer to system"},
		{"an answer to nobody, and death", hello + `{"id":99,"result":{}}` + "\n", "died"},
		{"death", hello, "died"},
	} {
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := New(Config{Logger: quiet(), Start: inside(func(in io.Reader, out io.Writer) {
					_, _ = in.Read(make([]byte, 1000)) // the request
					_, _ = io.WriteString(out, f.says)
				})})
				defer c.Close()
				if _, err := c.System(t.Context()); err == nil || !strings.Contains(err.Error(), f.want) {
					t.Errorf("%v, want %q", err, f.want)
				}
			})
		})
	}
}

func TestMute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts atomic.Int32
		c := New(Config{Logger: quiet(), Mute: 10 * time.Second, Start: inside(func(in io.Reader, out io.Writer) {
			starts.Add(1)
			_, _ = io.Copy(io.Discard, in)
		})})
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		if _, err := c.System(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if _, err := c.System(t.Context()); err == nil || !strings.Contains(err.Error(), "hangs") {
			t.Errorf("a call without a deadline: %v", err)
		}
		time.Sleep(time.Second)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.System(ctx); !errors.Is(err, context.DeadlineExceeded) || starts.Load() != 2 {
			t.Errorf("after %d starts: %v", starts.Load(), err)
		}
	})
}

// A helper that reads nothing: what is written to it piles up.
func TestDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		c := New(Config{Logger: quiet(), Start: inside(func(io.Reader, io.Writer) { <-over })})
		var calls sync.WaitGroup
		for range 200 {
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := c.System(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		began := time.Now()
		if err := c.Close(); err == nil || time.Since(began) > time.Minute {
			t.Errorf("the end of one that cannot be killed, after %s: %v", time.Since(began), err)
		}
		close(over)
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stuck{seen: make(chan context.Context, 1)}
		c := New(Config{Start: serving(s), Logger: quiet()})
		go func() {
			<-s.seen
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		if _, err := c.Health(t.Context(), "x"); !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
		synctest.Wait()
		for range 2 {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := c.Health(t.Context(), "x"); !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
	})
}

func TestMissingHelper(t *testing.T) {
	for _, argv0 := range []string{filepath.Join(t.TempDir(), "slipway-gpu"), "no-such-slipway-gpu"} {
		c := New(Config{Argv: []string{argv0, "drive"}, Logger: quiet()})
		_, err := c.System(t.Context())
		if !errs.Is(err, errs.Missing) || !strings.Contains(err.Error(), "beside slipway or on PATH") || !strings.Contains(err.Error(), argv0) {
			t.Error(err)
		}
		if _, err := Find(argv0); !errs.Is(err, errs.Missing) {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if path, err := Find(filepath.Base(os.Args[0])); err != nil || path != os.Args[0] {
		t.Errorf("the program beside this one is %q, %v", path, err)
	}
}

func TestNoDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errs.New(errs.Missing, "open NVIDIA's library: %w", gpu.ErrNoDriver).With("install NVIDIA's driver")
		c := New(Config{Logger: quiet(), Start: inside(func(_ io.Reader, out io.Writer) { _ = Refuse(out, why) })})
		defer c.Close()
		for range 2 { // the second one within the pause
			_, err := c.System(t.Context())
			if !errors.Is(err, gpu.ErrNoDriver) || !errs.Is(err, errs.Missing) || !strings.Contains(err.Error(), "install NVIDIA's driver") {
				t.Error(err)
			}
			synctest.Wait()
		}
	})
}

func TestProcess(t *testing.T) {
	var logs testenv.Buffer
	c := self(t, &logs)
	if s, err := c.System(t.Context()); err != nil || !s.Simulated {
		t.Fatal(s, err)
	}
	first := c.child
	first.process.Kill()
	<-first.gone
	testenv.Until(t, "it answers after the pause", testenv.Hang, func() bool {
		_, err := c.System(t.Context())
		return err == nil
	})
	if !strings.Contains(logs.String(), `said="simulated and ready"`) {
		t.Errorf("the log is %q", logs.String())
	}
}

// A service that is killed leaves no helper behind.
func TestServiceIsKilled(t *testing.T) {
	service := exec.Command(os.Args[0])
	service.Env = append(os.Environ(), "SLIPWAY_TEST_HELPER=service")
	out, err := service.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var ready string
	if _, err := fmt.Fscanf(out, "%d\n%s", &pid, &ready); err != nil || ready != "simulated" {
		t.Fatal(ready, err)
	}
	_ = service.Process.Kill()
	_, _ = io.Copy(io.Discard, out) // ends when the helper, which has it too, is gone
	_ = service.Wait()
	testenv.Until(t, "the helper is gone", testenv.Hang, func() bool { // it closes its output a moment before
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || bytes.Contains(state, []byte(") Z "))
	})
}

func TestLogWriter(t *testing.T) {
	var logs bytes.Buffer
	w := &logWriter{log: slog.New(slog.NewTextHandler(&logs, nil))}
	for _, piece := range []string{"one ", "line\n\nanoth", "er\n", strings.Repeat("y", 2*longestWord)} {
		if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Error(n, err)
		}
	}
	for _, want := range []string{`said="one line"`, "said=another", "said=" + strings.Repeat("y", longestWord) + "\n"} {
		if !strings.Contains(logs.String(), want) {
			t.Errorf("%q is not in the log", want)
		}
	}
}
