//go:build linux

package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/images/blobstore"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
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
	c.Flags().StringVar(&authfile, "authfile", "", "file of logins to put it into, as Docker and Apptainer read it (APPTAINER_AUTHFILE)")
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
		return render.JSON(env.Stdout, got)
	case authfile == "":
		_, err = fmt.Fprintln(env.Stdout, got.Password)
		return err
	}
	if err := addLogin(authfile, got.Registry, got.Username, got.Password); err != nil {
		return err
	}
	if got.Plain {
		fmt.Fprintf(env.Stderr, "credential: %s speaks HTTP without TLS: give Apptainer --no-https\n", got.Registry)
	}
	_, err = fmt.Fprintln(env.Stdout, got.Reference)
	return err
}

// addLogin puts a login into a file of logins, and keeps what else is in it.
func addLogin(path, host, username, password string) error {
	file := map[string]json.RawMessage{}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	logins := map[string]json.RawMessage{}
	if auths, there := file["auths"]; err == nil && there {
		err = json.Unmarshal(auths, &logins)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errs.New(errs.Invalid, "read the logins in %s: %w", path, err).With("name another file, or one that does not exist yet")
	}
	if file == nil { // the file says null
		file = map[string]json.RawMessage{}
	}
	if logins == nil {
		logins = map[string]json.RawMessage{}
	}
	login := struct {
		Auth string `json:"auth"`
	}{base64.StdEncoding.EncodeToString([]byte(username + ":" + password))}
	if logins[host], err = json.Marshal(login); err != nil {
		return err
	}
	if file["auths"], err = json.Marshal(logins); err != nil {
		return err
	}
	if text, err = json.MarshalIndent(file, "", "  "); err != nil {
		return err
	}
	return blobstore.WriteFile(path, append(text, '\n'))
}
