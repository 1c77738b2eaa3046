package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
	"slipway/internal/units"
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
		Example: "  slipway freeze --name analysis:v1 --note 'the fit of the paper'",
		Long: "Make an immutable environment, named by its digest, out of this session (or of --session). The session goes on meanwhile; it\n" +
			"stands still for a fraction of a second. When nothing has changed since the last freeze, the digest is the same and is there\n" +
			"at once.\n\n" +
			"What only interactive work needs or must not travel is left out; `slipway envs show --strip` lists it. A freeze that would\n" +
			"publish a private key, a token or a proxy stops and names the file. --allow-secret lets one through, which is recorded: in\n" +
			"the environment and in the service's log.\n\n" +
			"Within the session it also looks which Python packages and CVMFS repositories the session's programs have in use. Behind the\n" +
			"freeze these packages are imported in the image alone, as in a batch job; `slipway envs show` says what came of it. It sees\n" +
			"those with compiled parts; %freeze in a notebook names all that its kernel has imported.",
		RunE: func(c *cobra.Command, _ []string) error { return runFreeze(c.Context(), env, o) },
	}
	c.Flags().StringVar(&o.Name, "name", "", "a name for the environment, also as `NAME:TAG`")
	c.Flags().StringVar(&o.Tag, "tag", "", "a tag beside the name")
	c.Flags().StringVar(&o.Note, "note", "", "a note for people")
	c.Flags().StringArrayVar(&o.Allow, "allow-secret", nil,
		"`PATH` of a file that may hold what looks like a secret; with a slash at its end, all below it (repeatable)")
	c.Flags().StringVar(&o.session, "session", hubapi.Self, "the session's ID or name")
	c.Flags().BoolVar(&o.asJSON, "json", false, "print the environment as the API's JSON")
	return c
}

func runFreeze(ctx context.Context, env Env, o freezeOptions) error {
	if name, tag, both := strings.Cut(o.Name, ":"); both {
		if o.Tag != "" && o.Tag != tag {
			return errs.Bad("tag", o.Tag, fmt.Sprintf("give the tag once: --name %.80s has another", o.Name))
		}
		o.Name, o.Tag = name, tag
	}
	client, err := connect(env)
	if err != nil {
		return err
	}
	id, err := namedOrHere(ctx, env, client, o.session, "slipway freeze")
	if err != nil {
		return err
	}
	if id == hubapi.Self { // another's programs are not in sight
		o.Imported, o.CVMFS = inUse()
		warnOfHome(env.Stderr, os.Getenv("HOME"), os.Getenv("PATH"))
	}
	e, err := freeze(ctx, env.Stderr, client, id, o.FreezeRequest)
	if err != nil {
		return err
	}
	if o.asJSON {
		return env.data(e)
	}
	_, err = fmt.Fprintln(env.Stdout, e.Digest)
	return err
}

// freeze freezes a session and tells progress on w, and what has come of it.
func freeze(
	ctx context.Context, w io.Writer, client *hubapi.Client, session string, r hubapi.FreezeRequest,
) (hubapi.Environment, error) {
	start := time.Now()
	e, err := freezeFor(ctx, w, client, session, r)
	if err == nil {
		fmt.Fprintf(w, "freeze: %s, %.1f s\n", frozenWords(e), time.Since(start).Seconds())
	}
	return e, err
}

// freezeFor freezes a session for a command that tells by itself what has come of it.
func freezeFor(
	ctx context.Context, w io.Writer, client *hubapi.Client, session string, r hubapi.FreezeRequest,
) (hubapi.Environment, error) {
	steps := &steps{w: w, what: "freeze"}
	e, err := client.Freeze(ctx, session, r, steps.tell)
	steps.flush()
	if err != nil {
		return e, err
	}
	for _, path := range e.Secrets {
		fmt.Fprintf(w, "freeze: in it by your word, though it looks like a secret: %s\n", render.Printable(path))
	}
	for _, warning := range e.Warnings {
		fmt.Fprintf(w, "freeze: warning: %s\n", render.Printable(warning))
	}
	return e, nil
}

func frozenWords(e hubapi.Environment) string {
	if e.Unchanged {
		return fmt.Sprintf("unchanged as %s, %s", render.ShortDigest(e.Digest), units.DiskWords(e.Size))
	}
	words := fmt.Sprintf(
		"frozen as %s, %s, %s of them its own", render.ShortDigest(e.Digest), units.DiskWords(e.Size),
		units.DiskWords(e.Own),
	)
	if e.Paused >= 0.005 { // else it reads as none
		words += fmt.Sprintf("; the session stood still for %.2f s", e.Paused)
	}
	return words
}

// stepEvery is how often a step that takes long is told again.
const stepEvery = 2 * time.Second

// steps tells the steps of something long: a line for each when it is over, with what it came to, and one now and then
// while it lasts.
type steps struct {
	w    io.Writer
	what string // begins each line
	now  hubapi.Progress
	told time.Time // the time of the last line; zero before the first progress
	left bool      // now was not told yet
}

func (s *steps) tell(p hubapi.Progress) {
	if s.told.IsZero() {
		s.told = time.Now()
	}
	if p.Stage != s.now.Stage {
		s.flush()
	}
	if p.Stage == hubapi.EventDone { // the last line says it
		return
	}
	s.now, s.left = p, true
	if time.Since(s.told) >= stepEvery {
		s.flush()
	}
}

// flush tells the last progress, if it was not.
func (s *steps) flush() {
	if !s.left || s.now.Message == "" {
		return
	}
	line := s.what + ": " + render.Printable(s.now.Message)
	if s.now.Files > 0 {
		line += ": " + units.Count(s.now.Files, "file", "files")
	}
	if s.now.Bytes > 0 {
		line += map[bool]string{true: ", ", false: ": "}[s.now.Files > 0] + units.DiskWords(s.now.Bytes)
	}
	fmt.Fprintln(s.w, line)
	s.told, s.left = time.Now(), false
}
