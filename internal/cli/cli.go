// Package cli is the command line: one cmd_x.go a command. A command parses, calls and prints; what it calls stands in
// other packages. It knows no backend.
//
// Commands print tables for people and, with --json, exactly what the API answered for programs; -o has it as YAML, or
// its names alone. Errors go to standard
// error with what to do next. exitTable has the exit codes.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"slipway/internal/cli/render"
	"slipway/internal/errs"
)

// Env is what a command sees of the world, so that tests can give it another.
type Env struct {
	Getenv         func(string) string
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	output *string // what -o asks for
}

// exitCode is the error of a command that has said all and ends with a code of its own.
type exitCode int

// Error names the code.
func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// usageError is an error in how a command was called.
type usageError struct{ error }

// Run runs the command of args and gives its exit code.
func Run(ctx context.Context, args []string, env Env) int {
	root := newRoot(env)
	root.SetArgs(args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	if err := strayHelp(root, args); err != nil {
		return report(env.Stderr, err)
	}
	return report(env.Stderr, root.ExecuteContext(ctx))
}

// strayHelp refuses to help with a command that there is not: else it would be helped with the one above it, as if that
// were meant.
func strayHelp(root *cobra.Command, args []string) error {
	c, rest, err := root.Find(args)
	if err != nil || !c.HasSubCommands() || !slices.Contains(rest, "--help") && !slices.Contains(rest, "-h") {
		return nil // the command says what is wrong itself
	}
	c.InitDefaultHelpFlag()
	if err := c.ParseFlags(rest); err != nil {
		return nil
	}
	return c.ValidateArgs(c.Flags().Args())
}

func newRoot(env Env) *cobra.Command {
	env.output = new(string)
	root := &cobra.Command{
		Use:   "slipway",
		Short: "Build an analysis in a session and launch the very same environment to batch",
		Long: "Build an analysis in a session and launch the very same environment to batch.\n\n" +
			"Inside a session the commands need no token. Outside, log in once with `slipway login`; programs set SLIPWAY_URL and SLIPWAY_TOKEN\n" +
			"(or SLIPWAY_TOKEN_FILE) to the service's address and a token from the Hub's token page.\n\n" +
			"What a command shows, `-o json` and `-o yaml` print for programs, and `-o name` as IDs alone for other commands. `-o wide` is a\n" +
			"table with more columns.\n\n" +
			exitWords() + "\n`slipway completion --help` says how a shell completes commands, IDs and names.",
		SilenceUsage: true, SilenceErrors: true,
		Args:              nothingElse,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return chooseOutput(env, c) },
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see `%s --help`", err, c.CommandPath())}
	})
	root.AddCommand(
		sessionsCommand(env), kernelsCommand(env), keepCommand(env), envsCommand(env), jobsCommand(env),
		gpusCommand(env), topCommand(env), dataCommand(env), quotaCommand(env), credentialsCommand(env), proxyCommand(env),
		whoamiCommand(env), accountsCommand(env), freezeCommand(env), submitCommand(env), progressCommand(env),
		loginCommand(env), logoutCommand(env), sshCommand(env), sshKeyCommand(env), versionCommand(env), doctorCommand(env), manCommand(),
	)
	root.AddCommand(hostCommands(env)...)
	addOutput(env, root)
	group(root, socketOf(env) != "")
	completeAll(root, env)
	completeKernels(root, env)
	return root
}

// report prints an error and gives the exit code.
func report(w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	for _, e := range parts(err) {
		reportOne(w, e)
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitError
}

// parts returns the errors that errors.Join made err of, or err alone.
func parts(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || errors.Join(joined.Unwrap()...).Error() != err.Error() {
		return []error{err}
	}
	return joined.Unwrap()
}

func reportOne(w io.Writer, err error) {
	fmt.Fprintf(w, "slipway: %s\n", render.Paragraphs(errs.Brief(err)))
	e, ok := errors.AsType[*errs.Error](err)
	if !ok {
		return
	}
	for _, d := range e.Details {
		fmt.Fprintf(w, "  %s\n", render.Printable(d.String()))
	}
	if e.Remedy != "" {
		fmt.Fprintf(w, "  -> %s\n", render.Paragraphs(e.Remedy))
	}
}

// exactly and its kin turn a wrong number of arguments into a usage error.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError{fmt.Errorf("%s needs %s; see `%s --help`", c.CommandPath(), what, c.CommandPath())}
		}
		return nil
	}
}

func atMostOne(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return nothingElse(c, args[1:])
	}
	return nil
}

func nothingElse(c *cobra.Command, args []string) error {
	if len(args) > 0 && c.HasAvailableSubCommands() {
		return unknownCommand(c, args[0])
	}
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s: %q is too much; see `%s --help`", c.CommandPath(), args[0], c.CommandPath())}
	}
	return nil
}

// unknownCommand refuses a word that names no command below c.
func unknownCommand(c *cobra.Command, word string) error {
	text := fmt.Sprintf("unknown command %q", word)
	if c.HasParent() { // else the name that begins each error says where
		text = c.CommandPath() + ": " + text
	}
	c.SuggestionsMinimumDistance = 2 // letters that differ
	switch near := c.SuggestionsFor(word); {
	case len(near) > 0:
		text += ": did you mean " + strings.Join(near, " or ") + "?"
	case c.HasParent():
		text += "; there are: " + strings.Join(subcommands(c), ", ")
	default:
		text += fmt.Sprintf("; see `%s --help`", c.CommandPath())
	}
	return usageError{errors.New(text)}
}

// addList adds the subcommand list, and its alias ls, which do what the command does alone.
func addList(c *cobra.Command) {
	list := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "The same as `slipway " + c.Name() + "` alone", Args: nothingElse, RunE: c.RunE, Example: c.Example}
	list.Flags().AddFlagSet(c.LocalNonPersistentFlags())
	c.AddCommand(list)
}

// subcommands names the commands below c.
func subcommands(c *cobra.Command) []string {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}
