package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
	"slipway/internal/units"
)

// planWords say in one line what is about to be submitted, and what it would meet.
func planWords(e hubapi.Environment, frozen bool, r hubapi.JobRequest, load inputs, p hubapi.JobPlan) string {
	words := "environment " + render.ShortDigest(e.Digest)
	if e.Name != "" {
		words = "environment " + nameAndDigest(e)
	}
	switch {
	case frozen && e.Unchanged:
		words += ", unchanged since it was frozen"
	case frozen:
		words += ", just frozen: " + units.DiskWords(e.Size) + ", " + units.DiskWords(e.Own) + " of them its own"
	}
	files, bytes := load.size()
	words += fmt.Sprintf("; ships %s, %s; ", units.Count(int64(files), "file", "files"), units.DiskWords(bytes))
	if n := len(r.Points); n > 0 {
		words += units.Count(int64(n), "point", "points") + " "
	}
	return words + "to " + p.Backend + ": " + roomWords(p)
}

// roomWords say when a job would start, as far as that is known.
func roomWords(p hubapi.JobPlan) string {
	var words []string
	if p.Free >= 0 {
		of := ""
		if p.Most >= 0 {
			of = " of " + units.Grouped(int64(p.Most))
		}
		words = append(words, units.Grouped(int64(p.Free))+of+" slots free now")
	}
	switch {
	case p.Lacks == "" && p.Free != 0:
		words = append(words, "starts at once")
	case p.Estimate >= 0:
		words = append(words, "starts in about "+aboutWords(time.Duration(p.Estimate)*time.Second))
	case p.Lacks != "":
		words = append(words, "waits: "+p.Lacks)
	}
	if p.Waiting > 0 {
		words = append(words, units.Grouped(int64(p.Waiting))+" in line before it")
	}
	if p.Typical >= 0 {
		words = append(words, "your last of this name ran "+aboutWords(time.Duration(p.Typical*float64(time.Second))))
	}
	return strings.Join(words, ", ")
}

// aboutWords write a time as people do when they do not count.
func aboutWords(d time.Duration) string {
	switch {
	case d < 100*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 100*time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	default:
		return fmt.Sprintf("%.1f h", d.Hours())
	}
}

// syntaxPatience is how long Python may take to read a script.
const syntaxPatience = 10 * time.Second

// compileOnly reads a script as Python does, and runs nothing.
const compileOnly = `import sys
try:
    compile(sys.stdin.buffer.read(), sys.argv[1], "exec", dont_inherit=True)
except (SyntaxError, ValueError) as e:
    print("%s:%s: %s" % (sys.argv[1], getattr(e, "lineno", None) or 1, getattr(e, "msg", e)))
    print(sys.version.split()[0])
`

// checkSyntax has the Python that is at hand look for errors in a script, before anything is frozen. In the environment
// of another place the Python may be newer: there it is only warned.
func checkSyntax(ctx context.Context, env Env, script string, r hubapi.JobRequest, elsewhere bool) error {
	python, err := exec.LookPath("python3")
	if err != nil || !strings.HasSuffix(script, ".py") || !strings.Contains(strings.Join(r.Argv[:min(3, len(r.Argv))], " "), "python") {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, syntaxPatience)
	defer stop()
	cmd := exec.CommandContext(ctx, python, "-I", "-W", "ignore", "-c", compileOnly, script)
	text, err := os.Open(script)
	if err != nil {
		return nil // it is told of by who reads it to send it
	}
	defer text.Close()
	cmd.Stdin = text
	out, err := cmd.Output()
	said, version, found := strings.Cut(strings.TrimSpace(string(out)), "\n")
	switch {
	case err != nil || !found:
		return nil
	case elsewhere:
		fmt.Fprintf(
			env.Stderr, "slipway: warning: Python %s here does not understand %s\n", version, render.Printable(said),
		)
		return nil
	}
	return errs.New(errs.Invalid, "Python %s does not understand %s", version, said).
		With("correct the script; nothing was frozen or submitted")
}
