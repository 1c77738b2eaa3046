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
)

// credentialsCall is one call of `slipway credentials`.
type credentialsCall struct {
	env       Env
	user      string
	asJSON    bool
	noBrowser bool
}

// credentialsCommand is `slipway credentials`.
func credentialsCommand(env Env) *cobra.Command {
	s := &credentialsCall{env: env}
	c := &cobra.Command{
		Use: "credentials", Short: "List, renew and revoke your tokens and your X.509 proxy, and log in at an issuer",
		Example: "  slipway credentials\n" +
			"  slipway credentials list --json",
		Args: nothingElse,
		Long: "List the tokens and the X.509 proxy that the service keeps for you. Sessions and jobs find them as files, which the service\n" +
			"keeps fresh: the token where BEARER_TOKEN_FILE says, the proxy at /tmp/x509up_u<user id>. No command shows a secret. From within\n" +
			"a session they are only listed; `slipway proxy put` works there too.",
		RunE: func(c *cobra.Command, _ []string) error { return s.list(c.Context()) },
	}
	c.PersistentFlags().BoolVar(&s.asJSON, "json", false, "print the API's JSON")
	c.Flags().StringVar(&s.user, "user", "", "for administrators: those of another user")
	addList(c)
	revoke := &cobra.Command{
		Use:     "revoke NAME",
		Example: "  slipway credentials revoke wlcg",
		Short:   "Take a credential away, from running sessions and jobs too, and have its issuer revoke it",
		Args:    exactly(1, "a credential's name"),
		RunE:    func(c *cobra.Command, args []string) error { return s.revoke(c.Context(), args[0]) },
	}
	login := &cobra.Command{
		Use: "login ISSUER", Short: "Log in at an issuer, by its own page in your browser",
		Example: "  slipway credentials login wlcg",
		Args:    exactly(1, "an issuer's name"),
		RunE:    func(c *cobra.Command, args []string) error { return s.login(c.Context(), args[0]) },
	}
	revoke.Flags().StringVar(&s.user, "user", "", "for administrators: those of another user")
	login.Flags().BoolVar(&s.noBrowser, "no-browser", false, "only show the page's address")
	c.AddCommand(&cobra.Command{
		Use: "renew NAME", Short: "Renew a token now; it is renewed by itself before it ends",
		Example: "  slipway credentials renew wlcg",
		Args:    exactly(1, "a credential's name"),
		RunE:    func(c *cobra.Command, args []string) error { return s.renew(c.Context(), args[0]) },
	}, revoke, login, &cobra.Command{
		Use: "give ISSUER [FILE|-]", Short: "Give a refresh token of an issuer: a file's, or from standard input",
		Example: "  slipway credentials give wlcg refresh-token.txt",
		Args:    issuerAndFile,
		Long: "Give a refresh token that you have from elsewhere, such as oidc-agent. It is read from FILE or from the standard input, and never from\n" +
			"the command line, which others on a computer can read. Where the issuer replaces refresh tokens when they are used, the one that\n" +
			"you have given is of no use to you any more.",
		RunE: func(c *cobra.Command, args []string) error {
			return s.give(c.Context(), args[0], strings.Join(args[1:], ""))
		},
	})
	return c
}

func (s *credentialsCall) list(ctx context.Context) error {
	client, err := connect(s.env)
	if err != nil {
		return err
	}
	all, err := client.Credentials(ctx, s.user)
	if err != nil {
		return err
	}
	if s.asJSON {
		return s.env.data(all)
	}
	return printCredentials(s.env.Stdout, all, time.Now())
}

// printCredentials prints a table, and below it what is wrong with whom.
func printCredentials(w io.Writer, all hubapi.Credentials, now time.Time) error {
	var rows [][]string
	for _, c := range all.Credentials {
		rows = append(
			rows, []string{c.Name, c.Subject, credentialFor(c), left(c.Expires, now), credentialRenewed(c, now)},
		)
	}
	none := "No credentials."
	if len(all.Issuers) > 0 {
		none += " `slipway credentials login " + render.Printable(all.Issuers[0]) + "` gets a token."
	}
	if all.Proxies {
		none += " `slipway proxy put` puts an X.509 proxy."
	}
	if err := render.Table(w, []string{"NAME", "YOU ARE THERE", "GOOD FOR", "TIME LEFT", "RENEWED"}, rows, none); err != nil {
		return err
	}
	for _, c := range all.Credentials {
		if err := printWords(w, c); err != nil {
			return err
		}
	}
	return nil
}

// printWords prints what is to be known of a credential.
func printWords(w io.Writer, c hubapi.Credential) error {
	p := render.Page{W: w}
	if c.Trouble != "" {
		p.Printf("! %s: %s\n", render.Printable(c.Name), render.Printable(c.Trouble))
	}
	for _, note := range c.Notes {
		p.Printf("  %s: %s\n", render.Printable(c.Name), render.Printable(note))
	}
	return p.Err
}

// credentialFor says what a credential is good for, as short as a table needs it.
func credentialFor(c hubapi.Credential) string {
	words := c.Scopes
	if c.Kind == "proxy" {
		words = c.FQANs
	}
	const most = 3
	if len(words) > most {
		return strings.Join(words[:most], " ") + fmt.Sprintf(" and %d more", len(words)-most)
	}
	return strings.Join(words, " ")
}

func credentialRenewed(c hubapi.Credential, now time.Time) string {
	switch {
	case c.Kind == "proxy":
		return "by you: slipway proxy put"
	case !c.Renewable:
		return "no"
	case c.Until != nil:
		return "by itself, for " + left(c.Until, now)
	}
	return "by itself"
}

// left says how long until a moment, as people say it.
func left(t *time.Time, now time.Time) string {
	if t == nil {
		return ""
	}
	d := t.Sub(now)
	minutes := int(d / time.Minute)
	switch {
	case d <= 0:
		return "ended"
	case minutes < 1:
		return "less than a minute"
	case minutes < 60:
		return fmt.Sprintf("%d min", minutes)
	case minutes < 48*60:
		return fmt.Sprintf("%d h %d min", minutes/60, minutes%60)
	}
	return fmt.Sprintf("%d days", minutes/60/24)
}

func (s *credentialsCall) renew(ctx context.Context, name string) error {
	client, err := connect(s.env)
	if err != nil {
		return err
	}
	c, err := client.RenewCredential(ctx, name)
	if err != nil {
		return err
	}
	return s.tell(c, "is renewed")
}

// tell says what has come of a change.
func (s *credentialsCall) tell(c hubapi.Credential, what string) error {
	return tellCredential(s.env, c, what, s.asJSON)
}

func tellCredential(env Env, c hubapi.Credential, what string, asJSON bool) error {
	if asJSON {
		return env.data(c)
	}
	lasts := ""
	if c.Expires != nil {
		lasts = ": good for " + left(c.Expires, time.Now())
	}
	if _, err := fmt.Fprintf(env.Stdout, "%s of %s %s%s\n", render.Printable(c.Name), render.Printable(c.Subject), what, lasts); err != nil {
		return err
	}
	return printWords(env.Stdout, c)
}

func (s *credentialsCall) revoke(ctx context.Context, name string) error {
	client, err := connect(s.env)
	if err != nil {
		return err
	}
	gone, err := client.RemoveCredential(ctx, name, s.user)
	if err != nil {
		return err
	}
	if s.asJSON {
		return s.env.data(gone)
	}
	p := render.Page{W: s.env.Stdout}
	p.Printf("%s is taken away, from running sessions and jobs too\n", render.Printable(gone.Name))
	if gone.Note != "" {
		p.Printf("! %s\n", render.Printable(gone.Note))
	}
	return p.Err
}

func issuerAndFile(c *cobra.Command, args []string) error {
	if len(args) > 2 {
		return nothingElse(c, args[2:])
	}
	return exactly(1, "an issuer's name, and perhaps a file")(c, args[:min(1, len(args))])
}

// mostSecret is the most bytes of a refresh token's or a proxy's file that are read.
const mostSecret = 256 << 10

func (s *credentialsCall) give(ctx context.Context, issuer, file string) error {
	text, err := readSecretFile(s.env, file, "the refresh token")
	if err != nil {
		return err
	}
	client, err := connect(s.env)
	if err != nil {
		return err
	}
	c, err := client.GiveRefreshToken(ctx, issuer, hubapi.RefreshTokenRequest{RefreshToken: strings.TrimSpace(text)})
	if err != nil {
		return err
	}
	return s.tell(c, "is taken")
}

// readSecretFile reads a file, or the standard input for none and for -.
func readSecretFile(env Env, file, what string) (string, error) {
	in := env.Stdin
	if file != "" && file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", errs.New(errs.Invalid, "read %s: %w", what, err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, mostSecret+1))
	switch {
	case err != nil:
		return "", errs.New(errs.Invalid, "read %s: %w", what, err)
	case len(text) > mostSecret:
		return "", errs.New(errs.Invalid, "%s: the file has more than %d kB", what, mostSecret>>10)
	case strings.TrimSpace(string(text)) == "":
		return "", errs.New(errs.Invalid, "%s: there is nothing to read", what).
			With("name its file, or give it on the standard input")
	}
	return string(text), nil
}
