package cli

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"slipway/internal/cli/render"
)

// The ways in which a command prints what the API answered, as -o names them.
const (
	outputJSON = "json"
	outputYAML = "yaml"
	outputName = "name"
	outputWide = "wide"
)

var outputs = []string{outputJSON, outputYAML, outputName, outputWide}

// addOutput gives the commands below c that have --json the flag -o.
func addOutput(env Env, c *cobra.Command) {
	for _, sub := range c.Commands() {
		own := sub.Flags()
		if sub.PersistentFlags().Lookup("json") != nil {
			own = sub.PersistentFlags()
		}
		if own.Lookup("json") != nil {
			own.StringVarP(
				env.output, "output", "o", "",
				"print in this `FORMAT`: "+strings.Join(outputs, ", ")+"; name has the IDs alone, wide a table with more columns",
			)
			// it has none yet: that alone would be an error
			_ = sub.RegisterFlagCompletionFunc(
				"output", cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp),
			)
		}
		addOutput(env, sub)
	}
}

// chooseOutput has a command that is about to run print what -o asks for.
func chooseOutput(env Env, c *cobra.Command) error {
	switch chosen := env.chosen(); {
	case chosen == "" || chosen == outputWide:
		return nil
	case slices.Contains(outputs, chosen):
		return c.Flags().Set("json", "true")
	default:
		return usageError{fmt.Errorf("%s: -o is one of %s, and not %q", c.CommandPath(), strings.Join(outputs, ", "), chosen)}
	}
}

// data prints what the API answered for programs, in the way that -o names.
func (e Env) data(v any) error {
	var text bytes.Buffer
	if err := render.JSON(&text, v); err != nil {
		return err
	}
	switch e.chosen() {
	case outputYAML:
		return render.YAML(e.Stdout, text.Bytes())
	case outputName:
		return render.Names(e.Stdout, text.Bytes())
	}
	_, err := e.Stdout.Write(text.Bytes())
	return err
}

// wide reports whether a table is to have its further columns.
func (e Env) wide() bool { return e.chosen() == outputWide }

// chosen is what -o asks for; empty: nothing.
func (e Env) chosen() string {
	if e.output == nil {
		return ""
	}
	return *e.output
}

// wider puts further columns behind a table's, where -o asks for them. cells returns those of a row.
func (e Env) wider(head []string, rows [][]string, more []string, cells func(row int) []string) []string {
	if !e.wide() {
		return head
	}
	for i := range rows {
		rows[i] = append(rows[i], cells(i)...)
	}
	return append(head, more...)
}
