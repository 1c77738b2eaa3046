package local

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
)

// plan is all that the shim needs to run a job, as it lies in launch.json. It holds no secret.
type plan struct {
	ID        string            `json:"id"`
	Launch    string            `json:"launch"`
	Apptainer string            `json:"apptainer"` // path
	Account   spawner.Account   `json:"account"`
	Image     string            `json:"image"`
	AgentDir  string            `json:"agent_dir"`
	Agent     string            `json:"agent,omitempty"` // path inside; empty: a trial, which has none
	LinkDir   string            `json:"link_dir"`
	RunDir    string            `json:"run_dir"`
	Scratch   string            `json:"scratch"`
	Command   []string          `json:"command,omitempty"` // of a trial, which has no agent; empty: a job
	Env       map[string]string `json:"env,omitempty"`
	GPU       *gpu.Binding      `json:"gpu,omitempty"` // nil: it must see none
	Resources spawner.Resources `json:"resources"`
	TimeLimit time.Duration     `json:"time_limit,omitempty"`
	Grace     time.Duration     `json:"grace"`
	Cgroups   string            `json:"cgroups"` // the group above the job's
	Mounts    []Mount           `json:"mounts,omitempty"`
	Mounted   string            `json:"mounted,omitempty"`  // directory of the image's shared mount; empty: Apptainer mounts the image
	Network   Network           `json:"network,omitempty"`  // of a job
	Reach     []string          `json:"reach,omitempty"`    // services of this host that it reaches all the same, as HOST:PORT
	Disk      int64             `json:"disk,omitempty"`     // of what it writes; zero: no limit
	Measured  bool              `json:"measured,omitempty"` // the shim sees to that limit, not the kernel
	programs
}

// namespaces are those of the kernel that the container's program begins in; a trial's has no network.
func (p plan) namespaces() uintptr {
	if p.isTrial() || p.Network == Isolated {
		return syscall.CLONE_NEWNS | syscall.CLONE_NEWNET
	}
	return syscall.CLONE_NEWNS
}

// words is how many bytes of the output are kept: a job's is Apptainer's and the agent's, a trial's is what it is tried
// for.
func (p plan) words() int64 {
	if p.isTrial() {
		return 1 << 20
	}
	return 32 << 10
}

// isTrial tells a command that has nothing but its image from a job.
func (p plan) isTrial() bool { return len(p.Command) > 0 }

// check refuses what cannot be run as asked.
func (p plan) check() error {
	if err := checkAccount(p.Account); err != nil {
		return err
	}
	if p.Resources.Memory < 0 || p.Resources.CPUs < 0 || p.Resources.Pids < 0 || p.TimeLimit < 0 {
		return errs.New(errs.Invalid, "the limits of %s are negative", p.ID).With("zero is no limit")
	}
	if err := checkSlice(p.slice()); err != nil {
		return err
	}
	return checkEnv(p.Env, p.Account.Home)
}

var validLogin = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,31}$`)

// checkAccount refuses root, and what a line of /etc/passwd or an option of Apptainer's cannot express.
func checkAccount(a spawner.Account) error {
	switch {
	case a.UID <= 0 || a.GID <= 0:
		return errs.New(errs.Forbidden, "a job may not run as uid %d, gid %d", a.UID, a.GID).
			With("give accounts ids above 0")
	case slices.ContainsFunc(a.Groups, func(g spawner.Group) bool {
		return g.ID <= 0 || g.Name == "" || strings.ContainsAny(g.Name, ":,\n\x00")
	}):
		return errs.New(errs.Forbidden, "a job may not have the groups %v", a.Groups).
			With("give accounts groups with ids above 0 and plain names")
	case !validLogin.MatchString(a.Login):
		return errs.Bad("login", a.Login, "at most 32 letters, digits, dots, dashes and underscores, a letter first")
	case !path.IsAbs(a.Home) || path.Clean(a.Home) != a.Home || a.Home == "/":
		return errs.Bad("home", a.Home, "name an absolute path without . and .. in it")
	case strings.ContainsAny(a.Home, ":,\\\"'\n\r\t\x00"):
		return errs.Bad("home", a.Home, "use a path without colons, commas, quotes, backslashes and line ends")
	}
	return nil
}

var validName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// The kernel takes one string of an environment up to 128 KiB, and Apptainer puts a prefix before each name. The whole
// has to fit several times into what the kernel leaves for it.
const (
	maxVariable = 128<<10 - 64
	maxEnv      = 512 << 10
)

// checkEnv refuses variables that would not arrive unchanged.
func checkEnv(env map[string]string, home string) error {
	total := 0
	for _, name := range slices.Sorted(maps.Keys(env)) {
		value := env[name]
		total += len(name) + len(value) + 2
		switch {
		case !validName.MatchString(name):
			return errs.Bad("env", name, "name variables with letters, digits and underscores, no digit first")
		case name == "HOME" && value != home, name == control.IDEnv:
			return errs.Bad("env", name, "leave it out: Slipway sets it")
		case strings.HasPrefix(name, "APPTAINER") || strings.HasPrefix(name, "SINGULARITY"):
			return errs.Bad("env", name, "leave it out: it belongs to Apptainer")
		case gpu.Reserved(name):
			return errs.Bad("env", name, "leave it out: which GPU is seen follows from the slice that was asked for")
		case reserved(name):
			return errs.Bad("env", name, "leave it out: the container's shell sets it")
		case strings.ContainsRune(value, 0):
			return errs.Bad("env", name, "use a value without zero bytes")
		case len(name)+len(value) > maxVariable || total > maxEnv:
			return errs.New(errs.Invalid, "env: %s makes the environment too long", name).
				With(fmt.Sprintf(
					"at most %d KiB for a variable, %d KiB for all: put the rest into a file", maxVariable>>10,
					maxEnv>>10,
				))
		}
	}
	return nil
}

// needs are the things of the host without which the job cannot start.
func (p plan) needs() error {
	image, err := os.Stat(p.Image)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !image.Mode().IsRegular() {
		return errs.New(errs.NotFound, "the image file of the environment is missing").
			With("freeze the session again, then submit again")
	}
	if p.isTrial() {
		return err
	}
	// the home may be on a file system that never answers
	for _, dir := range []string{p.AgentDir, p.LinkDir, p.RunDir} {
		if err != nil {
			return err
		}
		_, err = os.Stat(dir + "/.")
	}
	return err
}
