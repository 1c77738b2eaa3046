package agent

import (
	"slices"
	"strings"

	"slipway/internal/agent/control"
	"slipway/internal/agent/stack"
)

// withStacks writes the kernels of software stacks, and has the app's environment name them after what it names already.
func withStacks(env []string, dir string, stacks []control.Stack) ([]string, error) {
	if err := stack.Write(dir, stacks); err != nil {
		return nil, err
	}
	const name = "JUPYTER_PATH"
	paths := variable(env, name)
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	return append(env, name+"="+strings.TrimPrefix(paths+":"+dir, ":")), nil
}
