package manual

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

const wantChild = `.TH "SHIP\-SAIL" 1 "2026\-11\-28" "slipway 1.2.3"
.SH NAME
ship\-sail \- Sail \(gaaway\(ga
.SH SYNOPSIS
.B ship sail PORT [flags]
.SH DESCRIPTION
Sail to \epath.
\&.hidden is no command.
.PP
.nf
  A  first
  B  second
.fi
.SH OPTIONS
.nf
  \-h, \-\-help          help for sail
  \-s, \-\-speed KNOTS   so many KNOTS
.fi
.SH OPTIONS OF ALL THESE COMMANDS
.nf
      \-\-json   print JSON
.fi
.SH EXAMPLES
.nf
  ship sail \(aqNew York\(aq
.fi
.SH SEE ALSO
.BR ship (1)
`

func TestWrite(t *testing.T) {
	root := &cobra.Command{Use: "ship", Short: "A ship"}
	root.PersistentFlags().Bool("json", false, "print JSON")
	run := func(*cobra.Command, []string) {}
	sail := &cobra.Command{
		Use: "sail PORT", Short: "Sail `away`", Run: run, Example: "  ship sail 'New York'",
		Long: "Sail to \\path.\n.hidden is no command.\n\n  A  first\n  B  second",
	}
	sail.Flags().StringP("speed", "s", "", "so many `KNOTS`")
	root.AddCommand(sail, &cobra.Command{Use: "sink", Hidden: true, Run: run})
	dir := t.TempDir()
	if err := Write(root, dir, "1.2.3", "2026-11-28"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "ship-sail.1"))
	if diff := cmp.Diff(wantChild, string(text)); err != nil || diff != "" {
		t.Error(err, diff)
	}
	text, err = os.ReadFile(filepath.Join(dir, "ship.1"))
	if err != nil || !strings.Contains(string(text), "\n.SH COMMANDS\n.TP\n.B sail\nSail") {
		t.Errorf("%v, %s", err, text)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("%v, %v; want no page of a hidden command", files, err)
	}
}
