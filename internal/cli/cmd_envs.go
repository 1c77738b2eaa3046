package cli

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
	"slipway/internal/units"
)

const (
	whichEnvironment = "an environment"
	// reference says how an environment is named, in the help of every command that takes one.
	reference = "REF is a digest, the beginning of one, a name (the newest of it), name:tag, or name: for the one without a tag; another\n" +
		"user's is owner/name:tag. With @arm64 behind it, it is the one for such machines."
	// ownReference is reference where only one's own will do.
	ownReference = "REF is a digest, the beginning of one, a name (the newest of it), name:tag, or name: for the one without a tag."
)

// envsCommand is `slipway envs`.
func envsCommand(env Env) *cobra.Command {
	asJSON, shared := false, false
	c := &cobra.Command{
		Use: "envs", Aliases: []string{"environments"}, Args: nothingElse,
		Example: "  slipway envs\n" +
			"  slipway envs list --shared",
		Short: "List your environments; show, compare, prove, name, share, ship or remove one",
		Long: "List your environments, and with --shared those that others share with you.\n\n" +
			"OWN is what an environment takes beside the image it stands on, which all share that stand on it. What is marked (moved)\n" +
			"was called so until the name and tag were given to another one; its digest alone finds it now, for everybody. What is inside is\n" +
			"found out in the seconds after a freeze.",
		RunE: func(c *cobra.Command, _ []string) error {
			return watched(c, env, func(ctx context.Context, env Env) error { return runEnvs(ctx, env, shared, asJSON) })
		},
	}
	addWatch(c)
	c.Flags().BoolVar(&shared, "shared", false, "list what others share with you too")
	c.PersistentFlags().BoolVar(&asJSON, "json", false, "print the API's JSON")
	c.AddCommand(
		envShowCommand(env, &asJSON), envDiffCommand(env, &asJSON), envHistoryCommand(env, &asJSON),
		envVerifyCommand(env, &asJSON),
		envSBOMCommand(env), envTagCommand(env, &asJSON), envShareCommand(env, &asJSON), envRemoveCommand(env, &asJSON),
		envUsageCommand(env, &asJSON), envSweepCommand(env, &asJSON), envPushCommand(env, &asJSON),
		envPullCommand(env, &asJSON),
		envExportCommand(env, &asJSON),
	)
	c.AddCommand(hostEnvCommands(env, &asJSON)...)
	addList(c)
	return c
}

func runEnvs(ctx context.Context, env Env, shared, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	list, err := client.Environments(ctx, shared)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(hubapi.Environments{Environments: list})
	}
	var rows [][]string
	for _, e := range list {
		rows = append(rows, []string{
			render.ShortDigest(e.Digest), ownedName(e), tagWords(e), units.DiskWords(e.Size), units.DiskWords(e.Own),
			e.Python, packageCount(e), e.Base,
			render.Ago(e.Created, time.Now()), audience(e), e.Note,
		})
	}
	head := []string{"DIGEST", "NAME", "TAG", "SIZE", "OWN", "PYTHON", "PACKAGES", "BASE", "MADE", "SHARED", "NOTE"}
	head = env.wider(head, rows, []string{"SESSION", "WHOLE DIGEST"}, func(i int) []string {
		return []string{list[i].Session, list[i].Digest}
	})
	return render.Table(env.Stdout, head, rows, "No environments. `slipway freeze` in a session makes one; so does %%grid.")
}

// connectFor connects, to do something with environments that have names.
func connectFor(env Env, refs ...string) (*hubapi.Client, error) {
	for _, ref := range refs {
		if strings.TrimSpace(ref) == "" {
			return nil, errs.Bad("environment", ref, "a digest, the beginning of one, a name or name:tag, as `slipway envs` shows them")
		}
	}
	return connect(env)
}

// ownedName is the name by which the caller finds an environment: another's has its owner before it.
func ownedName(e hubapi.Environment) string {
	if e.Mine {
		return e.Name
	}
	return e.Owner + "/" + cmp.Or(e.Name, render.ShortDigest(e.Digest))
}

// fullName is the reference to an environment: its name and tag, or where none lead to it its digest.
func fullName(e hubapi.Environment) string {
	if e.Moved {
		e.Name = ""
	}
	name := cmp.Or(ownedName(e), render.ShortDigest(e.Digest))
	if e.Name == "" || e.Tag == "" {
		return name
	}
	return name + ":" + e.Tag
}

// nameAndDigest tells an environment from others of its name.
func nameAndDigest(e hubapi.Environment) string {
	digest := render.ShortDigest(e.Digest)
	if e.Moved {
		e.Moved = false
		return digest + " (was " + fullName(e) + ")"
	}
	return fullName(e) + " (" + digest + ")"
}

// tagWords marks a tag that finds another environment now.
func tagWords(e hubapi.Environment) string {
	switch {
	case !e.Moved:
		return e.Tag
	case e.Tag == "":
		return "(moved)"
	}
	return e.Tag + " (moved)"
}

// packageCount is empty as long as it is not known.
func packageCount(e hubapi.Environment) string {
	if !e.Known {
		return ""
	}
	return units.Grouped(int64(e.Packages))
}

// audience says in a word or two who else may use an environment.
func audience(e hubapi.Environment) string {
	switch e.Share.With {
	case "group":
		return "group " + e.Share.Group
	case "private":
		return ""
	}
	return e.Share.With
}

func envHistoryCommand(env Env, asJSON *bool) *cobra.Command {
	return &cobra.Command{
		Use:     "history REF",
		Example: "  slipway envs history analysis",
		Short:   "List what a name has stood for, and what else came from the same session, the newest first",
		Args:    exactly(1, whichEnvironment),
		Long:    "List the environments that a name has stood for, and those that came from the same session, the newest first.\n\n" + ownReference,
		RunE:    func(c *cobra.Command, args []string) error { return runEnvHistory(c.Context(), env, args[0], *asJSON) },
	}
}

func runEnvHistory(ctx context.Context, env Env, ref string, asJSON bool) error {
	client, err := connectFor(env, ref)
	if err != nil {
		return err
	}
	list, err := client.EnvironmentHistory(ctx, ref)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(hubapi.Environments{Environments: list})
	}
	var rows [][]string
	for _, e := range list {
		rows = append(rows, []string{
			render.ShortDigest(e.Digest), e.Name, tagWords(e), units.DiskWords(e.Own), packageCount(e),
			e.Created.Local().Format(time.DateTime), e.Session, e.Note,
		})
	}
	return render.Table(
		env.Stdout, []string{"DIGEST", "NAME", "TAG", "OWN", "PACKAGES", "MADE", "SESSION", "NOTE"}, rows,
		"It has no history.",
	)
}

func envUsageCommand(env Env, asJSON *bool) *cobra.Command {
	return &cobra.Command{
		Use: "du", Short: "Say what your environments take, the largest first", Args: nothingElse,
		Example: "  slipway envs du",
		Long: "Say what your environments take, the largest first. Your own bytes are those that no base image has; they alone count\n" +
			"against the quota. The bases are shared with all who stand on them.",
		RunE: func(c *cobra.Command, _ []string) error { return runEnvUsage(c.Context(), env, *asJSON) },
	}
}

func runEnvUsage(ctx context.Context, env Env, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	u, err := client.EnvironmentUsage(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(u)
	}
	list, err := client.Environments(ctx, false)
	if err != nil {
		return err
	}
	pairs := [][2]string{
		{"own", ownWords(u)}, {"shared", units.DiskWords(u.Shared) + " of bases, on which others may stand too"},
	}
	for _, g := range u.Groups {
		pairs = append(pairs, [2]string{
			"group " + render.Printable(g.Group),
			units.DiskWords(g.Own) + " of all members, " + partWords(g.Own, "its", g.Quota),
		})
	}
	for _, w := range u.Warnings {
		pairs = append(pairs, [2]string{"warning", w})
	}
	if err := render.Pairs(env.Stdout, pairs); err != nil || len(list) == 0 {
		return err
	}
	fmt.Fprintln(env.Stdout)
	return render.Table(env.Stdout, []string{"DIGEST", "OWN", "SIZE", "USED", "NAMES"}, largest(list, time.Now()), "")
}

func ownWords(u hubapi.EnvironmentUsage) string {
	words := fmt.Sprintf(
		"%s in %s", units.DiskWords(u.Own), units.Count(int64(u.Environments), "environment", "environments"),
	)
	if u.Quota > 0 {
		words += ", " + partWords(u.Own, "your", u.Quota)
	}
	return words
}

// partWords says how much of a quota is used.
func partWords(own int64, whose string, quota int64) string {
	return fmt.Sprintf("%.0f %% of %s %s", math.Floor(100*float64(own)/float64(quota)), whose, units.DiskWords(quota))
}
