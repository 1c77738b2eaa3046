package cli

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
	"slipway/internal/sshclientconfig"
)

// sshLogin is one call of `slipway ssh login`.
type sshLogin struct {
	*sshCall
	client    *hubapi.Client
	hub       string
	noBrowser bool
}

// sshLoginCommand is `slipway ssh login`.
func sshLoginCommand(s *sshCall) *cobra.Command {
	l := &sshLogin{sshCall: s}
	c := &cobra.Command{
		Use: "login [ADDRESS]", Short: "Log this computer in, or once more", Args: atMostOne,
		Example: "  slipway ssh login https://slipway.example.org",
		Long: "Log this computer in at the service of that ADDRESS; without one at SLIPWAY_URL's, or at that of the last login. It makes a key,\n" +
			"which stays here, shows a code, and opens the page on which you type it after the Hub's login; no token is kept here. Where\n" +
			"SLIPWAY_TOKEN (or SLIPWAY_TOKEN_FILE) is set, it asks with that and needs no browser. Then `ssh slipway` works until the\n" +
			"certificate is over; the same command renews it, and takes up new profiles and sessions.",
		RunE: func(c *cobra.Command, args []string) error { return l.run(c.Context(), strings.Join(args, "")) },
	}
	c.Flags().StringVar(&l.hub, "hub", "", "which Hub you are known at, where the service has several")
	c.Flags().BoolVar(&l.noBrowser, "no-browser", false, "only show the page's address")
	return c
}

func (l *sshLogin) run(ctx context.Context, address string) error {
	files, login, known, err := l.meant()
	if err != nil {
		return err
	}
	if l.name == "" && known && address != "" && !l.same(address, login.Address) {
		login = sshclientconfig.Service{Name: defaultLogin}
	}
	if err := sshclientconfig.CheckName(login.Name); err != nil {
		return err // before anybody confirms it
	}
	client, address, withToken, err := l.dial(address, login)
	if err != nil {
		return err
	}
	l.client = client
	service, err := sshOf(ctx, client)
	if err != nil {
		return err
	}
	ask := l.byBrowser
	if withToken {
		ask = l.byToken
	}
	key, public, err := sshclientconfig.NewKey("slipway")
	if err != nil {
		return err
	}
	got, err := ask(ctx, public, service)
	if err != nil {
		return err
	}
	login.Address, login.Host, login.Port, login.KnownHosts = address, service.Host, service.Port, service.KnownHosts
	login.User, login.Targets = got.User, got.Targets
	in, err := files.Keep(login, sshclientconfig.Credential{Key: key, Certificate: got.Certificate.Certificate})
	if err != nil {
		return err
	}
	return l.tell(files, login, in)
}

// same reports whether an argument means a noted address.
func (l *sshLogin) same(argument, noted string) bool {
	address, err := safeAddress(argument)
	return err == nil && address == noted
}

// sshOf asks a service for its ssh, which it must have.
func sshOf(ctx context.Context, client *hubapi.Client) (hubapi.SSHService, error) {
	service, err := client.SSH(ctx)
	if err == nil && !service.On {
		err = errs.New(errs.Missing, "this service has no ssh").
			With("its administrator switches it on: ssh.listen in its configuration")
	}
	return service, err
}

// byToken asks for a certificate with the token of the environment.
func (l *sshLogin) byToken(ctx context.Context, key string, _ hubapi.SSHService) (hubapi.SSHLoginState, error) {
	me, err := l.client.Me(ctx)
	if err != nil {
		return hubapi.SSHLoginState{}, err
	}
	computer, _ := os.Hostname() // as in byBrowser
	cert, err := l.client.IssueSSHCertificate(
		ctx, hubapi.SSHCertificateRequest{Key: key, Session: hubapi.AnySession, Computer: computer},
	)
	if err != nil {
		return hubapi.SSHLoginState{}, err
	}
	targets, err := sshTargets(ctx, l.client, me.User)
	return hubapi.SSHLoginState{Hub: me.Hub, User: me.User, Certificate: &cert, Targets: targets}, err
}

// sshTargets lists what a login name may end in: the profiles, and the sessions of a user with a name.
func sshTargets(ctx context.Context, client *hubapi.Client, user string) ([]string, error) {
	profiles, err := client.Profiles(ctx)
	if err != nil {
		return nil, err
	}
	sessions, err := client.Sessions(ctx, user, "")
	if err != nil {
		return nil, err
	}
	var targets []string
	for _, p := range profiles {
		targets = append(targets, p.Name)
	}
	for _, s := range sessions {
		if s.User == user && s.Name != "" && s.Want == "running" && !slices.Contains(targets, s.Name) {
			targets = append(targets, s.Name)
		}
	}
	return targets, nil
}

// byBrowser has the user confirm on the Hub's page.
func (l *sshLogin) byBrowser(ctx context.Context, key string, service hubapi.SSHService) (hubapi.SSHLoginState, error) {
	if l.hub == "" && len(service.Pages) > 1 {
		var names []string
		for _, p := range service.Pages {
			names = append(names, p.Hub)
		}
		return hubapi.SSHLoginState{}, errs.New(
			errs.Invalid, "the service has several Hubs: %s", strings.Join(names, ", "),
		).With("say by --hub at which of them you are known")
	}
	computer, _ := os.Hostname() // the pages show it to the user; without it they say that the computer is not named
	begun, err := l.client.BeginSSHLogin(ctx, hubapi.SSHLoginRequest{Key: key, Computer: computer, Hub: l.hub})
	if err != nil {
		return hubapi.SSHLoginState{}, err
	}
	showCode(l.env, begun, l.noBrowser)
	state, err := l.await(ctx, begun)
	switch {
	case ctx.Err() != nil:
		return state, errs.New(errs.Conflict, "interrupted: the login is given up, and nothing was written")
	case errs.Is(err, errs.Forbidden):
		return state, errs.New(errs.Forbidden, "the login was refused on the page; nothing was written")
	case errs.Is(err, errs.NotFound):
		return state, errs.New(errs.NotFound, "nobody has confirmed the login in time; nothing was written").
			With("run it again")
	}
	return state, err
}

// await looks until the login is confirmed.
func (l *sshLogin) await(ctx context.Context, begun hubapi.DeviceLogin) (state hubapi.SSHLoginState, err error) {
	err = awaitLogin(ctx, l.env, "ssh login", begun, func() (wait time.Duration, err error) {
		switch state, err = l.client.PollSSHLogin(ctx, begun.ID); {
		case err != nil:
			return 0, err
		case state.Pending:
			return seconds(begun.Interval), nil
		case state.Certificate == nil:
			return 0, errors.New("the service has confirmed the login without a certificate")
		}
		return 0, nil
	})
	return state, err
}

// tell says what can be typed now.
func (l *sshLogin) tell(
	files *sshclientconfig.Files, login sshclientconfig.Service, in sshclientconfig.Included,
) error {
	if l.asJSON {
		return l.env.data(viewLogin(files, login))
	}
	p := render.Page{W: l.env.Stdout}
	p.Printf("%s is logged in at %s until %s.\n\n", login.User, login.Host, untilWords(files, login.Name))
	p.Printf("  ssh %s    your default session; started when it does not run\n", login.Name)
	var odd []string
	for _, t := range login.Targets {
		if sshclientconfig.Alias(t) {
			p.Printf("  ssh %s-%s\n", login.Name, t)
		} else {
			odd = append(odd, t)
		}
	}
	p.Printf("  VS Code: Remote-SSH: Connect to Host..., %s\n", login.Name)
	p.Printf("\nssh knows these names alone: after a new session or profile run `slipway ssh login` again.\n")
	for _, t := range odd {
		p.Printf("\n%s has no Host entry, for its name", render.Printable(t))
		if !strings.ContainsAny(t, "'\"`$;&<>|(){}\\") { // which ssh refuses in a login name
			p.Printf(": ssh -l '%s+%s' %s", login.User, render.Printable(t), login.Name)
		}
		p.Printf("\n")
	}
	if in.Line != "" {
		p.Printf("\n%s is left alone (%s). Put this line on top of it:\n\n  %s\n", in.Path, in.Why, in.Line)
	}
	return p.Err
}
