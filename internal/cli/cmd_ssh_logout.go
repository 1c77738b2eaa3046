package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
	"slipway/internal/sshclientconfig"
)

// sshLogoutCommand is `slipway ssh logout`.
func sshLogoutCommand(s *sshCall) *cobra.Command {
	connections := false
	c := &cobra.Command{
		Use: "logout", Short: "Take out what `slipway ssh login` has written", Args: nothingElse,
		Example: "  slipway ssh logout",
		Long: "Have the service withdraw the certificate of `slipway ssh login`, so that a copy lets in nobody, and end the connections that were\n" +
			"opened with it; then take out what the login has written. It needs no token. Where the service is not reached, the\n" +
			"files go all the same, and it is said until when a copy would be good. Sessions go on.",
		RunE: func(c *cobra.Command, _ []string) error { return s.logout(c.Context(), connections) },
	}
	c.Flags().BoolVar(
		&connections, "connections", false,
		"end all your open ssh connections, those of other computers too; needs a token",
	)
	return c
}

// loggedOut is what has become of a login as --json shows it.
type loggedOut struct {
	Removed string     `json:"removed"`
	Address string     `json:"address"`
	Revoked bool       `json:"revoked"`
	Serial  uint64     `json:"serial"`  // of the certificate; 0: it was over already
	Expires *time.Time `json:"expires"` // null: the certificate could not be read
}

// logout takes a login out, at the service too if it can be asked. That it cannot keeps nobody from taking it out here.
func (s *sshCall) logout(ctx context.Context, connections bool) error {
	files, login, known, err := s.meant()
	if err != nil {
		return err
	}
	if known && connections {
		err = s.endConnections(ctx, login)
	}
	if err != nil {
		return err
	}
	v := viewLogin(files, login)
	out := loggedOut{Expires: v.Expires}
	if v.Good {
		out.Serial, err = s.revoke(ctx, files, login)
		out.Revoked = err == nil
	}
	if err != nil {
		fmt.Fprintf(s.env.Stderr, "ssh logout: the certificate is not withdrawn: %s\n", render.Printable(err.Error()))
	}
	gone, err := files.Remove(login.Name)
	if err != nil {
		return err
	}
	out.Removed, out.Address = gone.Name, gone.Address
	if s.asJSON {
		return s.env.data(out)
	}
	_, err = fmt.Fprintf(
		s.env.Stdout, "This computer is logged out of %s: its key, its certificate and its Host entries are gone.\n%s",
		gone.Address, out.copies(),
	)
	return err
}

// copies says what copies of the files are still good for.
func (o loggedOut) copies() string {
	switch {
	case o.Revoked:
		return "A copy of them lets in nobody.\n"
	case o.Expires == nil || time.Now().After(*o.Expires):
		return ""
	}
	return "Whoever has a copy of them gets in until " + o.Expires.Local().Format(time.DateTime) +
		", if you do not log out the certificate " +
		strconv.FormatUint(o.Serial, 10) + " on the page SSH of your Hub's Slipway, where you can also end its connections.\n"
}

// endConnections has the service end all connections of the user.
func (s *sshCall) endConnections(ctx context.Context, login sshclientconfig.Service) error {
	client, _, withToken, err := s.dial(login.Address, login)
	if err == nil && !withToken {
		err = errs.New(errs.Unauthorized, "only with a token can your connections be ended from here").
			With("set SLIPWAY_TOKEN, or use the page SSH of your Hub's Slipway")
	}
	if err != nil {
		return err
	}
	return client.EndSSHConnections(ctx)
}

// revoke has the service withdraw a login's certificate, for which its own key is enough.
func (s *sshCall) revoke(
	ctx context.Context, files *sshclientconfig.Files, login sshclientconfig.Service,
) (serial uint64, err error) {
	if serial, err = files.Serial(login.Name); err != nil {
		return 0, err
	}
	out := hubapi.SSHLogout{Serial: serial}
	key, signature, err := files.Sign(login.Name, out.Words())
	if err != nil {
		return serial, err
	}
	out.Key, out.Format, out.Signature = key, signature.Format, signature.Blob
	client, err := hubapi.NewClient(hubapi.ClientConfig{URL: login.Address})
	if err != nil {
		return serial, err
	}
	return serial, client.LogOutSSH(ctx, out)
}
