package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
)

// freezeOptions are the flags of `slipway freeze`.
type freezeOptions struct {
	hubapi.FreezeRequest
	session string
	asJSON  bool
}

// freezeCommand is `slipway freeze`.
func freezeCommand(env Env) *cobra.Command {
	o := freezeOptions{session: hubapi.Self}
	c := &cobra.Command{
		Use: "freeze", Short: "Make an environment out of a session", Args: nothingElse,
		Long: "Make an immutable environment, named by its digest, out of this session (or of --session). When nothing has\n" +
			"changed since the last freeze, the digest is the same and is there at once.",
		RunE: func(c *cobra.Command, _ []string) error { return runFreeze(c.Context(), env, o) },
	}
	c.Flags().StringVar(&o.Name, "name", "", "a name for the environment")
	c.Flags().StringVar(&o.Tag, "tag", "", "a tag beside the name")
	c.Flags().StringVar(&o.Note, "note", "", "a note for people")
	c.Flags().StringVar(&o.session, "session", hubapi.Self, "the session's ID")
	c.Flags().BoolVar(&o.asJSON, "json", false, "print the environment as the API's JSON")
	return c
}

func runFreeze(ctx context.Context, env Env, o freezeOptions) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	e, err := freeze(ctx, env.Stderr, client, o.session, o.FreezeRequest)
	if err != nil {
		return err
	}
	if o.asJSON {
		return printJSON(env.Stdout, e)
	}
	_, err = fmt.Fprintln(env.Stdout, e.Digest)
	return err
}

// freeze freezes a session and tells progress, a line for each step, on w.
func freeze(ctx context.Context, w io.Writer, client *hubapi.Client, session string, r hubapi.FreezeRequest) (hubapi.Environment, error) {
	start, stage := time.Now(), ""
	e, err := client.Freeze(ctx, session, r, func(p hubapi.Progress) {
		if p.Stage != stage {
			stage = p.Stage
			fmt.Fprintf(w, "freeze: %s\n", p.Message)
		}
	})
	if err != nil {
		return e, err
	}
	word := "frozen"
	if e.Unchanged {
		word = "unchanged"
	}
	fmt.Fprintf(w, "freeze: %s as %s, %s, %.1f s\n", word, shortDigest(e.Digest), megabytes(e.Size), time.Since(start).Seconds())
	return e, nil
}
