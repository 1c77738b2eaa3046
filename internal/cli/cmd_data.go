package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
)

// dataCommand is `slipway data`.
func dataCommand(env Env) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "data", Short: "List the storage elements; url gives the URL of a file for here and now",
		Example: "  slipway data",
		Args:    nothingElse,
		Long: "List the site's storage elements, whether their caches answer, and where this session has them as directories: the one that\n" +
			"ends in .cached reads through the cache and cannot be written to.",
		RunE: func(c *cobra.Command, _ []string) error { return runData(c.Context(), env, asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the API's JSON")
	c.AddCommand(dataURLCommand(env))
	return c
}

func runData(ctx context.Context, env Env, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	all, err := client.Storages(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(all)
	}
	var rows [][]string
	for _, s := range all.Storage {
		rows = append(rows, []string{s.Name, s.Origin + "/" + s.Path, cacheWords(s), mountWords(s)})
	}
	return render.Table(
		env.Stdout, []string{"NAME", "ORIGIN", "CACHE", "HERE"}, rows,
		"this site has no storage elements: its administrator sets data.storage in the configuration",
	)
}

func cacheWords(s hubapi.Storage) string {
	switch {
	case s.Cache == "":
		return ""
	case s.CacheUp:
		return s.Cache
	default:
		return s.Cache + " does not answer" + strings.TrimSuffix(": "+s.Trouble, ": ")
	}
}

func mountWords(s hubapi.Storage) string {
	var all []string
	for _, m := range s.Mounts {
		words := m.Path
		if m.Trouble != "" {
			words += " (" + m.Trouble + ")"
		}
		all = append(all, words)
	}
	return strings.Join(all, ", ")
}

// dataURLCommand is `slipway data url`.
func dataURLCommand(env Env) *cobra.Command {
	write, direct, asJSON := false, false, false
	c := &cobra.Command{
		Use: "url LFN", Short: "Print the URL at which a file is read, or written, here and now",
		Args: exactly(1, "a file such as eos:run7/events.root"),
		Long: "Print the URL of a file: at the site's cache while that answers, else at its origin; for writing always at the origin.\n" +
			"LFN is ELEMENT:PATH, a path on the storage's server, a path below /storage, or a URL. Nothing is asked of the storage, so\n" +
			"the file need not be there. What the cache has read once it does not look at again: --direct reads what has changed.",
		Example: "  xrdcp $(slipway data url eos:run7/events.root) .\n  xrdcp out.root $(slipway data url --write eos:me/out.root)",
		RunE: func(c *cobra.Command, args []string) error {
			client, err := connect(env)
			if err != nil {
				return err
			}
			u, err := client.DataURL(c.Context(), args[0], write, direct)
			switch {
			case err != nil:
				return err
			case asJSON:
				return env.data(u)
			}
			if u.Why != "" {
				fmt.Fprintf(env.Stderr, "slipway: %s; this is the origin's\n", render.Printable(u.Why))
			}
			_, err = fmt.Fprintln(env.Stdout, u.URL)
			return err
		},
	}
	c.Flags().BoolVar(&write, "write", false, "for writing")
	c.Flags().BoolVar(&direct, "direct", false, "past the cache")
	c.Flags().BoolVar(&asJSON, "json", false, "print the API's JSON")
	return c
}
