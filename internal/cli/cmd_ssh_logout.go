package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"slipway/internal/errs"
	"slipway/internal/sshfiles"
)

// sshLogoutCommand is `slipway ssh logout`.
func sshLogoutCommand(s *sshCall) *cobra.Command {
	connections := false
	c := &cobra.Command{
		Use: "logout", Short: "Take out what `slipway ssh login` has written", Args: nothingElse,
		Long: "Take out what `slipway ssh login` has written. Where SLIPWAY_TOKEN (or SLIPWAY_TOKEN_FILE) is set, the service withdraws the\n" +
			"certificate too, so that a copy lets in nobody, and ends the connections that were opened with it. Sessions go on.",
		RunE: func(c *cobra.Command, _ []string) error { return s.logout(c.Context(), connections) },
	}
	c.Flags().BoolVar(&connections, "connections", false, "end all your open ssh connections, those of other computers too; needs a token")
	return c
}

// loggedOut is what has become of a login as --json shows it.
type loggedOut struct {
	Removed string     `json:"removed"`
	Address string     `json:"address"`
	Revoked bool       `json:"revoked"`
	Serial  uint64     `json:"serial"`
	Expires *time.Time `json:"expires"` // null: the certificate could not be read
}

// logout takes a login out, at the service too if it can be asked. That it cannot keeps nobody from taking it out here.
func (s *sshCall) logout(ctx context.Context, connections bool) error {
	files, err := s.files()
	if err != nil {
		return err
	}
	login, known, err := s.noted(files)
	if err != nil {
		return err
	}
	v := viewLogin(files, login)
	out := loggedOut{Expires: v.Expires}
	if out.Serial, err = files.Serial(login.Name); known && (v.Good || connections) {
		out.Revoked, err = s.revoke(ctx, login, out.Serial, connections)
	}
	switch {
	case err != nil && connections:
		return err
	case err != nil && v.Good:
		fmt.Fprintf(s.env.Stderr, "ssh logout: the certificate is not withdrawn: %s\n", printable(err.Error()))
	}
	gone, err := files.Remove(login.Name)
	if err != nil {
		return err
	}
	out.Removed, out.Address = gone.Name, gone.Address
	if s.asJSON {
		return printJSON(s.env.Stdout, out)
	}
	_, err = fmt.Fprintf(s.env.Stdout, "This computer is logged out of %s: its key, its certificate and its Host entries are gone.\n%s", gone.Address, out.copies())
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
	return "Whoever has a copy of them gets in until " + o.Expires.Local().Format(time.DateTime) + ", if you do not log out the certificate " +
		strconv.FormatUint(o.Serial, 10) + " on the page SSH of your Hub's Slipway.\n"
}

// revoke has the service withdraw a login's certificate, if the environment has a token for it.
func (s *sshCall) revoke(ctx context.Context, login sshfiles.Service, serial uint64, connections bool) (bool, error) {
	client, _, withToken, err := s.dial(login.Address, login)
	switch {
	case err != nil:
		return false, err
	case !withToken && connections:
		return false, errs.New(errs.Unauthorized, "only with a token can your connections be ended from here").
			With("set SLIPWAY_TOKEN, or use the page SSH of your Hub's Slipway")
	case !withToken:
		return false, nil
	}
	if connections {
		if err := client.EndSSHConnections(ctx); err != nil {
			return false, err
		}
	}
	err = client.RevokeSSHCertificate(ctx, serial)
	return err == nil, err
}
