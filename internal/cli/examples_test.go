package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestEveryCommandHasAnExample: one that calls the command, with flags and arguments that it takes.
func TestEveryCommandHasAnExample(t *testing.T) {
	root := newRoot(Env{Getenv: func(string) string { return "" }, Stdout: io.Discard, Stderr: io.Discard})
	for _, c := range commandsBelow(root) {
		calls := callsIn(c.Example)
		if !strings.Contains(c.Example, c.CommandPath()) || len(calls) == 0 {
			t.Errorf("%s: no example calls it: %q", c.CommandPath(), c.Example)
		}
		for _, words := range calls {
			called, rest, err := root.Find(words)
			if err == nil {
				err = called.ParseFlags(rest)
			}
			if err == nil {
				err = called.ValidateArgs(called.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: the example %q: %v", c.CommandPath(), words, err)
			}
		}
	}
}

// commandsBelow returns all commands that people call, but those that cobra makes by itself.
func commandsBelow(c *cobra.Command) (all []*cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "completion" && sub.Name() != "help" {
			all = append(append(all, sub), commandsBelow(sub)...)
		}
	}
	return all
}

// callsIn returns the arguments of each call of slipway in lines of a shell.
func callsIn(example string) (calls [][]string) {
	for line := range strings.Lines(example) {
		calling, within := false, false // within: in a command substitution, which a bracket ends
		for _, word := range shellWords(line) {
			bare := strings.TrimPrefix(strings.Trim(word, `"`), "$(")
			switch {
			case bare == "slipway":
				calls, calling, within = append(calls, nil), true, bare != word
			case strings.Trim(word, "|&<>") == "":
				calling = false
			case calling && within && strings.HasSuffix(bare, ")"):
				calls[len(calls)-1] = append(calls[len(calls)-1], strings.TrimSuffix(bare, ")"))
				calling = false
			case calling:
				calls[len(calls)-1] = append(calls[len(calls)-1], word)
			}
		}
	}
	return calls
}

// shellWords splits a line at blanks, but for those between single quotes.
func shellWords(line string) (words []string) {
	for i, part := range strings.Split(line, "'") {
		switch fields := strings.Fields(part); {
		case i%2 == 1:
			words = append(words, part)
		default:
			words = append(words, fields...)
		}
	}
	return words
}
