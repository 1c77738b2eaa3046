package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/units"
)

// sessionsCommand is `slipway sessions`.
func sessionsCommand(env Env) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "sessions", Short: "List your sessions; start, resume, show, stop or discard one", Args: nothingElse,
		Example: "  slipway sessions\n" +
			"  slipway sessions list --json",
		RunE: func(c *cobra.Command, _ []string) error {
			return watched(c, env, func(ctx context.Context, env Env) error { return runSessions(ctx, env, asJSON) })
		},
	}
	addWatch(c)
	c.PersistentFlags().BoolVar(&asJSON, "json", false, "print the API's JSON")
	show := &cobra.Command{
		Use: "show [ID|NAME]", Args: atMostOne,
		Short:   "Show one session: without a word the one you are in, outside your default server",
		Example: "  slipway sessions show",
		Long: "Show one session: the one of that ID or NAME. `self` is the session that you are in, `default` is your default server.\n" +
			"Without an ID or a NAME it shows the session that you are in. Outside it shows your default server.",
		RunE: func(c *cobra.Command, args []string) error {
			return watched(c, env, func(ctx context.Context, env Env) error {
				return runSessionShow(ctx, env, cmp.Or(strings.Join(args, ""), here(env)), asJSON)
			})
		},
	}
	addWatch(show)
	c.AddCommand(sessionStartCommand(env, &asJSON), sessionResumeCommand(env, &asJSON), show, &cobra.Command{
		Use: "stop ID|NAME", Short: "Stop a session; its changes are kept", Args: exactly(1, "a session's ID or name"),
		Example: "  slipway sessions stop default",
		RunE:    func(c *cobra.Command, args []string) error { return runSessionStop(c.Context(), env, args[0]) },
	}, &cobra.Command{
		Use: "discard ID|NAME", Short: "Discard a session with the changes that it keeps",
		Example: "  slipway sessions discard default",
		Args:    exactly(1, "a session's ID or name"),
		Long: "Discard a session: it is stopped, and what you installed or changed in its environment is removed for ever.\n" +
			"Your home and the environments frozen from it stay. A home that exists only on a worker of a pool is discarded.",
		RunE: func(c *cobra.Command, args []string) error { return runSessionDiscard(c.Context(), env, args[0]) },
	})
	addList(c)
	return c
}

func runSessions(ctx context.Context, env Env, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	list, err := client.Sessions(ctx, "", "")
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(hubapi.Sessions{Sessions: list})
	}
	var rows [][]string
	for _, s := range list {
		rows = append(rows, []string{
			s.ID, s.User, s.Name, s.Kind, phaseWord(s.Workload), s.Profile, fmt.Sprint(s.CPUs), s.Memory,
			render.Ago(s.Since, time.Now()), sessionRemark(s),
		})
	}
	head := []string{"ID", "USER", "NAME", "KIND", "PHASE", "PROFILE", "CPUS", "MEMORY", "SINCE", "REMARK"}
	head = env.wider(head, rows, []string{"SLICE", "WHERE", "IMAGE", "ENVIRONMENT"}, func(i int) []string {
		s := list[i]
		return []string{heldWord(s.Workload), whereWord(s.Workload), s.Image, render.ShortDigest(s.Environment)}
	})
	return render.Table(env.Stdout, head, rows, "No sessions. Start your server in JupyterHub.")
}

// phaseWord says to people what a workload is about. A standby has nothing to do but to be there.
func phaseWord(w hubapi.Workload) string {
	if w.Standby && w.Want == "running" && w.Phase != "stopping" {
		return "standby"
	}
	return w.Phase
}

// sessionRemark is a session's remark; of one that keeps changes it says over what, by which several of a server's are
// told apart.
func sessionRemark(s hubapi.Session) string {
	words := remark(s.Workload)
	switch {
	case words != keptWords:
		return words
	case s.Environment != "":
		return words + ", over " + render.ShortDigest(s.Environment)
	case s.Image != "":
		return words + ", over " + s.Image
	}
	return words
}

const keptWords = "changes are kept"

// keptOf says what is kept of a workload that has ended; empty: nothing that could come back.
func keptOf(w hubapi.Workload) string {
	if w.Kind == "job" || w.Kind == "kernel" {
		return ""
	}
	return keptWords
}

// remark is what the owner of a workload should know at a glance.
func remark(w hubapi.Workload) string {
	switch {
	case w.Waiting != "":
		return w.Waiting
	case w.Outcome != nil && w.Outcome.Failed:
		return w.Outcome.Reason
	case w.Outcome != nil && w.Outcome.Expired:
		return strings.TrimSuffix(w.Outcome.Reason+"; "+keptOf(w), "; ")
	case w.Phase == "stopped" && w.Up != nil:
		return keptOf(w)
	default:
		return ""
	}
}

func runSessionShow(ctx context.Context, env Env, word string, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	id, err := idOf(ctx, client, word, true)
	if err != nil {
		return err
	}
	s, err := client.Session(ctx, id)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(s)
	}
	pairs := append(
		pairsOf(s.Workload),
		[][2]string{{"profile", s.Profile}, {"image", s.Image}, {"environment", s.Environment}, {"path", s.Prefix}}...,
	)
	if s.Active != nil {
		pairs = append(pairs, [2]string{"last active", s.Active.Local().Format(time.DateTime)})
	}
	if s.Stops != nil {
		pairs = append(pairs, [2]string{"is stopped", stopsAt(s.Stops)})
	}
	if s.Phase == "running" {
		pairs = append(pairs, quotaPairs(ctx, client, s)...)
	}
	if report, err := client.DataReport(ctx, id); err == nil {
		pairs = append(pairs, dataPairs(report)...)
	}
	err = render.Pairs(env.Stdout, pairs)
	if err == nil && s.Outcome != nil && s.Outcome.Tail != "" {
		_, err = fmt.Fprintf(env.Stdout, "\nlast lines of its output:\n%s\n", s.Outcome.Tail)
	}
	return err
}

// pairsOf returns what sessions and jobs have in common, to show one.
func pairsOf(w hubapi.Workload) [][2]string {
	pairs := [][2]string{
		{"id", w.ID}, {"kind", w.Kind}, {"user", w.User}, {"name", w.Name}, {"backend", w.Backend}, {"host", w.Host},
		{"phase", phaseWord(w)}, {"since", w.Since.Local().Format(time.DateTime)}, {"waits", w.Waiting},
		{"cpus", fmt.Sprint(w.CPUs)}, {"memory", units.MemoryText(w.Memory)},
	}
	if w.Evictions > 0 {
		pairs = append(pairs, [2]string{"evicted", fmt.Sprintf("%dx: it began anew each time", w.Evictions)})
	}
	pairs = append(pairs, slicePairs(w)...)
	if o := w.Outcome; o != nil {
		pairs = append(
			pairs, [][2]string{{"exit code", fmt.Sprint(o.ExitCode)}, {"reason", o.Reason}, {"remedy", o.Remedy}}...,
		)
		if o.MaxRSS > 0 {
			pairs = append(
				pairs, [2]string{"peak memory", peakWords(o.MaxRSS, w.Memory)},
				[2]string{"CPU time", fmt.Sprintf("%.1f s", o.CPU)},
			)
		}
	}
	return pairs
}

// peakWords compares the most memory that a workload had with what it may have.
func peakWords(peak int64, memory string) string {
	words := units.MemoryWords(peak)
	if limit, err := units.ParseMemory(memory); err == nil && limit > 0 {
		words += fmt.Sprintf(", %.0f%% of %s", 100*float64(peak)/float64(limit), units.MemoryWords(limit))
	}
	return words
}

// slicePairs tells what a workload asks for and holds of a GPU.
func slicePairs(w hubapi.Workload) [][2]string {
	s := w.Slice
	if s == nil && w.GPU == "none" {
		return nil
	}
	if s == nil {
		return [][2]string{{"gpu", w.GPU + " (asked for)"}}
	}
	name := fmt.Sprintf("%s of %s, %s, isolation: %s", s.Name, s.Model, memoryWords(&s.Memory), s.Isolation)
	if s.Simulated {
		name += ", simulated"
	}
	if s.Borrowed {
		name += ", borrowed while its owner is away"
	}
	use := s.Use.Unmeasured
	if s.Use.Source != "" {
		use = fmt.Sprintf(
			"busy %s, memory %s, at most %s (by %s)", percent(s.Use.SM), memoryWords(s.Use.Memory),
			memoryWords(s.Use.Peak), s.Use.Source,
		)
	}
	pairs := [][2]string{{"gpu", name}, {"gpu use", use}, {"gpu hint", s.Use.Hint}}
	if e := s.Use.Energy; e != nil {
		pairs = append(pairs, [2]string{"gpu energy", fmt.Sprintf("%.0f J, estimated", *e)})
	}
	return pairs
}

// dataPairs tells what was found of a session's data: what is amiss by itself, the rest by its number.
func dataPairs(r hubapi.DataReport) (pairs [][2]string) {
	fine := 0
	for _, c := range r.Checks {
		if c.Result == hubapi.CheckOK {
			fine++
			continue
		}
		said := c.Check + ": " + c.Finding
		if c.Remedy != "" {
			said += " -> " + c.Remedy
		}
		pairs = append(pairs, [2]string{"data " + c.Result, said})
	}
	summary := fmt.Sprintf(
		"%d of %d checks found nothing amiss, at %s", fine, len(r.Checks), r.At.Local().Format(time.DateTime),
	)
	if r.Running {
		summary += "; they are made again now"
	}
	return append([][2]string{{"data", summary}}, pairs...)
}

func runSessionStop(ctx context.Context, env Env, word string) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	id, err := idOf(ctx, client, word, true)
	if err != nil {
		return err
	}
	s, err := client.StopSession(ctx, id)
	if err == nil {
		fmt.Fprintf(env.Stdout, "%s is %s; its changes are kept\n", s.ID, s.Phase)
	}
	return err
}

func runSessionDiscard(ctx context.Context, env Env, word string) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	id, err := idOf(ctx, client, word, false)
	if err != nil {
		return err
	}
	if err := client.RemoveSession(ctx, id); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "%s is being discarded\n", id)
	return err
}
