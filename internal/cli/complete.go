package cli

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/units"
)

// completionPatience is how long a shell waits for words: a user who has pressed a key does not wait for a service that
// is away.
const completionPatience = 1500 * time.Millisecond

// wordsOf gives what could be typed, each with a description behind a tab. What goes wrong gives none.
type wordsOf func(context.Context, *hubapi.Client) ([]string, error)

// complete makes cobra's function of it, for a command with so many arguments of that kind at most. Those that are
// there already are not offered again.
func complete(env Env, words wordsOf, most int) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveDefault
		}
		client, err := connect(env)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, stop := context.WithTimeout(context.Background(), completionPatience)
		defer stop()
		all, err := words(ctx, client)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.DeleteFunc(all, func(word string) bool {
			id, _, _ := strings.Cut(word, "\t")
			return !strings.HasPrefix(id, typed) || slices.Contains(args, id)
		}), cobra.ShellCompDirectiveNoFileComp
	}
}

// described puts a description behind a word, if there is one that says more.
func described(word string, about ...string) string {
	about = slices.DeleteFunc(about, func(s string) bool { return s == "" })
	if len(about) == 0 {
		return word
	}
	return word + "\t" + render.Printable(strings.Join(about, ", "))
}

// jobIDs are the IDs of the caller's own jobs, and scans, of whose states one at least is fit.
func jobIDs(fit func(hubapi.State) bool) wordsOf {
	return func(ctx context.Context, client *hubapi.Client) (all []string, err error) {
		me, err := client.Me(ctx)
		if err != nil {
			return nil, err
		}
		list, err := jobsOf(ctx, client, me.User)
		for _, j := range list.Jobs {
			if fit(j.State) {
				all = append(all, described(j.ID, j.Name, jobState(j)))
			}
		}
		for _, s := range list.Scans {
			if slices.ContainsFunc(slices.Collect(maps.Keys(s.States)), func(state hubapi.State) bool { return s.States[state] > 0 && fit(state) }) {
				all = append(all, described(s.ID, s.Name, stateWords(s)))
			}
		}
		return all, err
	}
}

func environmentNames(ctx context.Context, client *hubapi.Client) (all []string, err error) {
	list, err := client.Environments(ctx, true)
	for _, e := range list {
		name := render.ShortDigest(e.Digest)
		if e.Name != "" && e.Tag != "" {
			name = e.Name + ":" + e.Tag
		} else if e.Name != "" {
			name = e.Name
		}
		if !e.Mine && e.Name != "" {
			name = e.Owner + "/" + name
		}
		all = append(all, described(name, e.Note, units.DiskWords(e.Size)))
	}
	return all, err
}

// backendNames are those that the caller's jobs have gone to, beside those that every site knows.
func backendNames(ctx context.Context, client *hubapi.Client) ([]string, error) {
	known := map[string]string{"any": "where it would start first", "local": "the service's own host"}
	names := slices.Collect(maps.Keys(known))
	list, err := client.JobsAndScans(ctx, hubapi.JobFilter{})
	if err == nil {
		for _, j := range list.Jobs {
			names = append(names, j.Backend)
		}
		for _, s := range list.Scans {
			names = append(names, s.Backend)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for i, name := range names {
		names[i] = described(name, known[name])
	}
	return names, nil
}

func gpuSlices(ctx context.Context, client *hubapi.Client) (all []string, err error) {
	gpus, err := client.GPUs(ctx)
	for _, o := range gpus.Offers {
		all = append(all, described(o.Name, units.Grouped(int64(o.Free))+" of "+units.Grouped(int64(o.Most))+" free"))
	}
	return all, err
}

func profileNames(ctx context.Context, client *hubapi.Client) (all []string, err error) {
	list, err := client.Profiles(ctx)
	for _, p := range list {
		all = append(all, described(p.Name, p.Title))
	}
	return all, err
}

func sessionIDs(ctx context.Context, client *hubapi.Client) (all []string, err error) {
	list, err := client.Sessions(ctx, "", "")
	for _, s := range list {
		all = append(all, described(s.ID, s.Name, s.Kind, s.Phase))
	}
	return all, err
}

// completeAll has the commands below root complete what the service knows: their arguments by their names, and their
// flags.
func completeAll(root *cobra.Command, env Env) {
	any, ended := jobIDs(func(hubapi.State) bool { return true }), jobIDs(hubapi.State.Ended)
	going := jobIDs(func(s hubapi.State) bool { return !s.Ended() })
	undone := jobIDs(func(s hubapi.State) bool { return s.Ended() && s != hubapi.JobDone })
	arguments := map[string]wordsOf{
		"jobs show": any, "jobs why": going, "jobs logs": any, "jobs files": ended, "jobs results": any,
		"jobs watch": going, "jobs cancel": going,
		"jobs hold": going, "jobs release": going, "jobs requeue": going, "jobs rm": ended, "jobs retry": undone,
		"jobs resubmit": any,
		"envs show":     environmentNames, "envs diff": environmentNames, "envs history": environmentNames,
		"envs verify": environmentNames,
		"envs tag":    environmentNames, "envs share": environmentNames, "envs rm": environmentNames,
		"envs push":   environmentNames,
		"envs export": environmentNames, "sessions show": sessionIDs, "sessions stop": sessionIDs,
		"sessions discard": sessionIDs,
	}
	several := map[string]int{"jobs rm": math.MaxInt, "envs diff": 2, "envs rm": math.MaxInt}
	flags := map[string]wordsOf{
		"submit --env": environmentNames, "submit --gpu": gpuSlices, "submit --to": backendNames, "submit --after": any,
		"jobs resubmit --env": environmentNames, "jobs resubmit --gpu": gpuSlices, "jobs resubmit --to": backendNames,
		"jobs resubmit --after": any,
		"sessions start --env":  environmentNames, "sessions start --profile": profileNames,
		"freeze --session": sessionIDs, "keep --session": sessionIDs,
	}
	for path, words := range arguments {
		if c, rest, err := root.Find(strings.Fields(path)); err == nil && len(rest) == 0 {
			c.ValidArgsFunction = complete(env, words, max(1, several[path]))
		}
	}
	for path, words := range flags {
		command, flag, _ := strings.Cut(path, " --")
		c, _, err := root.Find(strings.Fields(command))
		if err == nil && c.Flags().Lookup(flag) != nil {
			// it has none yet: that alone would be an error
			_ = c.RegisterFlagCompletionFunc(flag, complete(env, words, math.MaxInt))
		}
	}
}
