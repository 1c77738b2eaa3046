package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/images/inventory"
	"slipway/internal/cli/render"
	"slipway/internal/units"
)

func envDiffCommand(env Env, asJSON *bool) *cobra.Command {
	files := false
	c := &cobra.Command{
		Use: "diff OLD NEW", Short: "Say what one environment has other than another",
		Example: "  slipway envs diff analysis:v1 analysis:v2",
		Args:    exactly(2, "two environments"),
		Long:    "Say what NEW has other than OLD: packages, Python, CUDA, checkouts and files. + is new, - is gone, ~ is another version.\n\n" + reference,
		RunE: func(c *cobra.Command, args []string) error {
			return runEnvDiff(c.Context(), env, args[0], args[1], files, *asJSON)
		},
	}
	c.Flags().BoolVar(&files, "files", false, "list the files, the first thousand of them")
	return c
}

func runEnvDiff(ctx context.Context, env Env, old, now string, files, asJSON bool) error {
	client, err := connectFor(env, old, now)
	if err != nil {
		return err
	}
	d, err := client.EnvironmentDiff(ctx, old, now)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(d)
	}
	p := &render.Page{W: env.Stdout}
	p.Printf("%s -> %s\n", render.Printable(nameAndDigest(d.Old)), render.Printable(nameAndDigest(d.New)))
	for _, line := range d.Lines {
		p.Printf("%s\n", render.Printable(line))
	}
	if len(d.Lines) == 0 {
		p.Printf("no difference\n")
	}
	if files {
		printFiles(p, d.Full)
	}
	return p.Err
}

// printFiles lists the paths that differ, of the API's full difference.
func printFiles(p *render.Page, full json.RawMessage) {
	var d inventory.Difference
	if err := json.Unmarshal(full, &d); err != nil {
		p.Err = fmt.Errorf("read the difference: %w", err)
		return
	}
	if d.Files == nil {
		p.Printf("\nThe files were not compared.\n")
		return
	}
	var lines []string
	for _, f := range d.Files.First {
		lines = append(lines, fileWords(f))
	}
	if n := d.Files.Added + d.Files.Removed + d.Files.Changed - len(lines); n > 0 {
		lines = append(lines, fmt.Sprintf("and %s more", units.Grouped(int64(n))))
	}
	p.Section("Files:", lines)
}

func fileWords(f inventory.FileDiff) string {
	switch f.How {
	case inventory.Added:
		return "+ " + f.Path
	case inventory.Removed:
		return "- " + f.Path
	case inventory.Attributes:
		return "~ " + f.Path + " (owner, mode or attributes alone)"
	}
	return "~ " + f.Path
}

func envVerifyCommand(env Env, asJSON *bool) *cobra.Command {
	return &cobra.Command{
		Use: "verify REF", Short: "Prove that an environment is what its digest says, and compare it with its session",
		Example: "  slipway envs verify analysis:v1",
		Args:    exactly(1, whichEnvironment),
		Long: "Read all bytes of an environment and compare them with its digest, check its signatures and the statements on where it comes\n" +
			"from, and compare its tree with that of the session it was frozen from, if that is still there: owners, modes, times, links,\n" +
			"attributes and contents. Exit code 1 when anything is wrong. What a session has other because it went on since the freeze is told,\n" +
			"and is no fault of the environment.\n\n" + reference,
		RunE: func(c *cobra.Command, args []string) error { return runEnvVerify(c.Context(), env, args[0], *asJSON) },
	}
}

func runEnvVerify(ctx context.Context, env Env, ref string, asJSON bool) error {
	client, err := connectFor(env, ref)
	if err != nil {
		return err
	}
	e, err := client.Environment(ctx, ref)
	if err != nil {
		return err
	}
	fmt.Fprintf(
		env.Stderr, "verify: reading %s of %s, which takes some seconds\n", units.DiskWords(e.Size),
		render.Printable(fullName(e)),
	)
	start := time.Now()
	check, err := client.VerifyEnvironment(ctx, ref)
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Stderr, "verify: done in %.1f s\n", time.Since(start).Seconds())
	if asJSON {
		err = env.data(check)
	} else {
		err = tellCheck(env.Stdout, check)
	}
	if err == nil && check.Tree.Differences > 0 && !check.Tree.Changed {
		return exitCode(exitError)
	}
	return err
}

func tellCheck(w io.Writer, c hubapi.EnvironmentCheck) error {
	pairs := [][2]string{{"digest", c.Digest}, {"bytes", units.DiskWords(c.Bytes) + " read, all as the digest says"}}
	p := &render.Page{W: w, Err: render.Pairs(
		w, append(append(pairs, seals(c.Signers, c.Statements)...), [2]string{"tree", treeWords(c.Tree)}),
	)}
	p.Section(
		map[bool]string{true: "What the session has other now:", false: "What differs:"}[c.Tree.Changed], c.Tree.First,
	)
	if n := c.Tree.Differences - int64(len(c.Tree.First)); n > 0 && c.Tree.Differences > 0 {
		p.Printf("  and %s more\n", units.Grouped(n))
	}
	return p.Err
}

func treeWords(t hubapi.TreeCheck) string {
	switch {
	case t.Session == "":
		return "not compared with a session: " + t.Why
	case t.Differences == 0:
		return fmt.Sprintf("%s, each equal to that of session %s", units.Count(t.Paths, "path", "paths"), t.Session)
	case t.Changed:
		return fmt.Sprintf("session %s went on since the freeze: of %s, %s", t.Session, units.Count(t.Paths, "path", "paths"),
			units.Count(t.Differences, "difference that may be its own", "differences that may be its own"))
	}
	return fmt.Sprintf(
		"%s of %s other than in session %s", units.Count(t.Differences, "difference", "differences"),
		units.Count(t.Paths, "path", "paths"), t.Session,
	)
}

func envSBOMCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use: "sbom REF", Short: "Print an environment's software bill of materials (SPDX 2.3)",
		Args:    exactly(1, whichEnvironment),
		Long:    "Print an environment's software bill of materials, SPDX 2.3 in JSON.\n\n" + reference,
		Example: "  slipway envs sbom analysis:v1 > analysis.spdx.json",
		RunE:    func(c *cobra.Command, args []string) error { return runEnvSBOM(c.Context(), env, args[0]) },
	}
}

func runEnvSBOM(ctx context.Context, env Env, ref string) error {
	client, err := connectFor(env, ref)
	if err != nil {
		return err
	}
	document, err := client.SBOM(ctx, ref)
	if err != nil {
		return err
	}
	return env.data(document)
}
