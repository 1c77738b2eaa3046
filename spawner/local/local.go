// Package local runs batch jobs on this host, each in a container of Apptainer and in a control group with limits and a
// deadline.
//
// Promises: a job runs on while the service is down, and its time limit, memory limit and number of processes hold all
// the same; when it is said to have ended, every process of it is gone and no mount is left; a job runs as its owner's
// account, without capabilities, and sees of the host only its image, its own directories and its owner's home.
//
// A job is kept by a small program of its own, the shim (see Shim), which the service starts and then forgets. All that
// the service knows of a job it reads from the job's control directory: the lock says whether the shim lives, exit.json
// how it ended. The package must not know what the agent runs, nor how many jobs may run at once.
package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/quota"
	"slipway/spawner"
	"slipway/spawner/local/cgroup"
)

// Config is what a Backend is made of.
type Config struct {
	Dir          string // holds a control directory for each job; made when missing. Required, absolute
	Apptainer    string // the program, a path or a name on PATH; empty: "apptainer"
	CgroupParent string // path below the root of the control groups; empty: "slipway"
	Instance     string // keeps two services on one host apart; may be empty
	// of all jobs beside the host's other groups of processes, in percent of what one has by itself; zero: as it is
	Weight  int
	Self    string        // path of the slipway program, run as `Self local-shim DIR`. Required
	Agent   string        // the program below control.BinDir, run as `Agent agent`; empty: "slipway"
	Grace   time.Duration // how long a job may take to end when its time is up; zero: 10 s
	Mounts  []Mount       // what jobs see of this host beside their own
	Network Network       // what they reach; empty: Outward
	Reach   []string      // services of this host that jobs reach all the same with Outward, as HOST:PORT
	Disk    int64         // what one job may write, beside its input files; zero: no limit
	Pasta   string        // the program, a path or a name on PATH; empty: "pasta"
	// Squashfs says where in an image file its squashfs begins. Nil: each job mounts its image by itself.
	Squashfs func(image string) (offset int64, err error) `json:"-"`
	// Outlook says at each start what the job's owner should know of Mounts, or why nothing can be started with them.
	// Nil: all is well.
	Outlook func(context.Context) (notes []string, err error) `json:"-"`
	Logger  *slog.Logger                                      // required
}

// Mount is a directory of this host that jobs see, with what is mounted below it now and later, and cannot write to
// unless Write says so. For later mounts it must lie on a shared mount. What is mounted below it says for itself
// whether it can be written to.
type Mount struct {
	Source string `json:"source"`
	Target string `json:"target"`
	Write  bool   `json:"write,omitempty"`
	Plain  bool   `json:"plain,omitempty"` // no part of Source may be a link
}

// Backend runs jobs on this host. It is safe for concurrent use.
type Backend struct {
	cfg    Config
	groups cgroup.Tree
	host   host
	trying sync.Mutex // held by the one trial at a time
	sharing
}

var _ spawner.Backend = (*Backend)(nil)

// New makes a Backend. It starts nothing and does not ask whether Apptainer is there: that is Check's.
func New(cfg Config) (*Backend, error) {
	if cfg.Apptainer == "" {
		cfg.Apptainer = "apptainer"
	}
	if cfg.CgroupParent == "" {
		cfg.CgroupParent = "slipway"
	}
	if cfg.Grace == 0 {
		cfg.Grace = 10 * time.Second
	}
	if cfg.Agent == "" {
		cfg.Agent = path.Base(control.Program)
	}
	if cfg.Network == "" {
		cfg.Network = Outward
	}
	if cfg.Pasta == "" {
		cfg.Pasta = "pasta"
	}
	group := path.Join(cfg.CgroupParent, cfg.Instance)
	switch {
	case !filepath.IsAbs(cfg.Dir):
		return nil, errs.Bad("local dir", cfg.Dir, "name an absolute path")
	case cfg.Self == "":
		return nil, errs.Bad("local self", cfg.Self, "name the slipway program")
	case cfg.Logger == nil:
		return nil, errs.New(errs.Invalid, "the local backend has no logger")
	case !slices.Contains([]Network{Outward, Isolated, OfHost}, cfg.Network):
		return nil, errs.Bad("local network", cfg.Network, "outward, none or host")
	case !filepath.IsLocal(group) || group == ".":
		return nil, errs.Bad(
			"local cgroup", cfg.CgroupParent, "name a path below the root of the control groups, such as slipway",
		)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of local jobs: %w", err)
	}
	b := &Backend{
		cfg: cfg, groups: cgroup.New(cgroup.Root, group), host: host{root: "/"},
		sharing: sharing{states: map[string]*imageState{}},
	}
	b.mounter = sync.OnceValues(b.findMounter)
	return b, nil
}

// Name is "local".
func (b *Backend) Name() string { return "local" }

// validID keeps a workload's ID from being anything but one plain name in a path.
var validID = regexp.MustCompile(`^[a-z]-[a-z0-9]{1,40}$`)

func (b *Backend) dir(id spawner.ID) (dir, error) {
	if !validID.MatchString(string(id)) {
		return "", errs.Bad("id", id, "a letter, a dash, lower-case letters and digits")
	}
	return dir(filepath.Join(b.cfg.Dir, string(id))), nil
}

// Observe looks at a job's lock, then at the account of its end. A job whose shim was killed is ended here.
func (b *Backend) Observe(ctx context.Context, id spawner.ID) (spawner.Observation, error) {
	d, err := b.dir(id)
	if err != nil {
		return spawner.Observation{}, err
	}
	if err := ctx.Err(); err != nil {
		return spawner.Observation{}, fmt.Errorf("observe %s: %w", id, err)
	}
	held, err := d.held()
	if err != nil {
		return spawner.Observation{}, fmt.Errorf("observe %s: %w", id, err)
	}
	if held {
		return b.running(d, id), nil
	}
	o, err := b.settle(ctx, d, id)
	if err != nil {
		return spawner.Observation{}, fmt.Errorf("observe %s: %w", id, err)
	}
	return o, nil
}

// running describes a job that runs. That the kernel has killed some of it for want of memory is said at once: the
// agent may outlive its payload.
func (b *Backend) running(d dir, id spawner.ID) spawner.Observation {
	o := spawner.Observation{Existence: spawner.Up}
	u := b.groups.Group(string(id)).Usage()
	o.Memory, o.CPU = u.MemoryPeak, u.CPU
	if u.OOMKills == 0 {
		return o
	}
	if p, err := d.plan(); err == nil {
		o.Reason, o.Remedy = outOfMemory(p.Resources.Memory, u.MemoryPeak)
	}
	return o
}

// settle describes a job whose shim does not live, after it has made sure that nothing else of it does.
func (b *Backend) settle(ctx context.Context, d dir, id spawner.ID) (spawner.Observation, error) {
	group := b.groups.Group(string(id))
	if group.Exists() {
		b.cfg.Logger.Warn("ending what a job has left without its shim", "id", id)
		if err := b.end(ctx, d, group); err != nil {
			return spawner.Observation{}, err
		}
		if err := group.Remove(); err != nil {
			return spawner.Observation{}, err
		}
	}
	if network := networkGroup(b.groups, string(id)); network.Exists() { // of a shim that was killed
		if err := errors.Join(network.Kill(ctx), network.Remove()); err != nil {
			return spawner.Observation{}, err
		}
	}
	e, err := d.exit()
	switch {
	case err == nil:
		return e.observation(), nil
	case !errors.Is(err, fs.ErrNotExist):
		return spawner.Observation{}, err
	case d.has(startedFile):
		return exit{Code: 1, Lost: true}.observation(), nil
	case d.has("."):
		return spawner.Observation{Existence: spawner.Created}, nil
	default:
		return spawner.Observation{Existence: spawner.Absent}, nil
	}
}

// Stop asks the shim to end the job, and kills the job after grace. It returns when the shim has written down how it
// ended.
func (b *Backend) Stop(ctx context.Context, id spawner.ID, grace time.Duration) error {
	d, err := b.dir(id)
	if err != nil {
		return err
	}
	if err := b.stop(ctx, d, id, grace); err != nil {
		return fmt.Errorf("stop %s: %w", id, err)
	}
	return nil
}

func (b *Backend) stop(ctx context.Context, d dir, id spawner.ID, grace time.Duration) error {
	if grace > 0 {
		if err := d.signal(terminate); err != nil {
			return err
		}
		ended, err := d.awaitFree(ctx, grace)
		if err != nil {
			return err
		}
		if ended {
			_, err := b.settle(ctx, d, id)
			return err
		}
	}
	return b.kill(ctx, d, id)
}

// end kills every process of a job.
func (b *Backend) end(ctx context.Context, d dir, g cgroup.Group) error {
	p, err := d.plan()
	if err != nil { // then nobody knows of a shared image
		return g.Kill(ctx)
	}
	return p.end(ctx, g)
}

// shimGrace is how long a shim may take, once its job was killed, to write down how the job ended.
const shimGrace = 5 * time.Second

// kill kills the job, and then the shim if that does not end by itself.
func (b *Backend) kill(ctx context.Context, d dir, id spawner.ID) error {
	if err := b.end(ctx, d, b.groups.Group(string(id))); err != nil {
		return err
	}
	ended, err := d.awaitFree(ctx, shimGrace)
	if err != nil {
		return err
	}
	if !ended {
		if err := d.signal(kill); err != nil {
			return err
		}
		if ended, err = d.awaitFree(ctx, shimGrace); err != nil || !ended {
			return errors.Join(err, errs.New(errs.Unavailable, "its shim does not end"))
		}
	}
	_, err = b.settle(ctx, d, id)
	return err
}

// Remove removes a job's control directory, with what it wrote to /tmp and /var/tmp.
func (b *Backend) Remove(ctx context.Context, id spawner.ID) error {
	d, err := b.dir(id)
	if err != nil {
		return err
	}
	held, err := d.held()
	if err != nil {
		return fmt.Errorf("remove %s: %w", id, err)
	}
	if held {
		return errs.New(errs.Conflict, "remove %s: it still runs", id).With("stop it first")
	}
	if _, err := b.settle(ctx, d, id); err != nil {
		return fmt.Errorf("remove %s: %w", id, err)
	}
	if err := quota.Clear(d.path(scratchDir)); err != nil {
		return fmt.Errorf("remove %s: %w", id, err)
	}
	if err := os.RemoveAll(string(d)); err != nil {
		return fmt.Errorf("remove %s: %w", id, err)
	}
	return nil
}

// List returns every job that has a control directory or a control group. It also unmounts the images that no job has
// used for a while.
func (b *Backend) List(ctx context.Context) (map[spawner.ID]spawner.Existence, error) {
	if err := b.sweepImages(ctx, linger); err != nil {
		b.cfg.Logger.Warn("an image that no job uses stays mounted for now", "err", err)
	}
	names, err := b.groups.Names()
	if err != nil {
		return nil, fmt.Errorf("list local jobs: %w", err)
	}
	entries, err := os.ReadDir(b.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("list local jobs: %w", err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	jobs := map[spawner.ID]spawner.Existence{}
	for _, name := range names {
		if id := spawner.ID(name); validID.MatchString(name) {
			o, _ := b.Observe(ctx, id) // Unknown when it cannot be seen
			jobs[id] = o.Existence
		}
	}
	return jobs, nil
}
