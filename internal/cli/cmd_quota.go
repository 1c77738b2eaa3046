package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
)

// quotaCommand is `slipway quota`.
func quotaCommand(env Env) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "quota", Short: "Show how full your home and the shared areas are", Args: nothingElse,
		Example: "  slipway quota",
		Long: "Show how full your home and the shared areas are that you may write to, by what bounds you there first: a quota of yours, of\n" +
			"your group or of the directory, or the whole file system. A quota that an NFS server keeps is not known here.",
		RunE: func(c *cobra.Command, _ []string) error { return runQuota(c.Context(), env, asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the API's JSON")
	return c
}

func runQuota(ctx context.Context, env Env, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	all, err := client.Quota(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(all)
	}
	var rows [][]string
	for _, q := range all.Quotas {
		rows = append(rows, []string{q.Name, q.Path, hubapi.QuotaWords(q), quotaRemark(q)})
	}
	return render.Table(env.Stdout, []string{"NAME", "PATH", "USED", "REMARK"}, rows, "")
}

func quotaRemark(q hubapi.Quota) string {
	switch {
	case q.ReadOnly:
		return "cannot be written to now"
	case q.Percent >= 99:
		return "full"
	default:
		return ""
	}
}

// quotaPairs tells of a session's owner's directories, to show the session. That nothing is known is no error of that.
func quotaPairs(ctx context.Context, client *hubapi.Client, s hubapi.Session) [][2]string {
	all, err := client.Quota(ctx)
	if err != nil || all.User != s.User {
		return nil
	}
	var pairs [][2]string
	for _, q := range all.Quotas {
		pairs = append(pairs, [2]string{q.Name, fmt.Sprintf("%s: %s", q.Path, hubapi.QuotaWords(q))})
	}
	return pairs
}
