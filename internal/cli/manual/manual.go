// Package manual writes man pages of commands: their help, in the form of man(7).
//
// A page says what `--help` says, and nothing else. The package knows no command, and its pages are the same whenever
// and wherever they are written.
package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// columns is how wide a list of options may be, on a terminal of 80 columns with man's margin.
const columns = 72

// Write writes a page for a command and for each below it, but for hidden ones, into dir. The version and the date of
// the program stand at the foot of each page.
func Write(c *cobra.Command, dir, version, date string) error {
	c.InitDefaultHelpFlag()
	file := filepath.Join(dir, pageName(c)+".1")
	if err := os.WriteFile(file, []byte(page(c, version, date)), 0o644); err != nil {
		return err
	}
	for _, sub := range documented(c) {
		if err := Write(sub, dir, version, date); err != nil {
			return err
		}
	}
	return nil
}

func documented(c *cobra.Command) (all []*cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			all = append(all, sub)
		}
	}
	return all
}

// pageName is the command's path with hyphens, as git's pages are called.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func page(c *cobra.Command, version, date string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(".TH %s 1 %s %s", quoted(strings.ToUpper(pageName(c))), quoted(date), quoted("slipway "+version))
	line(".SH NAME\n%s \\- %s", escaped(pageName(c)), escaped(c.Short))
	line(".SH SYNOPSIS\n.B %s", escaped(c.UseLine()))
	if len(documented(c)) > 0 {
		line(".br\n.B %s", escaped(c.CommandPath()+" [command]"))
	}
	if c.Long != "" {
		line(".SH DESCRIPTION\n%s", paragraphs(c.Long))
	}
	if commands := documented(c); len(commands) > 0 {
		line(".SH COMMANDS")
		for _, sub := range commands {
			line(".TP\n.B %s\n%s", escaped(sub.Name()), escaped(sub.Short))
		}
	}
	b.WriteString(options("OPTIONS", c.NonInheritedFlags().FlagUsagesWrapped(columns)))
	b.WriteString(options("OPTIONS OF ALL THESE COMMANDS", c.InheritedFlags().FlagUsagesWrapped(columns)))
	if c.Example != "" {
		line(".SH EXAMPLES\n%s", asItStands(c.Example))
	}
	if c.HasParent() {
		line(".SH SEE ALSO\n.BR %s (1)", escaped(pageName(c.Parent())))
	}
	return b.String()
}

// paragraphs has man fill the lines, but for those of paragraphs that are set out with blanks, as tables are.
func paragraphs(text string) string {
	var all []string
	for p := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if strings.HasPrefix(p, " ") || strings.HasPrefix(p, "\t") {
			all = append(all, asItStands(p))
		} else {
			all = append(all, escaped(p))
		}
	}
	return strings.Join(all, "\n.PP\n")
}

func asItStands(text string) string { return ".nf\n" + escaped(text) + "\n.fi" }

func options(title, usages string) string {
	if usages == "" {
		return ""
	}
	return ".SH " + title + "\n" + asItStands(strings.TrimRight(usages, "\n")) + "\n"
}

// quoted is one argument of a macro.
func quoted(text string) string { return `"` + strings.ReplaceAll(escaped(text), `"`, `\(dq`) + `"` }

// escaped is text that man shows as it is: no letter of it is a command, and hyphens are those that are typed.
func escaped(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "'", `\(aq`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return strings.ReplaceAll(text, "\n.", "\n\\&.")
}
