package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
)

// whoamiCommand is `slipway whoami`.
func whoamiCommand(env Env) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "whoami", Short: "Show who you are here, by what, and by which rule", Args: nothingElse,
		Example: "  slipway whoami",
		Long: "Show who you are here: your Hub and realm, as whom your sessions and jobs run, whom you stand for at token issuers and on the Grid, and\n" +
			"the rule of the site's that says so. Exit code 1 when no session of yours would start.",
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the API's JSON")
	c.RunE = func(c *cobra.Command, _ []string) error { return whoami(c.Context(), env, asJSON) }
	return c
}

func whoami(ctx context.Context, env Env, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	me, err := client.Whoami(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		err = env.data(me)
	} else {
		err = printWhoami(env.Stdout, me)
	}
	if err != nil {
		return err
	}
	if me.Person.Trouble != "" {
		return exitCode(exitError)
	}
	return nil
}

func printWhoami(w io.Writer, me hubapi.Whoami) error {
	p := render.Page{W: w}
	line := func(name, value string) {
		if value != "" {
			p.Printf("%-9s %s\n", name, render.Printable(value))
		}
	}
	admin := ""
	if me.Admin {
		admin = ", administrator"
	}
	line("User", me.User+" of hub "+me.Hub+admin)
	line("Session", me.Session)
	who := me.Person
	if who.Principal != me.User {
		line("Realm", who.Realm+": here you are "+who.Principal)
	}
	if who.UID != 0 {
		line("Runs as", fmt.Sprintf("%s, uid %d, gid %d%s", who.Login, who.UID, who.GID, groupWords(who.Groups)))
		line("Home", who.Home)
	}
	line("By", accountWords(who))
	for _, s := range me.Subjects {
		rule := "you were the first to bring it"
		if s.Rule != "" {
			rule = s.Rule
		}
		line("Elsewhere", s.Name+": "+s.Subject+" ("+rule+")")
		if s.Trouble != "" {
			p.Printf("! %s: %s\n", render.Printable(s.Name), render.Printable(s.Trouble))
		}
	}
	for _, key := range me.SSHKeys {
		line("ssh key", key)
	}
	if who.Trouble != "" {
		p.Printf("! No session or job of yours would start: %s\n", render.Printable(who.Trouble))
		if who.Remedy != "" {
			p.Printf("  -> %s\n", render.Printable(who.Remedy))
		}
	}
	return p.Err
}

func groupWords(groups []hubapi.UserGroup) string {
	var words []string
	for _, g := range groups {
		words = append(words, fmt.Sprintf("%d(%s)", g.ID, g.Name))
	}
	if len(words) == 0 {
		return ""
	}
	return ", groups " + strings.Join(words, " ")
}

// accountWords says where the numbers are from.
func accountWords(who hubapi.Person) string {
	switch who.Accounts {
	case "nss":
		return "the account " + who.Account + " of the service's host"
	case "table":
		return "the line " + who.Account + " of the site's table"
	case "hub":
		return "your Hub's auth_state"
	case "range":
		return "a number given out here, which stays yours"
	}
	return ""
}

// accountsCommand is `slipway accounts`.
func accountsCommand(env Env) *cobra.Command {
	asJSON := false
	list := func(ctx context.Context) error {
		client, err := connect(env)
		if err != nil {
			return err
		}
		all, err := client.Accounts(ctx)
		if err != nil {
			return err
		}
		if asJSON {
			return env.data(all)
		}
		var rows [][]string
		for _, a := range all.Accounts {
			rows = append(rows, []string{fmt.Sprint(a.UID), render.Printable(a.User)})
		}
		return render.Table(env.Stdout, []string{"UID", "USER"}, rows, "No user has a number yet.")
	}
	c := &cobra.Command{
		Use: "accounts", Short: "For administrators: list which user has which number, and forget one",
		Example: "  slipway accounts",
		Args:    nothingElse,
		RunE:    func(c *cobra.Command, _ []string) error { return list(c.Context()) },
	}
	c.PersistentFlags().BoolVar(&asJSON, "json", false, "print the API's JSON")
	c.AddCommand(&cobra.Command{
		Use: "release USER", Short: "Forget a user's number: her next start has the one that she has by then",
		Example: "  slipway accounts release alice",
		Args:    exactly(1, "a user"),
		Long: "Forget a user's number. Her next start has the one that she has by then, and hers may become another user's. She must have no sessions\n" +
			"and jobs, which would have left files with the old number; her home is to be given to the new one first. Users of other realms than the\n" +
			"site's are @realm/name.",
		RunE: func(c *cobra.Command, args []string) error {
			client, err := connect(env)
			if err != nil {
				return err
			}
			gone, err := client.ReleaseAccount(c.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return env.data(gone)
			}
			_, err = fmt.Fprintf(
				env.Stdout, "the number %d of %s is forgotten\n", gone.UID, render.Printable(gone.User),
			)
			return err
		},
	})
	return c
}
