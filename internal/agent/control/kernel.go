package control

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"slipway/internal/errs"
)

// ConnectionFile stands in the Argv of a kernel's App, as in a kernelspec, where the path of its connection file is to
// be.
const ConnectionFile = "{connection_file}"

// KernelApp says that an app is a kernel of Jupyter's. Its messages travel by the workload's kernel door, as package
// kernels/wire has them.
type KernelApp struct {
	// InterruptMode is the kernelspec's: "signal", which is meant by nothing too, or "message".
	InterruptMode string `json:"interrupt_mode,omitempty"`
	// Anew is what is to be told in the notebooks of a kernel that has run before, elsewhere. Empty: it has not.
	Anew string `json:"anew,omitempty"`
}

// KernelState is what a kernel does, as Jupyter names it.
type KernelState string

// The states of a kernel.
const (
	KernelStarting   KernelState = "starting"
	KernelIdle       KernelState = "idle"
	KernelBusy       KernelState = "busy"
	KernelRestarting KernelState = "restarting"
	KernelDead       KernelState = "dead" // for good, unless it is restarted
)

// KernelStatus is the agent's account of its kernel. It has an age, not a time: the agent's clock may be wrong.
type KernelStatus struct {
	State       KernelState `json:"state"`
	Quiet       float64     `json:"quiet"`       // seconds since its last message, or since it was started
	Connections int         `json:"connections"` // clients whose streams are open
	Restarts    int         `json:"restarts"`    // how often it was started again, asked for or not

	Hung bool `json:"hung,omitempty"` // its process does not answer its heartbeat: it is stopped, or has no processor
}

// Kernel asks what the kernel does. That the workload has none is an error of kind NotFound.
func (c Client) Kernel(ctx context.Context) (KernelStatus, error) {
	body, _, err := c.do(ctx, http.MethodGet, "/kernel", nil, 0)
	if err != nil {
		return KernelStatus{}, err
	}
	defer body.Close()
	b, err := io.ReadAll(io.LimitReader(body, maxActivity))
	if err != nil {
		return KernelStatus{}, errs.New(errs.Unavailable, "read the agent's account of its kernel: %w", err)
	}
	return parseKernelStatus(b)
}

// InterruptKernel stops what the kernel computes, which may take a while after this has returned.
func (c Client) InterruptKernel(ctx context.Context) error {
	return c.tell(ctx, http.MethodPost, "/kernel/interrupt", nil, 0)
}

// RestartKernel ends the kernel's process and starts another. It returns when that answers.
func (c Client) RestartKernel(ctx context.Context) error {
	return c.tell(ctx, http.MethodPost, "/kernel/restart", nil, 0)
}

// parseKernelStatus reads a status and takes from it what an agent may say.
func parseKernelStatus(b []byte) (KernelStatus, error) {
	var s KernelStatus
	if err := json.Unmarshal(b, &s); err != nil {
		return KernelStatus{}, errs.New(errs.Unavailable, "read the agent's account of its kernel: %w", err)
	}
	switch s.State {
	case KernelStarting, KernelIdle, KernelBusy, KernelRestarting, KernelDead:
	default:
		return KernelStatus{}, errs.New(
			errs.Unavailable, "read the agent's account of its kernel: no state %q", shorten(string(s.State), 20),
		)
	}
	s.Quiet = min(max(s.Quiet, 0), maxSeconds)
	s.Connections, s.Restarts = min(max(s.Connections, 0), maxCount), min(max(s.Restarts, 0), maxCount)
	return s, nil
}
