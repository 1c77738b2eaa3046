//go:build linux

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/images/signing"
	"slipway/internal/cli/render"
	"slipway/internal/config"
	"slipway/internal/environments"
	"slipway/internal/errs"
)

// keyView is a key as `slipway keys --json` shows it.
type keyView struct {
	ID      string     `json:"id"`
	Site    string     `json:"site"` // under which another site's key is trusted; empty: one of this site's own
	Created *time.Time `json:"created"`
	Signs   bool       `json:"signs"`
	PEM     string     `json:"pem"`
}

// keysCommand is `slipway keys`.
func keysCommand(env Env) *cobra.Command {
	k := &keysCall{env: env}
	c := &cobra.Command{
		Use: "keys", Short: "List, rotate and trust the keys that sign environments, on the service's host",
		Example: "  slipway keys",
		Args:    nothingElse,
		Long: "List the keys whose signatures on environments count here: this site's own, and those of the sites that it trusts. To be run as\n" +
			"the service's user (root) on its host: the keys are files, and the service takes changes up at once. Every change is\n" +
			"recorded in " + keysLog + " in the data directory.",
		RunE: func(*cobra.Command, []string) error { return k.list() },
	}
	c.PersistentFlags().StringVar(&k.config, "config", "/etc/slipway/slipway.yaml", "the configuration file")
	c.PersistentFlags().BoolVar(&k.asJSON, "json", false, "print JSON")
	c.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List the keys whose signatures count here", Args: nothingElse,
			Example: "  slipway keys list",
			RunE:    func(*cobra.Command, []string) error { return k.list() },
		},
		&cobra.Command{
			Use: "show [ID]", Short: "Print a public key, for other sites and for `apptainer verify --key`; that which signs now unless ID says another",
			Example: "  slipway keys show > example.org.pem",
			Args:    atMostOne,
			RunE:    func(_ *cobra.Command, args []string) error { return k.show(strings.Join(args, "")) },
		},
		&cobra.Command{
			Use: "rotate", Short: "Make a new key, which signs from now on", Args: nothingElse,
			Example: "  slipway keys rotate",
			Long: "Make a new key, which signs from now on, and destroy the private halves of all earlier ones. What they have signed stays valid;\n" +
				"`slipway keys remove` ends that. Sites that trust this one need the new public key: `slipway keys show`.",
			RunE: func(*cobra.Command, []string) error { return k.rotate() },
		},
		&cobra.Command{
			Use: "trust SITE FILE", Short: "Accept the environments that another site has signed",
			Example: "  slipway keys trust example.org example.org.pem",
			Args:    exactly(2, "a name for the site and the file of its public key"),
			Long: "Accept the environments that another site has signed. FILE is what `slipway keys show` prints there; compare its ID with what\n" +
				"that site's administrator tells you. SITE is a name of your choice; a site with several keys has several names.",
			RunE: func(_ *cobra.Command, args []string) error { return k.trust(args[0], args[1]) },
		},
		&cobra.Command{
			Use: "distrust SITE", Short: "Accept another site's environments no longer", Args: exactly(1, "a site"),
			Example: "  slipway keys distrust example.org",
			RunE:    func(_ *cobra.Command, args []string) error { return k.distrust(args[0]) },
		},
		&cobra.Command{
			Use: "remove ID", Short: "Let the signatures of an earlier key of this site count no longer",
			Example: "  slipway keys remove SHA256:6tmPzQYlHbYzYW0ItWkU",
			Args:    exactly(1, "a key's ID"),
			RunE:    func(_ *cobra.Command, args []string) error { return k.remove(args[0]) },
		},
	)
	return c
}

// keysCall is one call of `slipway keys`.
type keysCall struct {
	env    Env
	config string
	asJSON bool
}

// open opens the keys that there are, to look at.
func (k *keysCall) open() (*signing.Keys, error) {
	cfg, err := config.Load(k.config)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(environments.KeysDir(cfg)); errors.Is(err, fs.ErrNotExist) {
		return nil, errs.New(errs.NotFound, "there are no keys in %s", environments.KeysDir(cfg)).
			With("the service makes the first one when it starts")
	}
	keys, err := environments.OpenKeys(cfg, newLogger(k.env, false, false))
	return keys, asRoot(err)
}

// change opens the keys to change them, and records who does what.
func (k *keysCall) change(do func(*signing.Keys) error) error {
	cfg, err := config.Load(k.config)
	if err != nil {
		return err
	}
	if _, err := os.Stat(cfg.DataDir); errors.Is(err, fs.ErrNotExist) {
		return errs.New(errs.NotFound, "there is no data directory %s", cfg.DataDir).
			With("the service makes it, and the first key, when it starts")
	}
	record, err := os.OpenFile(filepath.Join(cfg.DataDir, keysLog), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return asRoot(fmt.Errorf("record who changes the keys: %w", err))
	}
	log := slog.New(slog.NewJSONHandler(record, nil)).With("uid", os.Getuid(), "sudo_user", k.env.Getenv("SUDO_USER"))
	keys, err := environments.OpenKeys(cfg, log)
	if err == nil {
		err = do(keys)
	}
	return asRoot(errors.Join(err, record.Close()))
}

// keysLog records the changes of the keys, a JSON object a line, in the data directory.
const keysLog = "keys.log"

// asRoot says what to do about files that are the service's alone.
func asRoot(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return errs.New(errs.Forbidden, "%w", err).
			With("run it on the service's host as the service's user, which is root")
	}
	return err
}

func (k *keysCall) list() error {
	keys, err := k.open()
	if err != nil {
		return err
	}
	list, err := keys.List()
	if err != nil {
		return err
	}
	if k.asJSON {
		return k.env.data(map[string][]keyView{"keys": viewKeys(list)})
	}
	var rows [][]string
	for _, key := range list {
		rows = append(rows, []string{cmp.Or(key.Site, "(this site)"), key.ID, date(key.Created), keyState(key)})
	}
	return render.Table(k.env.Stdout, []string{"SITE", "ID", "MADE", "STATE"}, rows, "No keys.")
}

func keyState(k signing.Key) string {
	switch {
	case k.Signs:
		return "signs"
	case k.Own():
		return "retired: what it has signed is valid"
	}
	return "trusted"
}

func viewKeys(list []signing.Key) []keyView {
	out := []keyView{}
	for _, key := range list {
		v := keyView{ID: key.ID, Site: key.Site, Signs: key.Signs, PEM: string(key.PEM())}
		if !key.Created.IsZero() {
			v.Created = &key.Created
		}
		out = append(out, v)
	}
	return out
}

func (k *keysCall) show(id string) error {
	keys, err := k.open()
	if err != nil {
		return err
	}
	list, err := keys.List()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(
		list, func(key signing.Key) bool { return id == "" && key.Signs || id != "" && key.ID == id },
	)
	if at < 0 {
		return errs.New(errs.NotFound, "there is no key %q", id).With("`slipway keys list` shows which there are")
	}
	if k.asJSON {
		return k.env.data(viewKeys(list[at : at+1])[0])
	}
	_, err = k.env.Stdout.Write(list[at].PEM())
	return err
}

func (k *keysCall) rotate() error {
	return k.change(func(keys *signing.Keys) error {
		key, err := keys.Rotate()
		if err != nil {
			return err
		}
		return k.tell(key, "%s signs from now on; sites that trust this one need its public half: `slipway keys show`\n", key.ID)
	})
}

func (k *keysCall) trust(site, file string) error {
	public, err := readKey(file)
	if err != nil {
		return err
	}
	return k.change(func(keys *signing.Keys) error {
		key, err := keys.Trust(site, public)
		if err != nil {
			return err
		}
		return k.tell(
			key, "%s is trusted as %s; compare the ID with what that site's administrator tells you\n", key.ID, site,
		)
	})
}

// readKey reads a public key's file, which is short.
func readKey(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, errs.New(errs.Invalid, "read the public key: %w", err).With("name the file that holds what `slipway keys show` printed at the other site")
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 64<<10))
}

// tell says what came of a change that has a key.
func (k *keysCall) tell(key signing.Key, format string, args ...any) error {
	if k.asJSON {
		return k.env.data(viewKeys([]signing.Key{key})[0])
	}
	_, err := fmt.Fprintf(k.env.Stdout, format, args...)
	return err
}

func (k *keysCall) distrust(site string) error {
	return k.change(func(keys *signing.Keys) error {
		if err := keys.Distrust(site); err != nil {
			return err
		}
		return k.done(site, "%s is trusted no longer; what it has signed is refused from now on\n")
	})
}

func (k *keysCall) remove(id string) error {
	return k.change(func(keys *signing.Keys) error {
		if err := keys.Remove(id); err != nil {
			return err
		}
		return k.done(id, "%s is removed; what it has signed is refused from now on\n")
	})
}

// done says that something is gone; programs learn it from the exit code.
func (k *keysCall) done(what, format string) error {
	if k.asJSON {
		return k.env.data(map[string]string{"removed": what})
	}
	_, err := fmt.Fprintf(k.env.Stdout, format, what)
	return err
}
