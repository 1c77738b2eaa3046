package cli

import (
	"os"
	"strings"
	"testing"
)

// TestExitCodes: the help and the book have each exit code, and commands end with them.
func TestExitCodes(t *testing.T) {
	book, err := os.ReadFile("../../deploy/docs/book/use/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	help := newRoot(Env{Getenv: func(string) string { return "" }}).Long
	for _, row := range exitTable() {
		if line := "| " + row.code + " | " + row.means + " |\n"; !strings.Contains(string(book), line) {
			t.Errorf("the book has no row %q", line)
		}
		if !strings.Contains(help, "  "+row.code+" ") || !strings.Contains(help, row.means) {
			t.Errorf("`slipway --help` does not have the code %s", row.code)
		}
	}
	for want, args := range map[int][]string{
		exitOK: {"version"}, exitError: {"whoami"}, exitUsage: {"jobs", "--nothing"},
	} {
		var out, problem strings.Builder
		env := Env{
			Getenv: func(name string) string { return map[string]string{"HOME": t.TempDir()}[name] },
			Stdin:  strings.NewReader(""), Stdout: &out, Stderr: &problem,
		}
		if got := Run(t.Context(), args, env); got != want || (problem.Len() == 0) != (want == exitOK) {
			t.Errorf("%v ends with %d and says %q", args, got, problem.String())
		}
	}
}
