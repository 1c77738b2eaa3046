package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/agent/control"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
	"slipway/internal/secret"
	"slipway/internal/x509proxy"
)

// proxyCommand is `slipway proxy`.
func proxyCommand(env Env) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "proxy", Short: "Put an X.509 proxy, for your sessions and jobs, and show the one that is there",
		Example: "  slipway proxy",
		Args:    nothingElse,
		Long: "Put an X.509 proxy, and show the one that is there. A proxy is made of your Grid certificate by voms-proxy-init, with a key of its own,\n" +
			"on your computer or in a session. The service validates it, keeps it sealed, and brings it to all your sessions and jobs.",
		RunE: func(c *cobra.Command, _ []string) error { return runProxyShow(c.Context(), env, asJSON) },
	}
	c.PersistentFlags().BoolVar(&asJSON, "json", false, "print the API's JSON")
	c.AddCommand(&cobra.Command{
		Use:     "put [FILE|-]",
		Example: "  voms-proxy-init -rfc -voms atlas && slipway proxy put",
		Short:   "Put a proxy in place of the one before: $X509_USER_PROXY or /tmp/x509up_u<your user id> unless FILE says another", Args: atMostOne,
		RunE: func(c *cobra.Command, args []string) error {
			return runProxyPut(c.Context(), env, strings.Join(args, ""), asJSON)
		},
	}, &cobra.Command{
		Use: "show", Short: "Show whose the proxy is that your sessions and jobs have, and how long it lasts",
		Example: "  slipway proxy show",
		Args:    nothingElse,
		RunE:    func(c *cobra.Command, _ []string) error { return runProxyShow(c.Context(), env, asJSON) },
	})
	return c
}

func runProxyPut(ctx context.Context, env Env, file string, asJSON bool) error {
	if file == "" {
		file = usualProxy(env)
	}
	if _, err := os.Stat(file); file != "-" && errors.Is(err, fs.ErrNotExist) {
		return errs.New(errs.NotFound, "there is no %s", file).
			With("make a proxy with voms-proxy-init, with -voms and your organisation, or name its file")
	}
	text, err := readSecretFile(env, file, "the proxy")
	if err != nil {
		return err
	}
	if err := x509proxy.Screen(secret.New(text), time.Now()); err != nil {
		return unsent(err)
	}
	client, err := connect(env)
	if err != nil {
		return err
	}
	put, err := client.PutProxy(ctx, hubapi.ProxyRequest{Proxy: text})
	if err != nil {
		return err
	}
	return tellCredential(env, put, "is put, for all your sessions and jobs", asJSON)
}

// unsent adds to what is wrong that nobody else has seen it.
func unsent(err error) error {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok {
		return err
	}
	told := *e
	told.Message += "; nothing was sent"
	return &told
}

// usualProxy is where Grid programs make a proxy and look for one.
func usualProxy(env Env) string {
	if file := env.Getenv(control.ProxyFileEnv); file != "" {
		return file
	}
	return control.UsualProxy()
}

func runProxyShow(ctx context.Context, env Env, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	all, err := client.Credentials(ctx, "")
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all.Credentials, func(c hubapi.Credential) bool { return c.Name == hubapi.ProxyCredential })
	switch {
	case i < 0 && !all.Proxies:
		return errs.New(errs.Missing, "this service takes no X.509 proxies").
			With("its administrator sets credentials.x509.trust in its configuration")
	case i < 0:
		return errs.New(errs.NotFound, "you have no proxy here").
			With("make one with voms-proxy-init, and put it: slipway proxy put")
	case asJSON:
		return env.data(all.Credentials[i])
	}
	return printProxy(env, all.Credentials[i], time.Now())
}

func printProxy(env Env, c hubapi.Credential, now time.Time) error {
	expires := ""
	if c.Expires != nil {
		expires = c.Expires.Local().Format("2006-01-02 15:04 MST")
	}
	if err := render.Pairs(env.Stdout, [][2]string{
		{"You", c.Subject}, {"Authority", c.Issuer}, {"Organisation", c.VO},
		{"Groups and roles", strings.Join(c.FQANs, " ")},
		{"Time left", left(c.Expires, now)}, {"Until", expires},
	}); err != nil {
		return err
	}
	return printWords(env.Stdout, c)
}
