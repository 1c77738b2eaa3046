package engine

import "slipway/internal/agent/control"

// kernelApp is what the agent of a kernel is to know of it. One that has run before has lost its place there, and all
// that it had in memory.
func (e *Entry) kernelApp() *control.KernelApp {
	app := &control.KernelApp{InterruptMode: e.Spec.Interrupt}
	if e.Moves == 0 || e.Up.IsZero() {
		return app
	}
	where := "elsewhere"
	if e.Host != "" {
		where = "on " + e.Host
	}
	app.Anew = "this kernel has lost its place, which was needed for something else or failed, and has begun anew " + where +
		": its variables are gone. Run the cells that you need again"
	return app
}
