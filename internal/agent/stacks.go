package agent

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/agent/kernelspecs"
	"slipway/internal/agent/stack"
	"slipway/internal/tunnel"
)

// withStacks writes the kernels of software stacks, and has the app's environment name them after what it names
// already.
func withStacks(env []string, dir string, stacks []control.Stack) ([]string, error) {
	if err := stack.Write(dir, stacks); err != nil {
		return nil, err
	}
	return withKernelsIn(env, dir), nil
}

// withKernelsIn has an environment name a directory to Jupyter after what it names already.
func withKernelsIn(env []string, dir string) []string { return withPath(env, "JUPYTER_PATH", dir) }

// withPath adds a directory at the end of a variable that lists some.
func withPath(env []string, name, dir string) []string {
	paths := variable(env, name)
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	return append(env, name+"="+strings.TrimPrefix(paths+":"+dir, ":"))
}

const slicesEvery = time.Minute // between two looks at the kernels that the service has

// keepSlices keeps the kernels on slices where Jupyter looks for them, and has both environments name them. In the
// app's the session's own kernel is the one that a new notebook starts.
func (s *supervisor) keepSlices(env []string) []string {
	a, dir := s.agent, filepath.Join(s.agent.cfg.JupyterDir, "slices")
	if err := kernelspecs.WriteSettings(dir); err != nil {
		a.log.Warn("JupyterLab asks for the kernel of each new notebook", "error", err)
	}
	a.work.Go(func() {
		kernelspecs.Keep(a.ctx, kernelspecs.Config{
			Dir: dir, Program: filepath.Join(a.cfg.BinDir, filepath.Base(control.Program)), Every: slicesEvery,
			Logger: a.log,
			Dial:   func(ctx context.Context) (net.Conn, error) { return a.uplink.Open(ctx, tunnel.DoorAPI) },
		})
	})
	s.others = withKernelsIn(s.others, dir)
	return withPath(withKernelsIn(env, dir), "JUPYTER_CONFIG_PATH", kernelspecs.ConfigDir(dir))
}
