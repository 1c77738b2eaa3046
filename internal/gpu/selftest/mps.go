package selftest

import (
	"errors"
	"net"
	"path/filepath"
	"syscall"
	"time"

	"slipway/internal/gpu"
)

const (
	pipeEnv   = "CUDA_MPS_PIPE_DIRECTORY"
	mpsRemedy = "restart the MPS daemon of the GPU: without it a program may have the whole GPU, or none"
)

// mps checks that the MPS daemon can be reached, where the slice is a share of one: a client that does not reach it
// gets the whole GPU without a word.
func (b *bench) mps() outcome {
	dir, set := b.env(pipeEnv)
	process := b.cfg.Expect != nil && b.cfg.Expect.Tier == gpu.Process
	switch {
	case !set && !process:
		return skipped("not a share by MPS")
	case !set:
		return failed(
			"the binding of the slice is at fault: "+pipeEnv+" names the daemon's directory", "%s is not set", pipeEnv,
		)
	}
	if err := dialControl(filepath.Join(b.path(dir), "control")); err != nil {
		return failed(mpsRemedy, "%v", err)
	}
	return ok("its daemon answers in %s", dir)
}

// dialControl finds out whether anybody listens on the daemon's socket, of either kind that sockets with connections
// have.
func dialControl(path string) error {
	var all error
	for _, network := range []string{"unix", "unixpacket"} {
		c, err := net.DialTimeout(network, path, 2*time.Second)
		if err == nil {
			return c.Close()
		}
		if !errors.Is(err, syscall.EPROTOTYPE) {
			return err
		}
		all = errors.Join(all, err)
	}
	return all
}
