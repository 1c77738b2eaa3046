package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
)

// doctorCommand is `slipway doctor`: for users it looks at what the service says of them, for administrators at the
// service's host.
func doctorCommand(env Env) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "doctor", Short: "Look for what is missing, and say what to do: for you, or on the service's host",
		Args: nothingElse,
		Long: "Look for what is missing, and say what to do about it. It changes nothing.\n\n" +
			"In a session or job, or with SLIPWAY_URL set, it looks at your part: the service, who you are there, your\n" +
			"credentials and your quotas. `slipway doctor data` looks at your data, from inside a session. Without a\n" +
			"service, or with --config, it looks at this host for what the service's configuration asks of it.\n\n" +
			"Exit code 1 when something is missing that one cannot do without.",
		Example: "  slipway doctor\n  slipway doctor --config /etc/slipway/slipway.yaml",
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	host := hostDoctor(env, c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		look := func(ctx context.Context) ([]finding, error) { return userFindings(ctx, env) }
		if host != nil && (c.Flags().Changed("config") || !knowsService(env)) {
			look = host
		}
		findings, err := look(c.Context())
		if err != nil {
			return err
		}
		return reportFindings(env, findings, asJSON)
	}
	return c
}

// finding is what a doctor says of one thing.
type finding struct {
	Check   string `json:"check"`
	Result  string `json:"result"` // ok, warn or fail
	Message string `json:"message,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
}

func reportFindings(env Env, findings []finding, asJSON bool) error {
	var err error
	if asJSON {
		err = env.data(findings)
	} else {
		err = printFindings(env, findings)
	}
	if err == nil && slices.ContainsFunc(findings, func(f finding) bool { return f.Result == hubapi.CheckFail }) {
		return exitCode(exitError)
	}
	return err
}

func printFindings(env Env, findings []finding) error {
	var rows [][]string
	for _, f := range findings {
		rows = append(rows, []string{f.Result, f.Check, f.Message})
	}
	if err := render.Table(env.Stdout, []string{"RESULT", "CHECK", "FINDING"}, rows, ""); err != nil {
		return err
	}
	for _, f := range findings {
		if f.Remedy != "" {
			fmt.Fprintf(env.Stdout, "\n%s: %s\n", f.Check, f.Remedy)
		}
	}
	return nil
}

// userFindings looks at what a service says of its user. What it does not answer stops the rest.
func userFindings(ctx context.Context, env Env) ([]finding, error) {
	client, err := connect(env)
	if err != nil {
		return nil, err
	}
	me, err := client.Whoami(ctx)
	if err != nil {
		return []finding{failedCheck("service", err)}, nil
	}
	known := "it answers, and knows you as " + me.User + " of hub " + me.Hub
	all := []finding{{Check: "service", Result: hubapi.CheckOK, Message: known}, accountFinding(me.Person)}
	all = append(all, credentialFindings(ctx, client)...)
	return append(all, quotaFindings(ctx, client)...), nil
}

func failedCheck(name string, err error) finding {
	f := finding{Check: name, Result: hubapi.CheckFail, Message: render.Printable(err.Error())}
	if e, ok := errors.AsType[*errs.Error](err); ok {
		f.Message, f.Remedy = render.Printable(e.Message), render.Printable(e.Remedy)
	}
	return f
}

func accountFinding(p hubapi.Person) finding {
	if p.Trouble != "" {
		return finding{
			Check: "account", Result: hubapi.CheckFail, Remedy: render.Printable(p.Remedy),
			Message: "no session or job of yours would start: " + render.Printable(p.Trouble),
		}
	}
	return finding{Check: "account", Result: hubapi.CheckOK, Message: "your sessions and jobs run as " + p.Login}
}

// credentialFindings has one finding for all that are in order.
func credentialFindings(ctx context.Context, client *hubapi.Client) (all []finding) {
	list, err := client.Credentials(ctx, "")
	if errs.Is(err, errs.Missing) {
		return []finding{{Check: "credentials", Result: hubapi.CheckOK, Message: "this site has none"}}
	}
	if err != nil {
		return []finding{failedCheck("credentials", err)}
	}
	for _, c := range list.Credentials {
		if c.Trouble != "" {
			all = append(all, finding{
				Check: "credential " + c.Name, Result: hubapi.CheckWarn, Message: render.Printable(c.Trouble),
			})
		}
	}
	if len(all) == 0 {
		inOrder := fmt.Sprintf("%d, in order", len(list.Credentials))
		all = append(all, finding{Check: "credentials", Result: hubapi.CheckOK, Message: inOrder})
	}
	return all
}

// almostFull is from how many percent on a quota is worth a warning, as in sessions.
const almostFull = 95

func quotaFindings(ctx context.Context, client *hubapi.Client) (all []finding) {
	list, err := client.Quota(ctx)
	if err != nil {
		return []finding{failedCheck("quota", err)}
	}
	for _, q := range list.Quotas {
		f := finding{Check: "quota of " + q.Name, Result: hubapi.CheckOK, Message: hubapi.QuotaWords(q)}
		switch {
		case q.ReadOnly:
			f.Result, f.Message, f.Remedy = hubapi.CheckFail, "it cannot be written to now", "tell your administrator"
		case q.Percent >= almostFull:
			f.Result, f.Remedy = hubapi.CheckWarn, "make room: `slipway home usage`, in a session, shows what is big"
		}
		all = append(all, f)
	}
	return all
}
