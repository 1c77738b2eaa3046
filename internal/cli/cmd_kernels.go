package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
)

// kernelsCommand is `slipway kernels`.
func kernelsCommand(env Env) *cobra.Command {
	asJSON, everybody := false, false
	root := &cobra.Command{
		Use: "kernels", Short: "List your Jupyter kernels; start, interrupt, restart, stop or switch one",
		Example: "  slipway kernels\n" +
			"  slipway kernels list --json",
		Args: nothingElse,
		RunE: func(c *cobra.Command, _ []string) error { return runKernels(c.Context(), env, asJSON, everybody) },
		Long: "Kernels that run as sessions of their own, each with what its kernelspec gives it: those that JupyterLab and VS Code start on\n" +
			"slices. The kernels that a session's own Jupyter Server runs are not among them.\n\n" +
			"ID is what `slipway kernels` lists, Jupyter's own ID or the beginning of it, a kernelspec's name if one kernel of yours is\n" +
			"of it, or `self` in a kernel.",
	}
	root.PersistentFlags().BoolVar(&asJSON, "json", false, "print the API's JSON")
	root.Flags().BoolVar(&everybody, "all-users", false, "list everybody's, for administrators")
	addList(root)
	root.AddCommand(kernelStopCommand(env), kernelStartCommand(env, &asJSON), kernelSwitchCommand(env, &asJSON), &cobra.Command{
		Use: "specs", Short: "List the kernelspecs that you may start kernels of, and what of them is free",
		Example: "  slipway kernels specs",
		Args:    nothingElse,
		Long: "List the kernelspecs that you may start kernels of, what of them is free now, and to what they can be switched.\n" +
			"Administrators see in STAND BY how many are up already for their users' next starts, and why not more (kernels.specs[].max_warm).",
		RunE: func(c *cobra.Command, _ []string) error { return runKernelSpecs(c.Context(), env, asJSON) },
	}, &cobra.Command{
		Use: "interrupt ID...", Short: "Interrupt what kernels run, as JupyterLab's square does", Args: someKernels,
		Example: "  slipway kernels interrupt s-6yqx7mavk3wcs2dh",
		RunE: func(c *cobra.Command, args []string) error {
			return eachKernel(c.Context(), env, args, func(ctx context.Context, client *hubapi.Client, k ownKernel) (string, error) {
				return "interrupted", client.InterruptKernel(ctx, k.ID)
			})
		},
	}, &cobra.Command{
		Use: "restart ID...", Short: "Restart kernels: what they have computed is lost, their slices stay theirs",
		Example: "  slipway kernels restart s-6yqx7mavk3wcs2dh",
		Args:    someKernels,
		RunE: func(c *cobra.Command, args []string) error {
			return eachKernel(c.Context(), env, args, func(ctx context.Context, client *hubapi.Client, k ownKernel) (string, error) {
				_, err := client.RestartKernel(ctx, k.ID)
				return "restarted", err
			})
		},
	})
	return root
}

func someKernels(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageError{fmt.Errorf("%s needs the ID of a kernel; see `%s --help`", c.CommandPath(), c.CommandPath())}
	}
	return nil
}

// ownKernel is a kernel with what it is as a session.
type ownKernel struct {
	hubapi.Kernel
	Workload *hubapi.Session `json:"workload"` // null: it has ended meanwhile
}

// ownKernels lists the caller's kernels.
func ownKernels(ctx context.Context, client *hubapi.Client) ([]ownKernel, error) {
	kernels, err := client.Kernels(ctx)
	if err != nil || len(kernels) == 0 {
		return []ownKernel{}, err
	}
	sessions, err := client.Sessions(ctx, "", "")
	if err != nil {
		return nil, err
	}
	list := make([]ownKernel, 0, len(kernels))
	for _, k := range kernels {
		o := ownKernel{Kernel: k}
		if i := slices.IndexFunc(sessions, func(s hubapi.Session) bool { return s.ID == k.Session }); i >= 0 {
			o.Workload = &sessions[i]
		}
		list = append(list, o)
	}
	return list, nil
}

func runKernels(ctx context.Context, env Env, asJSON, everybody bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	if everybody {
		return runEverybodysKernels(ctx, env, client, asJSON)
	}
	list, err := ownKernels(ctx, client)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(map[string][]ownKernel{"kernels": list})
	}
	var rows [][]string
	for _, k := range list {
		w := hubapi.Session{}
		if k.Workload != nil {
			w = *k.Workload
		}
		rows = append(rows, []string{
			k.Session, k.Name, k.State, heldWord(w.Workload), whereWord(w.Workload), age(w.Created), idleFor(k.Kernel),
			fmt.Sprint(k.Connections),
			cmp.Or(k.Reason, w.Waiting, k.Progress),
		})
	}
	head := []string{"ID", "KERNEL", "STATE", "SLICE", "WHERE", "AGE", "IDLE FOR", "CONNECTIONS", "REMARK"}
	return render.Table(env.Stdout, head, rows, "No kernels. Start one in JupyterLab's launcher, or with `slipway kernels start`.")
}

// runEverybodysKernels lists what an administrator may see: not what the kernels do, for that only their agents know.
func runEverybodysKernels(ctx context.Context, env Env, client *hubapi.Client, asJSON bool) error {
	me, err := client.Me(ctx)
	if err == nil && (!me.Admin || me.Session != "") {
		err = errs.New(errs.Forbidden, "only administrators see everybody's kernels, with a token").With("`slipway kernels` lists yours")
	}
	if err != nil {
		return err
	}
	all, err := client.Sessions(ctx, "", "")
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(s hubapi.Session) bool { return s.Kind != "kernel" })
	if asJSON {
		return env.data(hubapi.Sessions{Sessions: all})
	}
	var rows [][]string
	for _, s := range all {
		quiet := ""
		if s.Active != nil {
			quiet = age(*s.Active)
		}
		rows = append(rows, []string{
			s.ID, s.User, s.Name, phaseWord(s.Workload), heldWord(s.Workload), whereWord(s.Workload), age(s.Created),
			quiet, remark(s.Workload),
		})
	}
	return render.Table(
		env.Stdout, []string{"ID", "USER", "KERNEL", "PHASE", "SLICE", "WHERE", "AGE", "IDLE FOR", "REMARK"}, rows,
		"Nobody has a kernel.",
	)
}

// age says for how long something has been so.
func age(since time.Time) string { return strings.TrimSuffix(render.Ago(since, time.Now()), " ago") }

// idleFor says since when nothing went on in a kernel; empty: it computes, or is not up. What a cell says last is not
// when it ends.
func idleFor(k hubapi.Kernel) string {
	if k.State != hubapi.KernelIdle {
		return ""
	}
	return age(k.Activity)
}

// heldWord names the slice of a GPU that a workload holds or asks for.
func heldWord(w hubapi.Workload) string {
	switch {
	case w.Slice != nil && w.Slice.Simulated:
		return w.Slice.Name + " (simulated)"
	case w.Slice != nil:
		return w.Slice.Name
	case w.GPU == "none" || w.GPU == "":
		return ""
	}
	return w.GPU + " (asked for)"
}

// whereWord says where a workload runs: the host, as far as a batch system has told of it.
func whereWord(w hubapi.Workload) string {
	if w.Host != "" {
		return w.Backend + ": " + w.Host
	}
	return w.Backend
}

// eachKernel does something to several kernels, and says what became of each.
func eachKernel(
	ctx context.Context, env Env, words []string, do func(context.Context, *hubapi.Client, ownKernel) (string, error),
) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	meant, err := kernelsMeant(ctx, client, words)
	if err != nil {
		return err
	}
	var failed []error
	for _, k := range meant {
		done, err := do(ctx, client, k)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", k.Session, err))
			continue
		}
		fmt.Fprintf(env.Stdout, "%s (%s) is %s\n", k.Session, render.Printable(k.Name), done)
	}
	return errors.Join(failed...)
}

// kernelsMeant finds the caller's kernels that words mean, each once.
func kernelsMeant(ctx context.Context, client *hubapi.Client, words []string) (list []ownKernel, err error) {
	all, err := ownKernels(ctx, client)
	if err != nil {
		return nil, err
	}
	for _, word := range words {
		id := word
		if word == hubapi.Self {
			me, err := client.Me(ctx)
			if err != nil {
				return nil, err
			}
			id = me.Session
		}
		k, err := kernelMeant(all, id)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(list, func(o ownKernel) bool { return o.ID == k.ID }) {
			list = append(list, k)
		}
	}
	return list, nil
}

// leastID is of how many characters the beginning of an ID is at least.
const leastID = 4

// kernelMeant finds the one that a word means.
func kernelMeant(all []ownKernel, word string) (ownKernel, error) {
	var found []ownKernel
	for _, k := range all {
		switch {
		case k.ID == word || k.Session == word:
			return k, nil
		case k.Name == word || len(word) >= leastID && (strings.HasPrefix(k.ID, word) ||
			strings.HasPrefix(k.Session, word)):
			found = append(found, k)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return ownKernel{}, errs.New(errs.NotFound, "there is no kernel %.80q of yours", word).With("`slipway kernels` lists them")
	}
	var several []errs.Detail
	for _, k := range found {
		several = append(several, errs.Detail{What: k.Session + ": " + k.Name + ", " + k.State})
	}
	return ownKernel{}, errs.New(errs.Conflict, "%d of your kernels are meant by %q", len(found), word).Naming(several).
		With("name one by its ID")
}

// kernelIDs and kernelSpecNames are for completion.
func kernelIDs(ctx context.Context, client *hubapi.Client) (all []string, err error) {
	list, err := client.Kernels(ctx)
	for _, k := range list {
		all = append(all, described(k.Session, k.Name, k.State))
	}
	return all, err
}

func kernelSpecNames(ctx context.Context, client *hubapi.Client) (all []string, err error) {
	list, err := client.KernelSpecs(ctx)
	for _, k := range list {
		all = append(all, described(k.Name, k.DisplayName, k.Available.Words))
	}
	return all, err
}

// completeKernels has the commands below `slipway kernels` complete their arguments.
func completeKernels(root *cobra.Command, env Env) {
	for path, words := range map[string]wordsOf{
		"kernels interrupt": kernelIDs, "kernels restart": kernelIDs, "kernels stop": kernelIDs,
		"kernels start": kernelSpecNames,
	} {
		if c, rest, err := root.Find(strings.Fields(path)); err == nil && len(rest) == 0 {
			most := math.MaxInt
			if c.Name() == "start" {
				most = 1
			}
			c.ValidArgsFunction = complete(env, words, most)
		}
	}
}
