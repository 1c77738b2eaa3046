package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/units"
)

func envTagCommand(env Env, asJSON *bool) *cobra.Command {
	return &cobra.Command{
		Use: "tag REF NAME[:TAG]", Short: "Give an environment another name",
		Example: "  slipway envs tag analysis:v1 analysis:paper",
		Args:    exactly(2, "an environment and a name"),
		Long: "Give an environment another name. A name that you have given to another environment is moved.\n\n" +
			ownReference,
		RunE: func(c *cobra.Command, args []string) error {
			return runEnvTag(c.Context(), env, args[0], args[1], *asJSON)
		},
	}
}

func runEnvTag(ctx context.Context, env Env, ref, label string, asJSON bool) error {
	client, err := connectFor(env, ref)
	if err != nil {
		return err
	}
	name, tag, _ := strings.Cut(label, ":")
	e, err := client.TagEnvironment(ctx, ref, hubapi.TagRequest{Name: name, Tag: tag})
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(e)
	}
	_, err = fmt.Fprintf(env.Stdout, "%s is %s\n", render.ShortDigest(e.Digest), render.Printable(fullName(e)))
	return err
}

func envShareCommand(env Env, asJSON *bool) *cobra.Command {
	s := hubapi.Share{}
	c := &cobra.Command{
		Use: "share REF --with private|group|public", Short: "Say who else may use an environment",
		Args: exactly(1, whichEnvironment),
		Long: "Say who else may use an environment, under all its names: nobody (private, as every environment is at first), the members of\n" +
			"one of your groups, or every user of this service. They may run, thaw, look into and compare it, and see its names and notes.\n" +
			"What they have started goes on when it is taken back.\n\n" + ownReference,
		Example: "  slipway envs share analysis:v1 --with group --group higgs",
		RunE: func(c *cobra.Command, args []string) error {
			return runEnvShare(
				c.Context(), env, args[0], s, *asJSON,
			)
		},
	}
	c.Flags().StringVar(&s.With, "with", "", "private, group or public")
	c.Flags().StringVar(&s.Group, "group", "", "with --with group: which of your groups")
	return c
}

func runEnvShare(ctx context.Context, env Env, ref string, s hubapi.Share, asJSON bool) error {
	switch {
	case s.With != "private" && s.With != "group" && s.With != "public":
		return usageError{fmt.Errorf("--with %q: private, group or public; see `slipway envs share --help`", s.With)}
	case (s.With == "group") != (s.Group != ""):
		return usageError{errors.New("--with group and --group GROUP go together; see `slipway envs share --help`")}
	}
	client, err := connectFor(env, ref)
	if err != nil {
		return err
	}
	e, err := client.ShareEnvironment(ctx, ref, s)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(e)
	}
	if e.Share.With == "private" {
		_, err = fmt.Fprintf(
			env.Stdout, "%s is yours alone; what others have started with it goes on\n", render.Printable(fullName(e)),
		)
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "%s is shared with %s, as %s/%s\n",
		render.Printable(fullName(e)), render.Printable(sharedWith(e.Share)), render.Printable(e.Owner), render.Printable(fullName(e)))
	return err
}

func envRemoveCommand(env Env, asJSON *bool) *cobra.Command {
	return &cobra.Command{
		Use: "rm REF...", Short: "Take names of environments away", Args: atLeastOne(whichEnvironment),
		Example: "  slipway envs rm analysis:v1 analysis:v2",
		Long: "Take names of environments away: a name with its tag (name:tag), or a name alone, if it has one tag or none; or by its digest\n" +
			"all names of an environment. It cannot be taken back. When the last name is gone the image goes too, within about an hour, unless\n" +
			"a session or a job needs it or somebody else has it. What had the name before it was moved stays, without a name.\n\n" + ownReference,
		RunE: func(c *cobra.Command, args []string) error { return runEnvRemove(c.Context(), env, args, *asJSON) },
	}
}

// atLeastOne turns a missing argument into a usage error.
func atLeastOne(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usageError{fmt.Errorf("%s needs %s; see `%s --help`", c.CommandPath(), what, c.CommandPath())}
		}
		return nil
	}
}

// runEnvRemove removes what it can; what it cannot is told at the end.
func runEnvRemove(ctx context.Context, env Env, refs []string, asJSON bool) error {
	client, err := connectFor(env, refs...)
	if err != nil {
		return err
	}
	before, err := client.Environments(ctx, false)
	if err != nil {
		return err
	}
	done, failed := []hubapi.Removed{}, []error{}
	for _, ref := range refs {
		removed, err := client.RemoveEnvironment(ctx, ref)
		if err != nil {
			failed = append(failed, fmt.Errorf("remove %s: %w", ref, err))
			continue
		}
		done = append(done, removed)
	}
	if asJSON {
		return errors.Join(append(failed, env.data(done))...)
	}
	after, err := client.Environments(ctx, false)
	if err != nil {
		return errors.Join(append(failed, err)...)
	}
	p := &render.Page{W: env.Stdout}
	for _, line := range removedLines(before, after) {
		p.Printf("%s\n", render.Printable(line))
	}
	return errors.Join(append(failed, p.Err)...)
}

// removedLines says of each environment what has gone since before, and what stays.
func removedLines(before, after []hubapi.Environment) []string {
	had, has := namesByDigest(before), namesByDigest(after)
	var out []string
	for _, digest := range slices.Sorted(maps.Keys(had)) {
		left, stays := has[digest]
		if stays && len(left) == len(had[digest]) {
			continue
		}
		gone := slices.DeleteFunc(
			slices.Clone(had[digest]), func(name string) bool { return slices.Contains(left, name) },
		)
		words := render.ShortDigest(digest) + " is no longer in your list"
		if len(gone) > 0 {
			words = render.ShortDigest(digest) + " is no longer " + strings.Join(gone, ", ")
		}
		switch {
		case len(left) > 0:
			words += "; it stays, as " + strings.Join(left, ", ")
		case stays:
			words += "; it stays, without a name"
		default:
			words += "; the image goes, unless a session, a job or somebody else needs it"
		}
		out = append(out, words)
	}
	return out
}

// namesByDigest returns the names that lead to each environment; none where it has no such name.
func namesByDigest(list []hubapi.Environment) map[string][]string {
	out := map[string][]string{}
	for _, e := range list {
		names := out[e.Digest]
		if e.Name != "" && !e.Moved && !slices.Contains(names, fullName(e)) {
			names = append(names, fullName(e))
		}
		out[e.Digest] = names
	}
	return out
}

func envSweepCommand(env Env, asJSON *bool) *cobra.Command {
	dry := false
	c := &cobra.Command{
		Use: "gc", Short: "Remove the images that nothing leads to, for administrators", Args: nothingElse,
		Example: "  slipway envs gc --dry-run",
		Long: "Remove the images that no name, session or job leads to, and the bases under none, for administrators. The service does so\n" +
			"every hour by itself. What was used in the last minutes stays.",
		RunE: func(c *cobra.Command, _ []string) error { return runEnvSweep(c.Context(), env, dry, *asJSON) },
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "only say what would go")
	return c
}

func runEnvSweep(ctx context.Context, env Env, dry, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	s, err := client.SweepEnvironments(ctx, dry)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(s)
	}
	verb := "Removed"
	if s.Dry {
		verb = "Would remove"
	}
	p := &render.Page{W: env.Stdout}
	if len(s.Environments)+len(s.Bases) == 0 {
		p.Printf("Nothing to remove.\n%s", waitingWords(s.Waiting))
		return p.Err
	}
	p.Printf("%s %s and %s, %s.\n\n", verb, units.Count(int64(len(s.Environments)), "environment", "environments"),
		units.Count(int64(len(s.Bases)), "base", "bases"), units.DiskWords(s.Bytes))
	if p.Err != nil {
		return p.Err
	}
	var rows [][]string
	for _, f := range s.Files {
		rows = append(rows, []string{f.What, f.Digest, units.DiskWords(f.Bytes), render.Ago(f.Made, time.Now())})
	}
	if err := render.Table(env.Stdout, []string{"WHAT", "DIGEST", "SIZE", "MADE"}, rows, ""); err != nil || s.Waiting.Environments == 0 {
		return err
	}
	p.Printf("\n%s", waitingWords(s.Waiting))
	return p.Err
}

// waitingWords says what goes later, if there is anything.
func waitingWords(w hubapi.SweptLater) string {
	if w.Environments == 0 {
		return ""
	}
	return fmt.Sprintf("Kept until %s, as all that was made or used in the last minutes: %s, %s.\n",
		w.Until.Local().Format(time.TimeOnly), units.Count(
			int64(w.Environments), "environment", "environments",
		), units.DiskWords(w.Bytes))
}
