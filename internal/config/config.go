// Package config reads the service's one configuration file: YAML, strict. An unknown key, a wrong type or an
// impossible value is an error that names the place; nothing is guessed. Secrets are named by the files that hold them
// and read into a type that cannot be printed.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"slipway/internal/errs"
)

// Config is the whole configuration. Example shows and explains every key.
type Config struct {
	Listen         string              `yaml:"listen"`
	TLS            TLS                 `yaml:"tls"`
	AllowPlainHTTP bool                `yaml:"allow_plain_http"`
	TrustedProxies []string            `yaml:"trusted_proxies"`
	Uplink         Uplink              `yaml:"uplink"`
	DataDir        string              `yaml:"data_dir"`
	Instance       string              `yaml:"instance"` // tells the services of one host apart
	SecretKey      string              `yaml:"secret_key_file"`
	Hubs           []Hub               `yaml:"hubs"`   // the JupyterHubs whose users come here
	Users          Users               `yaml:"users"`  // the accounts and homes of users on this host
	Groups         map[string][]string `yaml:"groups"` // of users, beside those of the Hubs
	HubGroups      HubGroups           `yaml:"hub_groups"`
	Images         []Image             `yaml:"images"`   // what sessions run in
	Profiles       []Profile           `yaml:"profiles"` // the kinds of sessions that users choose from
	Jobs           Jobs                `yaml:"jobs"`
	Kernels        Kernels             `yaml:"kernels"`
	Host           Host                `yaml:"host"`
	Docker         Docker              `yaml:"docker"`
	Local          Local               `yaml:"local"`
	HTCondor       HTCondor            `yaml:"htcondor"`
	Slurm          Slurm               `yaml:"slurm"`
	GPU            GPU                 `yaml:"gpu"`
	SSH            SSH                 `yaml:"ssh"`
	VSCode         VSCode              `yaml:"vscode"`
	Environments   Environments        `yaml:"environments"` // what is kept of environments, and where
	Data           Data                `yaml:"data"`
	Credentials    Credentials         `yaml:"credentials"`
	Identities     Identities          `yaml:"identities"`
}

// TLS names the certificate that the service shows; without one it speaks plain HTTP.
type TLS struct {
	Cert string `yaml:"cert"` // the certificate, with those between it and its authority: PEM
	Key  string `yaml:"key"`  // its private key: PEM
}

// Users says how users become accounts of this host.
type Users struct {
	Accounts   string     `yaml:"accounts" jsonschema:"enum=range,enum=nss,enum=hub,enum=table"`
	Table      string     `yaml:"table"`
	HubAccount HubAccount `yaml:"hub_account"`
	UIDs       Range      `yaml:"uids"`
	GID        int        `yaml:"gid"`
	Homes      string     `yaml:"homes"`
	Home       Home       `yaml:"home"` // of each user
}

// Image is an image that profiles offer.
type Image struct {
	Name        string `yaml:"name"`         // by which profiles name it
	DisplayName string `yaml:"display_name"` // what users read
	Ref         string `yaml:"ref"`          // as `docker pull` takes it
}

// Docker is the backend of sessions.
type Docker struct {
	Socket         string  `yaml:"socket"` // the engine's
	MaxTotalCPUs   float64 `yaml:"max_total_cpus"`
	MaxTotalMemory Size    `yaml:"max_total_memory"` // of all sessions together; 0: not limited
	Network        string  `yaml:"network"`
	Pull           bool    `yaml:"pull"`
}

// Local is the backend of jobs on this host.
type Local struct {
	Apptainer string `yaml:"apptainer"` // the program: a path, or a name on PATH
	MaxJobs   int    `yaml:"max_jobs"`
	// What jobs reach: outward, none or host.
	Network string   `yaml:"network" jsonschema:"enum=outward,enum=none,enum=host"`
	Reach   []string `yaml:"reach"`    // services of this host that jobs reach all the same
	MaxDisk Bound    `yaml:"max_disk"` // of one job, beside its inputs; 0: not limited
}

// Default is what holds for every key that the file leaves out. Hubs, images and profiles have no default.
func Default() Config {
	return Config{
		Listen: "127.0.0.1:8090", TrustedProxies: []string{"127.0.0.1", "::1"}, DataDir: "/var/lib/slipway",
		Instance: "slipway",
		Users: Users{
			Accounts: AccountsRange, UIDs: Range{20000, 59999}, GID: 100, Homes: "/var/lib/slipway/homes",
			Home: defaultHome(),
		},
		HubGroups: defaultHubGroups(),
		Jobs:      defaultJobs(),
		Docker:    Docker{Socket: "/var/run/docker.sock"},
		Local:     Local{Apptainer: "apptainer", MaxJobs: 2, Network: "outward", Reach: []string{}, MaxDisk: 50e9},
		GPU:       defaultGPU(), Environments: defaultEnvironments(), HTCondor: defaultHTCondor(), Slurm: defaultSlurm(), SSH: defaultSSH(),
		Data:        defaultData(),
		Credentials: defaultCredentials(), Identities: defaultIdentities(), Kernels: defaultKernels(),
	}
}

// StandardPath is where the configuration lies when nobody says another place.
const StandardPath = "/etc/slipway/slipway.yaml"

// Load reads and checks the file at path.
func Load(path string) (Config, error) {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && path == StandardPath:
		return Config{}, errs.New(errs.Invalid, "there is no %s", path).
			With("name the configuration by --config FILE; `slipway init` makes a first one")
	case errors.Is(err, fs.ErrNotExist):
		return Config{}, errs.New(errs.Invalid, "there is no file %s", path)
	case err != nil:
		return Config{}, errs.New(errs.Invalid, "read the configuration: %w", err)
	}
	return Read(text, path)
}

// Read reads and checks a configuration; from is what errors call the place where it was found.
func Read(text []byte, from string) (Config, error) {
	c, wrong := parse(text)
	if len(wrong) > 0 {
		return Config{}, located(wrong, from)
	}
	c.fill()
	return c, c.Check()
}

// located joins mistakes, each with what it stands in.
func located(wrong []error, from string) error {
	out := make([]error, len(wrong))
	for i, err := range wrong {
		out[i] = locate(err, from)
	}
	return errors.Join(out...)
}

// locate says in which line of what a mistake stands.
func locate(err error, from string) error {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok {
		return fmt.Errorf("%s: %w", from, err)
	}
	c := *e
	if strings.HasPrefix(c.Message, "line ") {
		c.Message = from + ", " + c.Message
	} else {
		c.Message = from + ": " + c.Message
	}
	return &c
}

// fill puts in what holds for keys that depend on others.
func (c *Config) fill() {
	if c.SecretKey == "" {
		c.SecretKey = filepath.Join(c.DataDir, "secret.key")
	}
}

// exampleHelp is the remedy where there is no better one.
const exampleHelp = "`slipway config example` shows every key"

// Parse reads a configuration without checking what it names.
func Parse(text []byte) (Config, error) {
	c, wrong := parse(text)
	return c, errors.Join(wrong...)
}

func parse(text []byte) (Config, []error) {
	c := Default()
	wrong := Decode(text, &c, exampleHelp)
	if len(wrong) > 0 {
		return Config{}, wrong
	}
	return c, nil
}
