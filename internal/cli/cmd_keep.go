package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/errs"
)

// keepCommand is `slipway keep`.
func keepCommand(env Env) *cobra.Command {
	session, asJSON := hubapi.Self, false
	c := &cobra.Command{
		Use: "keep TIME", Short: "Keep a session running while nothing goes on in it, such as `keep 4h`", Args: exactly(1, "a time such as 4h"),
		Example: "  slipway keep 4h\n" +
			"  slipway keep 4h --session default",
		Long: "Keep this session (or --session) running for TIME from now, though nothing may go on in it. Its profile says for how long\n" +
			"that may be asked. A session that has become too old is stopped all the same. When and why a session will be stopped is\n" +
			"shown by `slipway sessions show`.",
		RunE: func(c *cobra.Command, args []string) error {
			return runKeep(c.Context(), env, session, args[0], asJSON)
		},
	}
	c.Flags().StringVar(&session, "session", hubapi.Self, "the session's ID or name")
	c.Flags().BoolVar(&asJSON, "json", false, "print the session as the API's JSON")
	return c
}

func runKeep(ctx context.Context, env Env, session, text string, asJSON bool) error {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return errs.Bad("TIME", text, "a time such as 4h or 90m")
	}
	client, err := connect(env)
	if err != nil {
		return err
	}
	id, err := namedOrHere(ctx, env, client, session, "slipway keep "+text)
	if err != nil {
		return err
	}
	s, err := client.KeepSession(ctx, id, d)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(s)
	}
	return tellKept(env.Stdout, s)
}

// tellKept says what came of it: also that the session's age may end it before.
func tellKept(w io.Writer, s hubapi.Session) error {
	_, err := fmt.Fprintf(w, "%s is kept\n", s.ID)
	switch {
	case err != nil || s.Stops == nil:
	case s.KeepUntil != nil && s.Stops.At.After(*s.KeepUntil):
		at := s.Stops.At.Local().Format(time.DateTime)
		_, err = fmt.Fprintf(w, "it stops at %s at the earliest anyway (%s)\n", at, s.Stops.Why)
	default:
		_, err = fmt.Fprintf(w, "it will be stopped %s\n", stopsAt(s.Stops))
	}
	return err
}

// stopsAt says when and why a session will be stopped.
func stopsAt(s *hubapi.Stops) string {
	return fmt.Sprintf("at %s (%s)", s.At.Local().Format(time.DateTime), s.Why)
}
