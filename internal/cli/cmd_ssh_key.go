package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
)

// sshKeyCommand is `slipway ssh-key`.
func sshKeyCommand(env Env) *cobra.Command {
	asJSON, comment := false, ""
	c := &cobra.Command{
		Use: "ssh-key", Short: "Add, list and remove the public keys by which ssh knows you", Args: nothingElse,
		Example: "  slipway ssh-key\n" +
			"  slipway ssh-key list --json",
		Long: "Add, list and remove the public keys by which ssh knows you, for keys of your own; `slipway ssh login` needs none.\n" +
			"A key is good until it is removed, which ends the connections that were opened with it.",
		RunE: func(c *cobra.Command, _ []string) error { return runSSHKeys(c.Context(), env, asJSON) },
	}
	c.PersistentFlags().BoolVar(&asJSON, "json", false, "print the API's JSON")
	add := &cobra.Command{
		Use:     "add [FILE|-]",
		Example: "  slipway ssh-key add ~/.ssh/id_ed25519.pub --comment laptop",
		Short:   "Add a public key: a file's, or from standard input; ~/.ssh/id_ed25519.pub unless FILE says another",
		Args:    atMostOne,
		RunE: func(c *cobra.Command, args []string) error {
			return runSSHKeyAdd(c.Context(), env, strings.Join(args, ""), comment, asJSON)
		},
	}
	add.Flags().StringVar(&comment, "comment", "", "what to call it; else as the key's line has it")
	addList(c)
	c.AddCommand(add, &cobra.Command{
		Use: "rm FINGERPRINT|COMMENT", Short: "Remove a key, and end the connections that were opened with it",
		Example: "  slipway ssh-key rm laptop",
		Args:    exactly(1, "a key's fingerprint or comment"),
		RunE:    func(c *cobra.Command, args []string) error { return runSSHKeyRemove(c.Context(), env, args[0], asJSON) },
	})
	return c
}

func runSSHKeys(ctx context.Context, env Env, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	list, err := client.SSHKeys(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(hubapi.SSHKeys{Keys: list})
	}
	var rows [][]string
	for _, k := range list {
		used := ""
		if k.Used != nil {
			used = render.Ago(*k.Used, time.Now())
		}
		rows = append(rows, []string{k.Fingerprint, k.Type, k.Comment, render.Ago(k.Added, time.Now()), used, k.From})
	}
	head := []string{"FINGERPRINT", "TYPE", "COMMENT", "ADDED", "USED", "FROM"}
	return render.Table(env.Stdout, head, rows, "No keys. `slipway ssh-key add` adds one; `slipway ssh login` needs none.")
}

func runSSHKeyAdd(ctx context.Context, env Env, file, comment string, asJSON bool) error {
	text, err := publicKey(env, file)
	if err != nil {
		return err
	}
	client, err := connect(env)
	if err != nil {
		return err
	}
	k, err := client.AddSSHKey(ctx, hubapi.SSHKeyRequest{Key: text, Comment: comment})
	if err != nil {
		return err
	}
	if asJSON {
		return env.data(k)
	}
	if k.Already {
		_, err = fmt.Fprintf(
			env.Stdout, "%s (%s) is one of your keys already, added %s\n", k.Fingerprint, render.Printable(k.Comment),
			render.Ago(k.Added, time.Now()),
		)
		return err
	}
	_, err = fmt.Fprintf(
		env.Stdout, "%s (%s) opens your sessions from now on\n", k.Fingerprint, render.Printable(k.Comment),
	)
	return err
}

// publicKey reads a public key. A private one is told apart before anything leaves this computer.
func publicKey(env Env, file string) (string, error) {
	var in io.Reader = env.Stdin
	if file != "-" {
		if file == "" {
			file = filepath.Join(userHome(env), ".ssh", "id_ed25519.pub")
		}
		f, err := os.Open(file)
		if errors.Is(err, fs.ErrNotExist) {
			return "", errs.New(errs.NotFound, "there is no %s", file).With(otherKeys(env))
		}
		if err != nil {
			return "", errs.New(errs.Invalid, "read the public key: %w", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, 64<<10))
	switch {
	case err != nil:
		return "", errs.New(errs.Invalid, "read the public key: %w", err).With(otherKeys(env))
	case isPrivateKey(text):
		return "", errs.New(errs.Invalid, "this is a private key, which belongs to nobody but you; it was not sent").
			With(publicHalf(file))
	}
	return strings.TrimSpace(string(text)), nil
}

// isPrivateKey tells the private keys of OpenSSH, OpenSSL and PuTTY.
func isPrivateKey(text []byte) bool {
	return bytes.Contains(
		text, []byte("PRIVATE KEY-----"),
	) || bytes.HasPrefix(bytes.TrimSpace(text), []byte("PuTTY-User-Key-File"))
}

// publicHalf says where the public half of a private key's file is.
func publicHalf(file string) string {
	switch _, err := os.Stat(file + ".pub"); {
	case file == "-":
		return "give the public half, as `ssh-keygen -y` prints it"
	case err == nil:
		return "its public half is there: `slipway ssh-key add " + file + ".pub`"
	}
	return "make its public half: `ssh-keygen -y -f " + file + " > " + file + ".pub`"
}

// otherKeys says which keys there are instead of one that there is not.
func otherKeys(env Env) string {
	list, _ := filepath.Glob(filepath.Join(userHome(env), ".ssh", "*.pub")) // fails for a bad pattern alone
	list = slices.DeleteFunc(list, func(path string) bool { return strings.HasSuffix(path, "-cert.pub") })
	if len(list) == 0 {
		return "`ssh-keygen -t ed25519` makes one; or use `slipway ssh login`, which needs none"
	}
	return "name one of yours: " + strings.Join(list, ", ")
}

func runSSHKeyRemove(ctx context.Context, env Env, name string, asJSON bool) error {
	client, err := connect(env)
	if err != nil {
		return err
	}
	list, err := client.SSHKeys(ctx)
	if err != nil {
		return err
	}
	k, err := keyNamed(list, name)
	if err != nil {
		return err
	}
	if err := client.RemoveSSHKey(ctx, k.Fingerprint); err != nil {
		return err
	}
	if asJSON {
		return env.data(map[string]string{"removed": k.Fingerprint})
	}
	_, err = fmt.Fprintf(
		env.Stdout, "%s (%s) is removed, and its connections are ended\n", k.Fingerprint, render.Printable(k.Comment),
	)
	return err
}

// keyNamed finds the key of a fingerprint, with or without its SHA256:, or of a comment.
func keyNamed(list []hubapi.SSHKey, name string) (hubapi.SSHKey, error) {
	var found []hubapi.SSHKey
	for _, k := range list {
		if k.Fingerprint == name || k.Fingerprint == "SHA256:"+name {
			return k, nil
		}
		if k.Comment == name {
			found = append(found, k)
		}
	}
	switch len(found) {
	case 0:
		return hubapi.SSHKey{}, errs.New(errs.NotFound, "you have no key %q", name).With("`slipway ssh-key list` shows which there are")
	case 1:
		return found[0], nil
	}
	var several []errs.Detail
	for _, k := range found {
		several = append(several, errs.Detail{What: k.Fingerprint})
	}
	return hubapi.SSHKey{}, errs.New(errs.Conflict, "%d of your keys are called %q", len(found), name).Naming(several).
		With("name one by its fingerprint")
}
