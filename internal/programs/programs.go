//go:build linux

// Package programs has the programs that the service starts of itself for each session and job of this host: a job's
// supervisor, what becomes its Apptainer, its network and its image, the agent, and what looks at a user's home. Both
// slipway and slipway-job have them, under the same words and with the same arguments.
//
// A program of Go begins by setting up all that is linked into it, four times a job. The package must not import what
// only the service or its commands need.
package programs

import (
	"context"
	"io"
	"log/slog"
	"os"
	"runtime/debug"

	"slipway/internal/agent"
	"slipway/internal/homes"
	"slipway/spawner/docker/wake"
	"slipway/spawner/local"
)

// Streams are a program's standard streams.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Program is one of them.
type Program struct {
	Name  string   // the word that starts it
	Args  []string // what each argument is; it takes as many
	Short string   // what it does, in a line
	// Run runs it until it has ended, or ctx has. An *agent.ExitError has the exit code of what it ran.
	Run func(ctx context.Context, args []string, s Streams) error
}

// All returns all programs.
func All() []Program {
	return []Program{
		{
			"agent", nil, "Run as a workload's first process (started by the service)",
			func(ctx context.Context, _ []string, s Streams) error {
				SaveMemory() // it lives in the workload's
				return agent.Run(ctx, agent.Config{Alone: true, Logger: slog.New(slog.NewTextHandler(s.Err, nil))})
			},
		},
		{
			"local-shim", []string{"DIR"}, "Supervise one job (started by the service)",
			func(ctx context.Context, args []string, _ Streams) error { return local.Shim(ctx, args[0]) },
		},
		{
			"local-enter", []string{"DIR"}, "Become one job's Apptainer (started by local-shim)",
			func(_ context.Context, args []string, _ Streams) error { return local.Enter(args[0]) },
		},
		{
			"local-network", []string{"DIR"}, "Become the pasta of one job's network (started by local-shim)",
			func(_ context.Context, args []string, _ Streams) error { return local.Connect(args[0]) },
		},
		{
			"local-image", []string{"DIR"}, "Serve an image to several jobs (started by the service)",
			func(_ context.Context, args []string, _ Streams) error { return local.Image(args[0]) },
		},
		{
			"docker-wake", []string{"HOST", "CONTAINER"},
			"Wake a container if the service dies in a freeze (started by the service)",
			func(ctx context.Context, args []string, s Streams) error {
				return wake.Watch(ctx, args[0], args[1], s.In)
			},
		},
		{
			LookHome, []string{"QUESTION"},
			"Look at a directory whose file system may never answer (started by the service)",
			func(_ context.Context, args []string, s Streams) error { return homes.Look(s.Out, args[0]) },
		},
	}
}

// LookHome is the word of the program that looks at users' directories.
const LookHome = "look-home"

// SaveMemory has garbage collected twice as often as Go does by itself, unless GOGC says otherwise: the service shares
// its host with sessions and jobs, and the agent their memory. With 10,000 points the service has a fifth less, for
// milliseconds of processor time every some seconds.
func SaveMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}
