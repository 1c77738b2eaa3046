package agent

import (
	"bytes"
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/agent/control"
	"slipway/internal/agent/process"
	"slipway/internal/testenv"
)

// As the first process the agent takes orphans, takes no end of the app's away, and leaves no process behind.
func TestFirstProcess(t *testing.T) {
	testenv.Need(t, testenv.Root)
	for i, test := range []struct{ line, want string }{
		{"for i in 1 2 3 4 5; do (setsid sh -c 'exit 0' &); done; exit 7", "code 7, 0 zombies"},
		{"setsid sleep 600 & exit 0", "code 0, 0 zombies"},
		{"no-such-program-at-all", "code 127, 0 zombies"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Hang)
		defer cancel()
		c := exec.CommandContext(ctx, os.Args[0])
		c.Env = append(os.Environ(), "SLIPWAY_TEST_PLAY=first", "SLIPWAY_TEST_LINE="+test.line)
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
		out, err := c.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte(test.want)) {
			t.Errorf("%d: want %q: %v\n%s", i, test.want, err, out)
		}
	}
}

// What a process used stays counted, once, whoever took its end: its parent, or the agent because the parent had gone
// before.
func TestFirstProcessCountsCPU(t *testing.T) {
	testenv.Need(t, testenv.Root)
	const line = `export SLIPWAY_TEST_PLAY=burn; "$EXE"; (setsid sh -c '"$EXE"; touch done' &); while [ ! -e done ]; do sleep 0.2; done`
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), "SLIPWAY_TEST_PLAY=first", "SLIPWAY_TEST_LINE="+line, "EXE="+executable(t))
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, after, _ := strings.Cut(string(out), "cpu ")
	cpu, err := strconv.ParseFloat(strings.TrimSpace(after), 64)
	if err != nil || cpu < 2*burnt-0.1 || cpu > 4*burnt-0.1 {
		t.Errorf("two programs that use %v s each: %s", burnt, out)
	}
}

// Where the agent is not the first process it stands in for one: nothing that it has begun outlives it.
func TestStandsIn(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Hang)
	defer cancel()
	c := exec.CommandContext(ctx, os.Args[0])
	c.Env = append(os.Environ(), "SLIPWAY_TEST_PLAY=stand-in")
	c.WaitDelay = time.Second // what has been left holds the output
	if out, err := c.CombinedOutput(); err != nil || string(out) != "code 3, 0 left\n" {
		t.Errorf("%s, %v", out, err)
	}
}

func playStandIn() {
	r := process.NewReaper(process.BecomeSubreaper())
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { r.Run(ctx) })
	_, done, err := r.Begin("/bin/sh", []string{"sh", "-c", "setsid sleep 600 & (setsid sh -c 'sleep 600 & sleep 600' &); exit 3"},
		&syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}}, false)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	e := <-done
	r.KillAll(closeTime)
	fmt.Printf("code %d, %d left\n", e.Status.ExitStatus(), len(process.Below(process.List("/proc"), os.Getpid())))
	cancel()
	work.Wait()
}

func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// playFirst is an agent as PID 1 that is given one line of shell, without a service.
func playFirst() int {
	if err := syscall.Mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC, ""); err != nil {
		fmt.Println(err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		fmt.Println(err)
		return 1
	}
	dir, err := os.MkdirTemp("/tmp", "first")
	if err != nil {
		return 1
	}
	defer os.RemoveAll(dir)
	cfg := configIn(dir)
	cfg.Env = os.Environ()
	cfg.complete()
	meter := process.NewCPUMeter("/proc", os.Getpid(), process.Alone("/proc", os.Getpid(), os.Getppid()))
	_ = os.Mkdir(cfg.WorkDir, 0o700)
	a := &agent{cfg: cfg, log: slog.New(slog.DiscardHandler), reaper: process.NewReaper(os.Getpid() == 1)}
	a.app, a.rounds = newSupervisor(a), &rounds{agent: a}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a.ctx = ctx
	a.work.Go(func() { a.reaper.Run(ctx) })
	app := shell(os.Getenv("SLIPWAY_TEST_LINE"))
	app.Launch = "l1"
	if err := a.app.launch(app); err != nil {
		fmt.Println(err)
	}
	<-a.app.over
	left := settle()
	st, _ := a.app.now()
	fmt.Printf("code %d, %d zombies\ncpu %v\n", st.ExitCode, left, meter.Seconds())
	a.app.end()
	sleep := func() (<-chan process.Exit, error) {
		_, done, err := a.reaper.Start("/bin/sleep", []string{"sleep", "600"}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
		return done, err
	}
	done, err := sleep()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	a.work.Go(func() { <-done }) // who waits hears of the end that comes last
	a.reaper.KillAll(closeTime)
	if _, err := sleep(); err == nil {
		fmt.Println("something is started at the end")
		return 1
	}
	cancel()
	a.work.Wait()
	return 0
}

// settle counts the zombies, again and again until there is none.
func settle() int {
	for end := time.Now().Add(testenv.Hang); ; {
		n := zombies()
		if n == 0 || time.Now().After(end) {
			return n
		}
	}
}

func zombies() (n int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, p := range stats {
		if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte(") Z ")) {
			n++
		}
	}
	return n
}

func TestMemory(t *testing.T) {
	for _, test := range []struct {
		files map[string]string
		want  string
	}{
		{map[string]string{"memory.events": "low 0\noom 1\noom_kill 2\n", "memory.max": "2147483648\n"}, "out of memory (limit 2.0 GB)"},
		{map[string]string{"memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", "memory/memory.limit_in_bytes": "1073741824\n"}, "out of memory (limit 1.0 GB)"},
		{map[string]string{"memory.events": "oom_kill 2\n", "memory.max": "max\n"}, ""},
		{map[string]string{"memory.events": "oom_kill 0\n", "memory.max": "2147483648\n"}, ""},
		{nil, ""},
	} {
		root := t.TempDir()
		for name, text := range test.files {
			_ = os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755)
			if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := process.ReadMemory(root).Exceeded(process.Memory{}); got != test.want {
			t.Errorf("%v: %q, want %q", test.files, got, test.want)
		}
	}
}

func TestEnviron(t *testing.T) {
	cfg := Config{APISocket: "/s", BinDir: "/b", Progress: "/p", Env: []string{"A=agent", "B=agent", control.IDEnv + "=s-1"}}
	env, err := environ(cfg, control.App{Env: control.Env{"B": "app", control.IDEnv: "forged", control.ProgressEnv: "/x", "PATH": "/b:/x"}}, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	want := "A=agent B=app PATH=/b:/x SLIPWAY_ID=s-1 SLIPWAY_PROGRESS=/p SLIPWAY_SOCKET=/s"
	if got := strings.Join(env, " "); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	for _, bad := range []control.App{
		{Env: control.Env{"A=B": "x"}}, {Env: control.Env{"A": "x\x00"}},
		{HTTP: true, Env: control.Env{"JUPYTERHUB_API_URL": "not a url"}},
		{HTTP: true, Env: control.Env{"JUPYTERHUB_EVENTS_URL": "/only/a/path"}},
	} {
		if _, err := environ(cfg, bad, 1, "127.0.0.1:2"); err == nil {
			t.Error("bad environment: no error")
		}
	}
}

// TestEnvironOfASlice: the driver's files are found last, so what the image or the user brings along goes first.
// What is the app's alone is no other program's.
func TestWithoutApps(t *testing.T) {
	env := []string{"JUPYTERHUB_API_TOKEN=hush", "JPY_API_TOKEN=hush", "A=JUPYTERHUB_X", "PASSWORD=hush", "SHLVL=7", "JUPYTER=1", "_=/bin/env", "PWD=/"}
	if diff := cmp.Diff([]string{"A=JUPYTERHUB_X", "JUPYTER=1"}, withoutApps(env)); diff != "" {
		t.Error(diff)
	}
}

// TestPortOfAnAppIsNobodyElses: the app takes its port seconds after it was found. The agent's own relay was given it
// once, and answered in the app's place.
func TestPortOfAnAppIsNobodyElses(t *testing.T) {
	data, err := os.ReadFile(portRange)
	if err != nil {
		t.Fatal(err)
	}
	var low, high int
	if _, err := fmt.Sscan(string(data), &low, &high); err != nil {
		t.Fatal(err)
	}
	if low <= 2*lowestPort {
		t.Skipf("the kernel chooses from %d on: nothing is left below", low)
	}
	seen := map[int]bool{}
	for range 50 {
		port, err := freePort()
		if err != nil || port < lowestPort || port >= low {
			t.Fatalf("freePort() = %d, %v, want one below %d", port, err, low)
		}
		seen[port] = true
	}
	if len(seen) < 2 {
		t.Error("each app has the same port")
	}
}

func TestEnvironOfASlice(t *testing.T) {
	for path, want := range map[string]string{"": control.GPULibDir, "/cuda/compat": "/cuda/compat:" + control.GPULibDir} {
		cfg := Config{APISocket: "/s", BinDir: "/b", Env: []string{control.GPUDirEnv + "=" + control.GPUDir, "PATH=/x", "LD_LIBRARY_PATH=" + path}}
		env, err := environ(cfg, control.App{}, 0, "")
		if got := variable(env, "LD_LIBRARY_PATH"); err != nil || got != want {
			t.Errorf("LD_LIBRARY_PATH = %q, %v, want %q", got, err, want)
		}
		if got := variable(env, "PATH"); got != "/x:/b:"+control.GPUBinDir {
			t.Errorf("PATH = %q", got)
		}
	}
}

// The environment that an Outpost's Hub sends: the app gets no way past the relay, no certificates, no tunnel; what
// browsers use is left alone.
func TestEnvironOfAnOutpost(t *testing.T) {
	const user = "/users/alice%40x/"
	env, err := environ(Config{BinDir: "/b", APISocket: "/s"}, control.App{HTTP: true, Env: control.Env{
		"JUPYTERHUB_SERVICE_URL":     "https://0.0.0.0:8080/user/alice@x/lab/",
		"JUPYTERHUB_SERVICE_PREFIX":  "/base/user/alice%40x/lab/",
		"JUPYTERHUB_API_URL":         "https://hub.example.org/hub/api",
		"JUPYTERHUB_ACTIVITY_URL":    "https://hub.example.org/hub/api" + user + "activity",
		"JUPYTERHUB_EVENTS_URL":      "https://u:p@hub.example.org:8443/hub/api" + user + "progress/events/lab?x=1",
		"JUPYTERHUB_SETUPTUNNEL_URL": "https://hub.example.org/hub/api" + user + "setuptunnel/lab",
		"JUPYTERHUB_PUBLIC_HUB_URL":  "https://hub.example.org/hub/",
		"JUPYTERHUB_SSL_KEYFILE":     "/k", "JUPYTERHUB_SSL_CERTFILE": "/c", "JUPYTERHUB_SSL_CLIENT_CA": "/ca",
	}}, 7, "127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"JUPYTERHUB_ACTIVITY_URL=http://127.0.0.1:9/hub/api" + user + "activity",
		"JUPYTERHUB_API_URL=http://127.0.0.1:9/hub/api",
		"JUPYTERHUB_EVENTS_URL=http://127.0.0.1:9/hub/api" + user + "progress/events/lab?x=1",
		"JUPYTERHUB_PUBLIC_HUB_URL=https://hub.example.org/hub/",
		"JUPYTERHUB_SERVICE_PREFIX=/base/user/alice%40x/lab/",
		"JUPYTERHUB_SERVICE_URL=http://127.0.0.1:7/user/alice@x/lab/",
		"PATH=" + usualPath + ":/b",
		"SLIPWAY_SOCKET=/s",
	}
	if diff := cmp.Diff(want, env); diff != "" {
		t.Error(diff)
	}
	if j := newJupyter(env, "127.0.0.1:7"); j.base != "http://127.0.0.1:7/base/user/alice%40x/lab/" {
		t.Errorf("the app's API is looked for at %s", j.base)
	}
}

// The agent is bound into every workload: what it is built of stays little.
func TestImports(t *testing.T) {
	allowed := []string{"github.com/coder/websocket", "github.com/hashicorp/yamux", "golang.org/x/sys/", "golang.org/x/crypto/ssh", "github.com/pkg/sftp"}
	seen := map[string]bool{}
	var walk func(pkg string)
	walk = func(pkg string) {
		if seen[pkg] {
			return
		}
		seen[pkg] = true
		files, err := filepath.Glob(filepath.Join("../..", strings.TrimPrefix(pkg, "slipway/"), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files of %s: %v", pkg, err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range parsed.Imports {
				path, _ := strconv.Unquote(i.Path.Value)
				switch first, _, _ := strings.Cut(path, "/"); {
				case first == "slipway":
					walk(path)
				case path == "C":
					t.Errorf("%s imports C", f)
				case strings.Contains(first, "."):
					ok := false
					for _, a := range allowed {
						ok = ok || strings.HasPrefix(path, a)
					}
					if !ok {
						t.Errorf("%s imports %s", f, path)
					}
				}
			}
		}
	}
	walk("slipway/internal/agent")
	if !seen["slipway/internal/tunnel"] || !seen["slipway/internal/agent/control"] {
		t.Errorf("the walk went only over %v", seen)
	}
}
