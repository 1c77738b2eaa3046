package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/internal/cli/render"
	"slipway/internal/errs"
	"slipway/internal/sshclientconfig"
)

// loginView is a login as `slipway ssh status --json` shows it.
type loginView struct {
	sshclientconfig.Service
	Expires *time.Time `json:"expires"` // null: the certificate cannot be read
	Good    bool       `json:"good"`    // the certificate is not over
}

func viewLogin(files *sshclientconfig.Files, login sshclientconfig.Service) loginView {
	v := loginView{Service: login}
	if until, err := files.Expires(login.Name); err == nil {
		until = until.UTC()
		v.Expires, v.Good = &until, time.Now().Before(until)
	}
	return v
}

// untilWords says when a login is over.
func untilWords(files *sshclientconfig.Files, name string) string {
	until, err := files.Expires(name)
	left := time.Until(until)
	switch {
	case err != nil:
		return "its certificate cannot be read: log in again"
	case left <= 0:
		return "over since " + until.Local().Format(time.DateTime) + ": log in again"
	}
	return fmt.Sprintf("%s (%dh%02dm)", until.Local().Format(time.DateTime), int(left.Hours()), int(left.Minutes())%60)
}

// status shows the logins.
func (s *sshCall) status() error {
	files, err := s.files()
	if err != nil {
		return err
	}
	list, err := files.Services()
	if err != nil {
		return err
	}
	if s.name != "" {
		list = slices.DeleteFunc(list, func(l sshclientconfig.Service) bool { return l.Name != s.name })
		if len(list) == 0 {
			return errs.New(errs.NotFound, "there is no login %q here", s.name).With("`slipway ssh status` shows which there are")
		}
	}
	in := files.Included()
	if s.asJSON {
		views := []loginView{}
		for _, l := range list {
			views = append(views, viewLogin(files, l))
		}
		return s.env.data(map[string]any{"logins": views, "included": in.Line == ""})
	}
	var rows [][]string
	for _, l := range list {
		rows = append(
			rows, []string{l.Name, l.User, fmt.Sprintf("%s:%d", l.Host, l.Port), untilWords(files, l.Name), l.Address},
		)
	}
	err = render.Table(s.env.Stdout, []string{"NAME", "USER", "HOST", "UNTIL", "SERVICE"}, rows, "No logins. `slipway ssh login ADDRESS` makes one.")
	if err == nil && len(list) > 0 && in.Line != "" {
		_, err = fmt.Fprintf(
			s.env.Stdout, "\nssh does not read them: %s. Put this line on top of %s:\n\n  %s\n", in.Why, in.Path,
			in.Line,
		)
	}
	return err
}

// sshConfigCommand is `slipway ssh config`.
func sshConfigCommand(s *sshCall) *cobra.Command {
	user := ""
	c := &cobra.Command{
		Use: "config [ADDRESS]", Short: "Print the Host entries, for who writes ~/.ssh/config by herself",
		Example: "  slipway ssh config https://slipway.example.org --user alice >> ~/.ssh/config",
		Args:    atMostOne,
		Long: "Print the Host entries of a login. Without one, or with an ADDRESS, print entries for a key that you have added by\n" +
			"`slipway ssh-key add`: they name no files, and go where you like in ~/.ssh/config. `slipway ssh known-hosts` has the host keys.",
		RunE: func(c *cobra.Command, args []string) error {
			return s.config(c.Context(), strings.Join(args, ""), user)
		},
	}
	c.Flags().StringVar(&user, "user", "", "your name at the Hub, where no token tells it")
	return c
}

func (s *sshCall) config(ctx context.Context, address, user string) error {
	files, login, known, err := s.meant()
	if err != nil {
		return err
	}
	if known && address == "" && user == "" {
		return s.block(login, files.Block(login))
	}
	if login, err = s.plain(ctx, address, user, login); err != nil {
		return err
	}
	text, err := login.Plain()
	if err != nil {
		return err
	}
	return s.block(login, text)
}

// plain makes entries of what a service says, for a user whom the token tells, or she herself.
func (s *sshCall) plain(
	ctx context.Context, address, user string, noted sshclientconfig.Service,
) (sshclientconfig.Service, error) {
	client, address, withToken, err := s.dial(address, noted)
	if err != nil {
		return noted, err
	}
	service, err := sshOf(ctx, client)
	if err != nil {
		return noted, err
	}
	login := sshclientconfig.Service{
		Name: noted.Name, Address: address, Host: service.Host, Port: service.Port, KnownHosts: service.KnownHosts,
		User: user,
	}
	if user == "" && !withToken {
		return login, errs.New(errs.Invalid, "your name at the Hub is not known").
			With("give it by --user, or set SLIPWAY_TOKEN")
	}
	if !withToken {
		return login, nil
	}
	me, err := client.Me(ctx)
	if err != nil {
		return login, err
	}
	login.User = me.User
	login.Targets, err = sshTargets(ctx, client, me.User)
	return login, err
}

func (s *sshCall) block(login sshclientconfig.Service, text string) error {
	if s.asJSON {
		return s.env.data(map[string]string{"name": login.Name, "config": text})
	}
	_, err := fmt.Fprint(s.env.Stdout, text)
	return err
}

// knownHosts prints a service's host keys.
func (s *sshCall) knownHosts(ctx context.Context, address string) error {
	_, login, _, err := s.meant()
	if err != nil {
		return err
	}
	client, _, _, err := s.dial(address, login)
	if err != nil {
		return err
	}
	service, err := sshOf(ctx, client)
	if err != nil {
		return err
	}
	if s.asJSON {
		return s.env.data(service)
	}
	for _, line := range service.KnownHosts {
		if _, err := fmt.Fprintln(s.env.Stdout, render.Printable(line)); err != nil {
			return err
		}
	}
	return nil
}
