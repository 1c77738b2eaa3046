package launch

import (
	"maps"

	"slipway/internal/agent/control"
	"slipway/spawner"
)

// App returns what a workload's agent is to run.
func (m *Maker) App(w spawner.Workload, account spawner.Account, secrets control.Env) control.App {
	app := control.App{
		Launch: w.Run(), SelfTest: m.SelfTestOf(w), Argv: w.Spec.Argv, Env: control.Env{}, Grace: m.Grace,
	}
	maps.Copy(app.Env, m.Env)
	maps.Copy(app.Env, w.Spec.Env)
	maps.Copy(app.Env, secrets)
	if w.Kind.HubServer() {
		app.HTTP, app.Ready, app.Jupyter, app.Slices = true, w.Spec.Ready, w.Kind.Jupyter(), m.Gateway
	}
	if w.Kind.Session() {
		app.Dir, app.Rescue = account.Home, w.Spec.Rescue
	}
	if w.Kind.Jupyter() && m.Stacks != nil {
		app.Stacks = m.Stacks(w)
	}
	switch w.Kind {
	case spawner.Kernel:
		app.Kernel = kernelApp(w)
	case spawner.Code: // what the Hub would run is a Jupyter server
		app.Code, app.Argv = true, []string{CodeServer, account.Home}
	}
	return app
}

// CodeServer is the program that a session of kind Code runs. It opens the folder that it is given.
const CodeServer = "code-server"

// kernelApp is what the agent of a kernel is to know of it. One that has run before has lost its place there, and all
// that it had in memory.
func kernelApp(w spawner.Workload) *control.KernelApp {
	app := &control.KernelApp{InterruptMode: w.Spec.Interrupt}
	if w.Moves == 0 || w.Up.IsZero() {
		return app
	}
	where := "elsewhere"
	if w.Host != "" {
		where = "on " + w.Host
	}
	app.Anew = "this kernel has lost its place, which was needed for something else or failed, and has begun anew " +
		where +
		": its variables are gone. Run the cells that you need again"
	return app
}
