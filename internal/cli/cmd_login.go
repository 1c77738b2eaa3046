package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/clientlogin"
	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/internal/version"
)

// savedLogins returns the file with the user's logins.
func savedLogins(env Env) (clientlogin.File, error) {
	settings := env.Getenv("XDG_CONFIG_HOME")
	if runtime.GOOS == "windows" {
		settings = env.Getenv("APPDATA")
	} else if home := userHome(env); settings == "" && home != "" {
		settings = filepath.Join(home, ".config")
	}
	if settings == "" {
		return clientlogin.File{}, errs.New(errs.Invalid, "your home directory is not known").With("set HOME")
	}
	return clientlogin.In(settings), nil
}

// deviceLogin is one call of `slipway login`.
type deviceLogin struct {
	env       Env
	hub       string
	noBrowser bool
}

// loginCommand is `slipway login`.
func loginCommand(env Env) *cobra.Command {
	l := &deviceLogin{env: env}
	c := &cobra.Command{
		Use: "login [ADDRESS]", Short: "Log this computer in, so that the commands need no token", Args: atMostOne,
		Example: "  slipway login https://slipway.example.org",
		Long: "Log this computer in at the service of that ADDRESS; without one at SLIPWAY_URL's, or at that of the last login. The command shows\n" +
			"a code and opens a page of your Hub's Slipway. You type the code there and let this computer in. The commands then act as you,\n" +
			"for 30 days, without SLIPWAY_URL and SLIPWAY_TOKEN. Where these are set, they count. `slipway logout` ends the login, and so\n" +
			"does the page Credentials. The login is kept in ~/.config/slipway/logins.json, which only you can read.",
		RunE: func(c *cobra.Command, args []string) error { return l.run(c.Context(), strings.Join(args, "")) },
	}
	c.Flags().StringVar(&l.hub, "hub", "", "which Hub you are known at, where the service has several")
	c.Flags().BoolVar(&l.noBrowser, "no-browser", false, "only show the page's address")
	return c
}

// logoutCommand is `slipway logout`.
func logoutCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use: "logout [ADDRESS]", Short: "End the login of this computer", Args: atMostOne,
		Example: "  slipway logout",
		Long: "Have the service revoke the token of `slipway login`, so that a copy of it lets in nobody, and forget it here. Without an ADDRESS\n" +
			"it is the last login that ends. Sessions and jobs go on.",
		RunE: func(c *cobra.Command, args []string) error { return logout(c.Context(), env, strings.Join(args, "")) },
	}
}

// loginAt returns the address that is meant, and the login that there is.
func loginAt(env Env, argument string) (file clientlogin.File, saved clientlogin.Login, known bool, address string, err error) {
	if file, err = savedLogins(env); err != nil {
		return file, saved, false, "", err
	}
	if address = cmp.Or(argument, env.Getenv("SLIPWAY_URL")); address != "" {
		if address, err = safeAddress(address); err != nil {
			return file, saved, false, "", err
		}
	}
	saved, known, err = file.Find(address)
	return file, saved, known, cmp.Or(address, saved.URL), err
}

func (l *deviceLogin) run(ctx context.Context, argument string) error {
	file, old, again, address, err := loginAt(l.env, argument)
	if err != nil {
		return err
	}
	if address == "" {
		return errs.New(errs.Invalid, "which service is not known").
			With("name its address, such as `slipway login https://slipway.example.org`, or set SLIPWAY_URL")
	}
	client, err := hubapi.NewClient(hubapi.ClientConfig{URL: address})
	if err != nil {
		return err
	}
	state, err := l.byBrowser(ctx, client)
	if err != nil {
		return err
	}
	made := clientlogin.Login{
		URL: address, Token: state.Token, ID: state.Access.ID, User: state.Access.User, Hub: state.Access.Hub,
		Expires: state.Access.Expires,
	}
	if err := file.Keep(made); err != nil {
		_ = revokeLogin(ctx, made) // nobody has it: the error says what is wrong
		return err
	}
	if again {
		_ = revokeLogin(ctx, old) // it may have ended
	}
	return l.tell(made)
}

func (l *deviceLogin) tell(made clientlogin.Login) error {
	p := render.Page{W: l.env.Stdout}
	p.Printf(
		"%s is logged in at %s until %s.\n", render.Printable(made.User), made.URL,
		made.Expires.Local().Format(time.DateOnly),
	)
	if l.env.Getenv("SLIPWAY_TOKEN")+l.env.Getenv("SLIPWAY_TOKEN_FILE") != "" {
		p.Printf("SLIPWAY_TOKEN or SLIPWAY_TOKEN_FILE is set and counts before the login: unset it.\n")
	}
	return p.Err
}

// byBrowser has the user confirm on the Hub's page.
func (l *deviceLogin) byBrowser(ctx context.Context, client *hubapi.Client) (hubapi.DeviceLoginState, error) {
	computer, _ := os.Hostname() // shown on the page, which says so where it is not known
	begun, err := client.BeginLogin(ctx, hubapi.DeviceLoginRequest{
		Computer: computer, Program: "slipway " + version.Release + ", " + runtime.GOOS + "/" + runtime.GOARCH,
		Hub: l.hub,
	})
	if err != nil {
		return hubapi.DeviceLoginState{}, err
	}
	showCode(l.env, begun, l.noBrowser)
	var state hubapi.DeviceLoginState
	err = awaitLogin(ctx, l.env, "login", begun, func() (wait time.Duration, err error) {
		if state, err = client.PollLogin(ctx, begun.ID); err != nil {
			return 0, err
		}
		return statusOf(state)
	})
	if ctx.Err() != nil {
		err = errs.New(errs.Conflict, "interrupted: the login is given up, and nothing was written")
	}
	return state, err
}

// statusOf says how long to wait until the next look at a login; 0: it is approved.
func statusOf(state hubapi.DeviceLoginState) (time.Duration, error) {
	switch state.Status {
	case hubapi.LoginPending, hubapi.LoginSlowDown:
		return seconds(state.Interval), nil
	case hubapi.LoginDenied:
		return 0, errs.New(errs.Forbidden, "the login was refused on the page; nothing was written").
			With("run `slipway login` again, if it was yours")
	case hubapi.LoginExpired:
		return 0, errs.New(errs.NotFound, "nobody has confirmed the login in time; nothing was written").
			With("run `slipway login` again")
	}
	if state.Status != hubapi.LoginApproved || state.Access == nil || state.Token == "" {
		return 0, fmt.Errorf("the service says %q of the login, which this program does not understand", state.Status)
	}
	return 0, nil
}

// seconds is how long to wait as a service says it, within reason.
func seconds(n int) time.Duration { return time.Duration(min(max(n, 1), 60)) * time.Second }

// showCode tells the user what to type where, and opens the page if the system can.
func showCode(env Env, begun hubapi.DeviceLogin, noBrowser bool) {
	page := begun.URL
	if strings.HasPrefix(page, "/") {
		page = "your Hub's address, followed by " + page
	}
	fmt.Fprintf(env.Stderr, "Open  %s\nand type the code  %s\n", render.Printable(page), render.Printable(begun.Code))
	if !noBrowser {
		openBrowser(env, begun.URL)
	}
}

// awaitLogin looks until a login is confirmed, and says now and then that it does. A service that is away for a moment
// is no end. look returns how long to wait until the next look; 0: it is confirmed.
func awaitLogin(
	ctx context.Context, env Env, what string, begun hubapi.DeviceLogin, look func() (time.Duration, error),
) error {
	for told := time.Now(); ; {
		wait, err := look()
		switch {
		case err != nil && (!errs.Is(err, errs.Unavailable) || time.Now().After(begun.Expires)):
			return err
		case err != nil:
			wait = seconds(begun.Interval)
		case wait == 0:
			return nil
		}
		if time.Since(told) >= 30*time.Second {
			told = time.Now()
			fmt.Fprintf(
				env.Stderr, "%s: waiting; the code is good for %s\n", what,
				time.Until(begun.Expires).Round(time.Second),
			)
		}
		if !clock.Sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}

func revokeLogin(ctx context.Context, l clientlogin.Login) error {
	client, err := hubapi.NewClient(hubapi.ClientConfig{URL: l.URL, Token: hubapi.Token(l.Token)})
	if err != nil {
		return err
	}
	if err = client.RevokeAccessToken(ctx, l.ID); errs.Is(err, errs.Unauthorized) {
		return nil // it has ended already
	}
	return err
}

// logout ends a login, at the service too if it can be asked. That it cannot keeps nobody from forgetting it here.
func logout(ctx context.Context, env Env, argument string) error {
	file, saved, known, address, err := loginAt(env, argument)
	if err != nil {
		return err
	}
	if !known {
		return errs.New(errs.NotFound, "this computer is not logged in%s", at(address)).
			With("`slipway whoami` shows who you are, and by what")
	}
	failed := revokeLogin(ctx, saved)
	if err := file.Remove(saved.URL); err != nil {
		return err
	}
	if failed != nil {
		return errs.New(errs.KindOf(failed), "the login is forgotten here and not revoked: %s", failed.Error()).
			With("revoke the login " + saved.ID + " on the page Credentials of your Hub's Slipway")
	}
	_, err = fmt.Fprintf(env.Stdout, "%s is logged out at %s.\n", render.Printable(saved.User), saved.URL)
	return err
}

func at(address string) string {
	if address == "" {
		return ""
	}
	return " at " + address
}
