//go:build linux

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/images/transfer"
)

func envCredentialCommand(env Env, asJSON *bool) *cobra.Command {
	r, authfile := hubapi.CredentialRequest{}, ""
	c := &cobra.Command{
		Use: "credential", Short: "Get what opens this job's environment from another host", Args: nothingElse,
		Long: "Get a credential by which other hosts fetch the environment of this job or session (or --of) from the service's registry. It\n" +
			"opens that one environment and nothing else, and ends with the job. With --authfile it goes into a file of logins, beside those\n" +
			"that are there, and the standard output says what to run; without, the password is the standard output.",
		Example: "  apptainer exec --authfile login.json \"$(slipway envs credential --authfile login.json)\" python work.py\n" +
			"  slipway envs credential | apptainer registry login --username job --password-stdin oras://slipway.example.org",
		RunE: func(c *cobra.Command, _ []string) error {
			return runEnvCredential(c.Context(), env, r, authfile, *asJSON)
		},
	}
	c.Flags().StringVar(&r.Workload, "of", "", "a job or session of yours; this one when it is left out")
	c.Flags().StringVar(
		&authfile, "authfile", "",
		"file of logins to put it into, as Docker and Apptainer read it (APPTAINER_AUTHFILE)",
	)
	return c
}

func runEnvCredential(ctx context.Context, env Env, r hubapi.CredentialRequest, authfile string, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	got, err := client.EnvironmentCredential(ctx, r)
	switch {
	case err != nil:
		return err
	case asJSON:
		return env.data(got)
	case authfile == "":
		_, err = fmt.Fprintln(env.Stdout, got.Password)
		return err
	}
	if err := transfer.AddLogin(authfile, got.Registry, got.Username, got.Password); err != nil {
		return err
	}
	if got.Plain {
		fmt.Fprintf(env.Stderr, "credential: %s speaks HTTP without TLS: give Apptainer --no-https\n", got.Registry)
	}
	_, err = fmt.Fprintln(env.Stdout, got.Reference)
	return err
}
