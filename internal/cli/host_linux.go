package cli

import "github.com/spf13/cobra"

// hostCommands are those of the service's host and of what runs inside sessions and jobs: Linux alone has them.
func hostCommands(env Env) []*cobra.Command {
	return append(programCommands(env),
		serveCommand(env), initCommand(env), configCommand(env), keysCommand(env), benchCommand(env), homeCommand(env),
		kernelBridgeCommand(env), workerCommand(env), workerKeepCommand(),
		mpsEncloseCommand(), probeDirectoryCommand(env), lookAtPathsCommand(env), renewMountCommand(env),
	)
}

// hostEnvCommands are those of `slipway envs` for Apptainer, which runs here.
func hostEnvCommands(env Env, asJSON *bool) []*cobra.Command {
	return []*cobra.Command{envCredentialCommand(env, asJSON)}
}

// hostGPUCommands are those of `slipway gpus` that use what the host has.
func hostGPUCommands(env Env) []*cobra.Command {
	return []*cobra.Command{gpusSimulateCommand(env), gpusSelftestCommand(env)}
}
