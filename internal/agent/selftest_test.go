package agent

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

// tested is an app with a self-test of one line.
func tested(line string, app control.App) control.App {
	app.SelfTest = &control.SelfTest{Argv: []string{"sh", "-c", line}}
	return app
}

// A fault keeps the app from starting, whatever form it has.
func TestSelfTestFinds(t *testing.T) {
	for name, test := range map[string]struct {
		line  string
		fault string // its beginning
		log   string // a part
	}{
		"a fault":                {`echo table; echo "failed: memory limit: none" >&2; exit 1`, "memory limit: none", "table\nfailed: memory limit: none\nslipway: the self-test has failed after"},
		"a crash":                {"echo fatal error: unexpected signal; echo r15 0x0; exit 2", "the self-test has crashed: fatal error: unexpected signal", "r15"},
		"a signal":               {"kill -SEGV $$", "the self-test has crashed: ended by signal 11", ""},
		"no end":                 {"echo started; sleep 600", "the self-test had not ended after 200ms", "started"},
		"no end, and what it is": {`trap 'echo "failed: kernel: no answer"; exit 1' TERM; sleep 600 & wait`, "kernel: no answer", ""},
		"no end at all":          {`trap "" TERM; while :; do sleep 600; done`, "the self-test had not ended after 200ms", ""},
		"a flood":                {`yes | head -c 1000000; exit 2`, "the self-test has crashed: y", "y\ny\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			app := tested(test.line, shell("echo the app runs"))
			if app.SelfTest.Timeout = time.Minute; strings.HasPrefix(name, "no end") {
				app.SelfTest.Timeout = 200 * time.Millisecond
			}
			st := r.launch(t, app, control.Exited)
			if !strings.HasPrefix(st.Fault, test.fault) || !strings.HasSuffix(st.Reason, st.Fault) || st.ExitCode != 126 {
				t.Errorf("%+v", st)
			}
			log := r.log(t, 0, true)
			if !strings.Contains(log, test.log) || strings.Contains(log, "the app runs") || len(log) > selfTestText+1000 {
				t.Errorf("log: %.200q (%d bytes)", log, len(log))
			}
			// An app that has exited lets the agent end at once: its link may close before the answer is out.
			if err := r.client.End(t.Context()); err != nil && !errs.Is(err, errs.Unavailable) {
				t.Error(err)
			}
		})
	}
}

// What could not be tested is no fault, unless it must be.
func TestSelfTestCannotRun(t *testing.T) {
	notELF := filepath.Join(t.TempDir(), "noise")
	if err := os.WriteFile(notELF, []byte("\x00noise"), 0o755); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(t.TempDir(), "foreign")
	if err := os.WriteFile(foreign, []byte("#!/lib/ld-other-libc.so.1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	strange := otherLoader(t)
	for name, test := range map[string]struct {
		argv []string
		says string
	}{
		"nothing to test":       {[]string{"sh", "-c", "echo nothing to test: no library; exit 77"}, "nothing to test: no library"},
		"another libc":          {[]string{"sh", "-c", "echo \"slipway-gpu: version 'GLIBC_2.38' not found\" >&2; exit 1"}, "it cannot run in this image: code 1: slipway-gpu: version 'GLIBC_2.38' not found"},
		"a library missing":     {[]string{"sh", "-c", "echo libc.so.6: cannot open >&2; exit 127"}, "code 127"},
		"no program":            {[]string{"/run/none/slipway-gpu", "selftest"}, `cannot run "/run/none/slipway-gpu"`},
		"no loader":             {[]string{foreign}, "the interpreter that it names is missing"},
		"no loader of its libc": {[]string{strange, "-c", "true"}, "the interpreter that it names is missing"},
		"no program by format":  {[]string{notELF}, "built for this machine"},
		"nothing named":         {nil, "no program is named"},
	} {
		t.Run(name, func(t *testing.T) {
			app := shell("echo the app runs")
			app.SelfTest = &control.SelfTest{Argv: test.argv}
			r := newRig(t)
			if st := r.launch(t, app, control.Exited); st.Fault != "" || st.ExitCode != 0 {
				t.Errorf("%+v", st)
			}
			if log := r.log(t, 0, true); log != "the app runs\n" {
				t.Errorf("log: %q", log)
			}
			app.SelfTest.Required = true
			must := newRig(t)
			if st := must.launch(t, app, control.Exited); !strings.Contains(st.Fault, test.says) {
				t.Errorf("required: %+v", st)
			}
		})
	}
}

// otherLoader makes a program that asks for the dynamic loader of a libc which is not here, as one for glibc does in an
// image with musl.
func otherLoader(t *testing.T) string {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(sh)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(text, []byte("/ld-"), []byte("/no-"), 1)
	if bytes.Equal(changed, text) {
		t.Fatalf("%s asks for no dynamic loader", sh)
	}
	path := filepath.Join(t.TempDir(), "strange")
	if err := os.WriteFile(path, changed, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// A sound test leaves a line in a session's log and none in a job's, and sees of the environment what concerns GPUs
// alone.
func TestSelfTestPasses(t *testing.T) {
	env := control.Env{"CUDA_VISIBLE_DEVICES": "MIG-1", "SLIPWAY_GPU_EXPECT": "{}", "JUPYTERHUB_API_TOKEN": "secret"}
	const line = `[ "$CUDA_VISIBLE_DEVICES$SLIPWAY_GPU_EXPECT$SLIPWAY_ID" = "MIG-1{}` + workload + `" ] && [ -z "$JUPYTERHUB_API_TOKEN" ] || { echo "failed: $(env)"; exit 1; }; echo table`
	job := shell("echo payload $JUPYTERHUB_API_TOKEN")
	job.Env = env
	r := newRig(t)
	if st := r.launch(t, tested(line, job), control.Exited); st.Fault != "" || st.ExitCode != 0 {
		t.Errorf("%+v", st)
	}
	if log := r.log(t, 0, true); log != "payload secret\n" {
		t.Errorf("a job's log: %q", log)
	}
	session := play("web", env)
	session.HTTP, session.Ready = true, "/user/alice/api"
	session.Env["JUPYTERHUB_SERVICE_URL"] = "http://0.0.0.0:8888/user/alice/"
	s := newRig(t)
	s.launch(t, tested(line, session), control.Ready)
	if log := s.log(t, 0, false); !strings.HasPrefix(log, "slipway: the self-test took ") || strings.Contains(log, "table") {
		t.Errorf("a session's log: %q", log)
	}
}

// An app that cannot be started after its test ends its log, and one whose log cannot be made is not tested.
func TestSelfTestThenNoApp(t *testing.T) {
	r := newRig(t)
	st := r.launch(t, tested("true", control.App{Argv: []string{"no-such-program"}}), control.Exited)
	if st.Fault != "" || st.ExitCode != 127 {
		t.Errorf("%+v", st)
	}
	if log := r.log(t, 0, true); log != "" {
		t.Errorf("log: %q", log)
	}
	none := newRig(t, func(c *Config) { c.LogFile = filepath.Join(c.LogFile, "below", "a", "file") })
	if st := none.launch(t, tested("exit 2", shell("true")), control.Exited); st.Fault != "" || !strings.Contains(st.Reason, "open the app's log") {
		t.Errorf("%+v", st)
	}
}

// The launch answers while the test runs, a repeated one is harmless then, and the end of the agent ends the test.
func TestEndDuringSelfTest(t *testing.T) {
	r := newRig(t)
	app := tested("echo $$ > pid; exec sleep 600", shell("echo the app runs"))
	r.launch(t, app, control.Starting)
	app.Launch = "l1"
	if err := r.client.Launch(t.Context(), app); err != nil {
		t.Error(err)
	}
	pid := 0
	eventually(t, "the test starts", func() bool {
		b, err := os.ReadFile(filepath.Join(r.cfg.WorkDir, "pid"))
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		}
		return err == nil
	})
	if err := r.client.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := <-r.done
	r.done <- err
	if e, ok := err.(*ExitError); !ok || e.Code != endedByTerm {
		t.Errorf("the agent ended with %v", err)
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("the test still runs: %v", err)
	}
}

func TestJudgeSelfTest(t *testing.T) {
	code := func(n int) syscall.WaitStatus { return syscall.WaitStatus(n << 8) }
	for name, test := range map[string]struct {
		status syscall.WaitStatus
		said   string
		late   bool
		fault  string
		note   bool
	}{
		"sound":                     {code(0), "all is well", false, "", false},
		"sound, whatever it says":   {code(0), "failed: no", false, "", false},
		"a fault":                   {code(1), "a\nfailed: b\n\n", false, "b", false},
		"not the last line":         {code(1), "failed: b\nand then", false, "", true},
		"says nothing":              {code(1), "", false, "", true},
		"usage":                     {code(64), "failed: b", false, "", true},
		"nothing":                   {code(77), "", false, "", true},
		"killed by somebody":        {syscall.WaitStatus(9), "", false, "the self-test has crashed: ended by signal 9 (killed)", false},
		"late":                      {syscall.WaitStatus(15), "x", true, "the self-test had not ended after 1s", false},
		"late, and says what it is": {code(1), "failed: kernel", true, "kernel", false},
	} {
		fault, note := judgeSelfTest(test.status, test.said, test.late, time.Second)
		if fault != test.fault || note != "" != test.note && test.status.ExitStatus() != nothingToTest {
			t.Errorf("%s: fault %q, note %q", name, fault, note)
		}
	}
}
