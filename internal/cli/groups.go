package cli

import "github.com/spf13/cobra"

// The groups of commands in `slipway --help`.
const (
	userGroup     = "user"
	operatorGroup = "operator"
)

// operatorCommands are for whoever runs the service; true: it is hidden in a session. `doctor` is not: there it is for
// the user.
var operatorCommands = map[string]bool{
	"accounts": true, "bench": true, "config": true, "doctor": false, "init": true, "keys": true, "serve": true,
}

// group sorts the commands of root by who they are for. In a session or job the operators' are not shown; they still
// run.
func group(root *cobra.Command, inSession bool) {
	root.AddGroup(
		&cobra.Group{ID: userGroup, Title: "Sessions, environments and jobs:"},
		&cobra.Group{ID: operatorGroup, Title: "The service and its host:"},
	)
	for _, c := range root.Commands() {
		c.GroupID = userGroup
		if hidden, ok := operatorCommands[c.Name()]; ok {
			c.GroupID = operatorGroup
			c.Hidden = c.Hidden || inSession && hidden
		}
	}
}
