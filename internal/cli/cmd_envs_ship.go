package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/images/transfer"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
	"slipway/internal/units"
)

// loginFlags say as whom a registry is spoken to.
type loginFlags struct {
	username, authfile string
}

// registryHelp says which registries there are for users.
const registryHelp = "The registry must speak HTTPS, with a certificate that the service trusts, and stand on another host: the service calls no\n" +
	"loopback or link-local address for users."

const loginHelp = "The registry is asked as whom `docker login` or `apptainer registry login` has left in the file of --authfile, or with\n" +
	"--username, whose password is then the first line of the standard input. The service uses it for this once."

func (l *loginFlags) add(c *cobra.Command) {
	c.Flags().StringVar(
		&l.username, "username", "",
		"log in to the registry under this name; the password comes from the standard input",
	)
	c.Flags().StringVar(
		&l.authfile, "authfile", "",
		"file of logins, as Docker and Apptainer write it (default ~/.docker/config.json, where there is one)",
	)
}

// login finds what the registry of a reference is given.
func (l *loginFlags) login(ctx context.Context, env Env, text string) (hubapi.RegistryLogin, error) {
	ref, err := transfer.ParseReference("reference", text)
	if err != nil {
		return hubapi.RegistryLogin{}, err
	}
	if l.username != "" {
		password, err := firstLine(env.Stdin)
		return hubapi.RegistryLogin{Username: l.username, Password: password}, err
	}
	file := l.authfile
	if file == "" {
		file = defaultAuthfile(env)
		if _, err := os.Stat(file); err != nil {
			return hubapi.RegistryLogin{}, nil // nobody has logged in
		}
	}
	c, err := transfer.DockerConfig(file)(ctx, ref.Host)
	if l.authfile == "" && errs.Is(err, errs.Missing) {
		fmt.Fprintf(env.Stderr, "slipway: %v; going on without a login\n", err)
		return hubapi.RegistryLogin{}, nil
	}
	return hubapi.RegistryLogin{
		Username: c.Username, Password: c.Password.Reveal(), Identity: c.Identity.Reveal(), Token: c.Token.Reveal(),
	}, err
}

func defaultAuthfile(env Env) string {
	if dir := env.Getenv("DOCKER_CONFIG"); dir != "" {
		return filepath.Join(dir, "config.json")
	}
	return filepath.Join(env.Getenv("HOME"), ".docker", "config.json")
}

// maxPassword is more than any password or token has.
const maxPassword = 64 << 10

func firstLine(r io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxPassword)).ReadString('\n')
	line = strings.TrimRight(line, "\r\n")
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return "", fmt.Errorf("read the password: %w", err)
	case line == "":
		return "", errs.New(errs.Invalid, "--username is given, and no password").With("write it to the standard input, such as `slipway envs push ... --username alice < password`")
	}
	return line, nil
}

func envPushCommand(env Env, asJSON *bool) *cobra.Command {
	r, login, architecture := hubapi.PushRequest{}, loginFlags{}, ""
	c := &cobra.Command{
		Use: "push REF HOST/REPOSITORY:TAG", Short: "Send an environment to a registry",
		Args: exactly(2, "an environment and where to push it"),
		Long: "Send an environment to an OCI registry. Only what the registry lacks travels: of the second environment on one image that is\n" +
			"what the session had changed. A name goes with what it has for each architecture, and what the tag has for others stays.\n" +
			"`slipway envs pull` of a site that trusts this one's key receives it; with --sif, `apptainer exec\n" +
			"oras://HOST/REPOSITORY:TAG` runs it too.\n\n" + registryHelp + "\n\n" + loginHelp + "\n\n" + reference,
		Example: "  slipway envs push analysis:v1 registry.example.org/higgs/analysis:v1 --sif",
		RunE: func(c *cobra.Command, args []string) (err error) {
			r.To = args[1]
			if r.Login, err = login.login(c.Context(), env, r.To); err != nil {
				return err
			}
			return runEnvPush(c.Context(), env, onArchitecture(args[0], architecture), r, *asJSON)
		},
	}
	c.Flags().BoolVar(&r.SIF, "sif", false, "send the whole image too, for Apptainer")
	c.Flags().StringVar(
		&architecture, "arch", "",
		"send the one for such machines alone, such as arm64; all that the name has when it is left out",
	)
	login.add(c)
	return c
}

func runEnvPush(ctx context.Context, env Env, ref string, r hubapi.PushRequest, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	start, steps := time.Now(), &steps{w: env.Stderr, what: "push"}
	done, err := client.PushEnvironment(ctx, ref, r, steps.tell)
	steps.flush()
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Stderr, "push: %s sent, %.1f s\n", units.DiskWords(done.Sent), time.Since(start).Seconds())
	if asJSON {
		return env.data(done)
	}
	_, err = fmt.Fprintln(env.Stdout, done.Environment)
	return err
}

func envPullCommand(env Env, asJSON *bool) *cobra.Command {
	r, login, label := hubapi.PullRequest{}, loginFlags{}, ""
	c := &cobra.Command{
		Use: "pull HOST/REPOSITORY:TAG", Short: "Receive an environment from a registry",
		Args: exactly(1, "what to pull"),
		Long: "Receive an environment that `slipway envs push` has sent, from its registry or from the service of another site, as one of\n" +
			"yours. Only what is not here travels; a pull that broke off goes on where it was. Every byte is compared with the digest.\n\n" +
			"An environment is accepted when a site whose key is trusted here has signed where it comes from. --unsigned takes one that\n" +
			"nobody whom the site trusts has signed, which is recorded in the service's log.\n\n" + registryHelp +
			"\n\n" + loginHelp,
		Example: "  slipway envs pull registry.example.org/higgs/analysis:v1 --name analysis:theirs",
		RunE: func(c *cobra.Command, args []string) (err error) {
			r.From = args[0]
			r.Name, r.Tag, _ = strings.Cut(label, ":")
			if r.Login, err = login.login(c.Context(), env, r.From); err != nil {
				return err
			}
			return runEnvPull(c.Context(), env, r, *asJSON)
		},
	}
	c.Flags().StringVar(&label, "name", "", "what to call it here: NAME or NAME:TAG")
	c.Flags().StringVar(&r.Note, "note", "", "a note for people")
	c.Flags().StringVar(
		&r.Architecture, "arch", "",
		"for which machines, such as arm64, or all; the service's when it is left out, or the only one",
	)
	c.Flags().BoolVar(
		&r.Unsigned, "unsigned", false, "take it also when nobody whom the site trusts has signed where it comes from",
	)
	login.add(c)
	return c
}

func runEnvPull(ctx context.Context, env Env, r hubapi.PullRequest, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	start, steps := time.Now(), &steps{w: env.Stderr, what: "pull"}
	e, err := client.PullEnvironment(ctx, r, steps.tell)
	steps.flush()
	if err != nil {
		return err
	}
	fmt.Fprintf(
		env.Stderr, "pull: %s is here, %s, %.1f s\n", render.ShortDigest(e.Digest), units.DiskWords(e.Size),
		time.Since(start).Seconds(),
	)
	if asJSON {
		return env.data(e)
	}
	_, err = fmt.Fprintln(env.Stdout, e.Digest)
	return err
}
