package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
)

// sessionResumeCommand is `slipway sessions resume`.
func sessionResumeCommand(env Env, asJSON *bool) *cobra.Command {
	return &cobra.Command{
		Use: "resume [NAME]", Short: "Start a stopped session again as it was", Args: atMostOne,
		Example: "  slipway sessions resume",
		Long: "Start your default server, or the one of that NAME, again as it last was: the same profile, image or environment, processors and\n" +
			"memory, with the changes that it has kept. `slipway sessions start` starts it otherwise.",
		RunE: func(c *cobra.Command, args []string) error {
			return runSessionResume(c.Context(), env, strings.Join(args, ""), *asJSON)
		},
	}
}

func runSessionResume(ctx context.Context, env Env, name string, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	me, err := client.Me(ctx)
	if err != nil {
		return err
	}
	all, err := client.Sessions(ctx, me.User, "")
	if err != nil {
		return err
	}
	name = serverName(all, me.User, name)
	s, err := lastOf(all, me.User, name)
	if err != nil {
		return err
	}
	if s.Phase == "running" && s.Want == "running" {
		return tellRunning(env, s, asJSON)
	}
	options, err := sessionOptions(ctx, client, s)
	if err != nil {
		return err
	}
	return runSessionStart(ctx, env, hubapi.ServerRequest{Name: name, Options: options}, asJSON)
}

// tellRunning says of what is to be resumed that it goes on.
func tellRunning(env Env, s hubapi.Session, asJSON bool) error {
	if asJSON {
		return env.data(s)
	}
	_, err := fmt.Fprintf(env.Stdout, "%s runs already, at %s of your Hub\n", s.ID, render.Printable(s.Prefix))
	return err
}

// lastOf returns the session that a user's server of that name last was. What goes on, or begins, is no different: the
// start joins it.
func lastOf(all []hubapi.Session, user, name string) (hubapi.Session, error) {
	var found *hubapi.Session
	var others []errs.Detail
	for _, s := range all {
		switch {
		case s.User != user || s.Want == "gone":
		case s.Name != name && s.Phase == "stopped":
			others = append(others, errs.Detail{
				What: strings.TrimSpace(fmt.Sprintf("slipway sessions resume %s", s.Name)) + ": " + s.Profile,
			})
		case s.Name == name && (found == nil || s.Since.After(found.Since)):
			found = &s
		}
	}
	if found != nil {
		return *found, nil
	}
	what := fmt.Sprintf("session %q", name)
	if name == "" {
		what = "default session"
	}
	none := errs.New(errs.NotFound, "you have no stopped %s", what)
	if len(others) == 0 {
		return hubapi.Session{}, none.With("`slipway sessions start` starts one anew")
	}
	return hubapi.Session{}, none.Naming(slices.Compact(others)).With("resume one of these, or start one anew by `slipway sessions start`")
}

// sessionOptions says on the spawn form what a session was started with.
func sessionOptions(ctx context.Context, client *hubapi.Client, s hubapi.Session) (map[string]any, error) {
	o := startOptions{profile: s.Profile, cpus: fmt.Sprint(s.CPUs), memory: s.Memory, environment: s.Environment}
	if s.Environment != "" {
		return o.options(), nil // it says which image it stands on
	}
	profiles, err := client.Profiles(ctx)
	if err != nil {
		return nil, err
	}
	o.image, err = imageName(profiles, s)
	return o.options(), err
}

// imageName finds what the profile of a session calls its image. Why a profile is not offered to her, the service says
// at the start.
func imageName(profiles []hubapi.Profile, s hubapi.Session) (string, error) {
	i := slices.IndexFunc(profiles, func(p hubapi.Profile) bool { return p.Name == s.Profile })
	if i < 0 {
		return "", nil
	}
	for _, image := range profiles[i].Images {
		if image.Ref == s.Image {
			return image.Name, nil
		}
	}
	return "", errs.New(
		errs.Conflict, "profile %s does not offer %s any more, from which this session was started", s.Profile, s.Image,
	).With("start it from another by `slipway sessions start`; its changes are kept")
}
