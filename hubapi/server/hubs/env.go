package hubs

import (
	"maps"

	"slipway/internal/agent/control"
	"slipway/internal/gpu"
)

// SessionEnv is the environment of a session that the hub asks for. Where the service tells the Hub of activity,
// jupyterhub-singleuser must not: it knows less. What a Hub's own configuration says of GPUs is meant for its other
// spawners: here it would hide the slice from the app, and have its self-test look for another.
func (h Hub) SessionEnv(given map[string]string) control.Env {
	env := control.Env{}
	maps.Copy(env, h.Env)
	maps.Copy(env, given)
	maps.DeleteFunc(env, func(name, _ string) bool { return gpu.Reserved(name) })
	if h.Activity {
		env["JUPYTERHUB_ACTIVITY_INTERVAL"] = "0"
	}
	return env
}
