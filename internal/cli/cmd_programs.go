//go:build linux

package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"slipway/internal/agent"
	"slipway/internal/programs"
)

// programCommands are what the service starts of this program itself: nobody types them.
func programCommands(env Env) []*cobra.Command {
	var all []*cobra.Command
	for _, p := range programs.All() {
		c := &cobra.Command{
			Use: strings.Join(append([]string{p.Name}, p.Args...), " "), Short: p.Short, Hidden: true,
			Args: nothingElse,
			RunE: func(c *cobra.Command, args []string) error { return runProgram(c.Context(), p, args, env) },
		}
		if len(p.Args) > 0 {
			c.Args = exactly(len(p.Args), strings.Join(p.Args, " and "))
		}
		all = append(all, c)
	}
	return all
}

// runProgram runs a program, and ends with the exit code of what that ran.
func runProgram(ctx context.Context, p programs.Program, args []string, env Env) error {
	err := p.Run(ctx, args, programs.Streams{In: env.Stdin, Out: env.Stdout, Err: env.Stderr})
	if app, ok := errors.AsType[*agent.ExitError](err); ok {
		return exitCode(app.Code)
	}
	return err
}
