package cli

import (
	"net/url"
	"os/user"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/internal/loopback"
	"slipway/internal/sshclientconfig"
)

// defaultLogin names the Host entries where nobody says otherwise.
const defaultLogin = "slipway"

// sshCall is one call of `slipway ssh`.
type sshCall struct {
	env    Env
	name   string // of the login
	asJSON bool
}

// sshCommand is `slipway ssh`.
func sshCommand(env Env) *cobra.Command {
	s := &sshCall{env: env}
	c := &cobra.Command{
		Use: "ssh", Short: "Log this computer in for ssh, VS Code, scp and rsync", Args: nothingElse,
		Example: "  slipway ssh login https://slipway.example.org && ssh slipway",
		Long: "Log this computer in, so that `ssh slipway`, VS Code's Remote-SSH, scp and rsync reach your sessions.\n\n" +
			"`slipway ssh login` writes a key, its certificate and the service's host keys into ~/.ssh/slipway, the Host entries into\n" +
			"~/.ssh/config.d/slipway.conf, and one Include line with a mark on top of ~/.ssh/config, in which nothing else changes.\n" +
			"`slipway ssh logout` takes out exactly that.",
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(
		&s.name, "name", "", "the name of the login and of its Host entries, for who has several ("+defaultLogin+")",
	)
	c.PersistentFlags().BoolVar(&s.asJSON, "json", false, "print JSON")
	c.AddCommand(sshLoginCommand(s), sshLogoutCommand(s), &cobra.Command{
		Use: "status", Short: "Show the logins of this computer, and how long they are good", Args: nothingElse,
		Example: "  slipway ssh status",
		RunE:    func(*cobra.Command, []string) error { return s.status() },
	}, sshConfigCommand(s), &cobra.Command{
		Use: "known-hosts [ADDRESS]", Short: "Print the service's host keys, for ~/.ssh/known_hosts", Args: atMostOne,
		Example: "  slipway ssh known-hosts https://slipway.example.org >> ~/.ssh/known_hosts",
		RunE:    func(c *cobra.Command, args []string) error { return s.knownHosts(c.Context(), strings.Join(args, "")) },
	})
	return c
}

// files returns the user's files. Where the system knows another home than the environment, ssh reads that one: ours is
// then named whole.
func (s *sshCall) files() (*sshclientconfig.Files, error) {
	home := userHome(s.env)
	if home == "" {
		return nil, errs.New(errs.Invalid, "your home directory is not known").With("set HOME")
	}
	cfg := sshclientconfig.Config{Home: home, Windows: runtime.GOOS == "windows"}
	if me, err := user.Current(); err == nil && !cfg.Windows {
		cfg.Foreign = me.HomeDir != home
	}
	return sshclientconfig.New(cfg), nil
}

// userHome returns the home directory; empty: it is not known.
func userHome(env Env) string {
	if runtime.GOOS == "windows" {
		return env.Getenv("USERPROFILE")
	}
	return env.Getenv("HOME")
}

// meant returns the user's files, and the login that is meant.
func (s *sshCall) meant() (files *sshclientconfig.Files, login sshclientconfig.Service, known bool, err error) {
	if files, err = s.files(); err == nil {
		login, known, err = s.noted(files)
	}
	return files, login, known, err
}

// noted returns the login that is meant: the one of the name, or the only one.
func (s *sshCall) noted(f *sshclientconfig.Files) (login sshclientconfig.Service, known bool, err error) {
	list, err := f.Services()
	if err != nil {
		return login, false, err
	}
	name := s.name
	if name == "" && len(list) == 1 {
		return list[0], true, nil
	}
	if name == "" {
		name = defaultLogin
	}
	if at := slices.IndexFunc(list, func(l sshclientconfig.Service) bool { return l.Name == name }); at >= 0 {
		return list[at], true, nil
	}
	return sshclientconfig.Service{Name: name}, false, nil
}

// dial makes a client for the service that is meant: the argument's, the environment's or that of the login. The token
// of the environment goes to the address of the environment alone.
func (s *sshCall) dial(
	argument string, noted sshclientconfig.Service,
) (client *hubapi.Client, address string, withToken bool, err error) {
	set := s.env.Getenv("SLIPWAY_URL")
	address = argument
	for _, other := range []string{set, noted.Address} {
		if address == "" {
			address = other
		}
	}
	if address == "" {
		return nil, "", false, errs.New(errs.Invalid, "which service is not known").
			With("name its address, such as `slipway ssh login https://hub.example.org`, or set SLIPWAY_URL")
	}
	if address, err = safeAddress(address); err != nil {
		return nil, "", false, err
	}
	cfg := hubapi.ClientConfig{URL: address}
	if mine, err := safeAddress(set); (set == "" || err == nil && mine == address) && s.env.Getenv("SLIPWAY_TOKEN")+s.env.Getenv("SLIPWAY_TOKEN_FILE") != "" {
		token, err := tokenOf(s.env)
		if err != nil {
			return nil, "", false, err
		}
		cfg.Token, withToken = hubapi.Token(token.Reveal()), true
	}
	client, err = hubapi.NewClient(cfg)
	return client, address, withToken, err
}

// safeAddress returns an address with its scheme. Plain http is for this computer alone: elsewhere anybody on the way
// could name other host keys than the service's.
func safeAddress(address string) (string, error) {
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if strings.Contains(address, "@") {
		return "", errs.New(errs.Invalid, "address: it has a name or a password in it, which is not shown here").
			With("leave out what stands before the @")
	}
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", errs.Bad("address", address, "an address such as https://hub.example.org")
	}
	if u.Scheme == "http" && !loopback.Is(u.Hostname()) {
		return "", errs.Bad(
			"address", address,
			"use https: over plain http anybody on the way could pass another server off as this one",
		)
	}
	return strings.TrimRight(u.Scheme+"://"+u.Host+u.EscapedPath(), "/"), nil
}
