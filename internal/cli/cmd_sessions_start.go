package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
)

// startOptions are the flags of `slipway sessions start`; what is empty is left to the profile.
type startOptions struct {
	profile, image, cpus, memory, environment string
	fresh                                     bool
}

// sessionStartCommand is `slipway sessions start`.
func sessionStartCommand(env Env, asJSON *bool) *cobra.Command {
	o := startOptions{}
	c := &cobra.Command{
		Use: "start [NAME]", Short: "Start a session, from an environment if you like", Args: atMostOne,
		Example: "  slipway sessions start\n" +
			"  slipway sessions start fits --env analysis:v1 --mem 4G",
		Long: "Start your default server, or the one of that NAME, as the spawn form of the Hub does, and tell what happens until it is up.\n" +
			"With --env it starts from that environment. Interrupted, the start goes on; the same command tells of it again.\n\n" +
			"A server that was stopped comes back with the changes that it kept, if it is started from the same; --fresh discards them.",
		RunE: inFlags(func(c *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return runSessionStart(c.Context(), env, hubapi.ServerRequest{Name: name, Options: o.options()}, *asJSON)
		}),
	}
	c.Flags().StringVar(
		&o.environment, "env", "", "the environment: digest, the beginning of it, name, name:tag or owner/name:tag",
	)
	c.Flags().StringVar(&o.profile, "profile", "", "the profile")
	c.Flags().StringVar(&o.image, "image", "", "the image, of those that the profile offers")
	c.Flags().StringVar(&o.cpus, "cpus", "", "processors")
	c.Flags().StringVar(&o.memory, "mem", "", "memory, such as 4G")
	c.Flags().BoolVar(&o.fresh, "fresh", false, "discard the changes that the server of this name has kept")
	return c
}

// options returns the flags in the shape of the spawn form's answer.
func (o startOptions) options() map[string]any {
	all := map[string]any{}
	for name, value := range map[string]string{
		"profile": o.profile, "image": o.image, "cpus": o.cpus, "memory": o.memory, "environment": o.environment,
	} {
		if value != "" {
			all[name] = value
		}
	}
	if o.fresh {
		all["fresh"] = "yes"
	}
	return all
}

func runSessionStart(ctx context.Context, env Env, r hubapi.ServerRequest, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	steps := &steps{w: env.Stderr, what: "start"}
	s, err := client.StartServer(ctx, r, func(p hubapi.Progress) {
		p.Stage = p.Message // what the Hub says anew is told at once
		steps.tell(p)
	})
	steps.flush()
	if err != nil && ctx.Err() != nil {
		name := cmp.Or(r.Name, defaultServer)
		return errs.New(errs.Conflict, "interrupted: the start of %s goes on", name).With(
			"`" + strings.TrimSpace("slipway sessions start "+r.Name) + "` shows it again, `slipway sessions stop " + name +
				"` ends it",
		)
	}
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(s)
	}
	where := s.Prefix + " of your Hub"
	if s.URL != "" {
		where = render.Printable(s.URL)
	}
	_, err = fmt.Fprintf(env.Stdout, "%s runs, at %s\n", s.ID, where)
	return err
}
