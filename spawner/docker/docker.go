// Package docker is the backend that runs sessions in containers of a Docker Engine on this host.
//
// A workload is the one container slipway-<id>; its writable layer is the session's changes. The container's labels say
// whose it is, so a service that starts anew finds all that an earlier one made, by List, and adopts it. Containers of
// another instance, or of nobody, are never touched. No secret is in a container's configuration: the agent gets them
// later. A container sees the GPU of its launch and no other, whatever its image asks for, in each of its starts anew.
//
// The package knows nothing of which slices there are, of who may start what, or of what an environment is made of. For
// a freeze it says where a container's layers lie, or fetches them from an engine whose directories it cannot read; for
// a session that starts from an environment it gives an empty directory to fill, and never runs a container of which
// that is not done.
package docker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"slipway/internal/errs"
	"slipway/spawner"
)

// Config is what a Backend needs to know.
type Config struct {
	// path of the engine's unix socket; empty: /var/run/docker.sock. Or tcp://..., for an engine that mounts the same
	// directories
	Host     string
	Instance string // tells the containers of two services on one engine apart; empty: "slipway"
	// the engine's network of all workloads; empty: one of the instance's own, in which they do not reach each other
	Network   string
	Version   string // of this service; a label
	PidsLimit int64  // most processes of a workload that does not say; zero: 4096
	RunSize   int64  // bytes of the memory file system on control.RunDir; zero: 256 MiB
	Mounts    []Mount
	// Outlook says at each start what its user should know of Mounts, or why nothing can be started with them. Nil: all
	// is well.
	Outlook func(context.Context) (notes []string, err error)
	// Scratch keeps the unpacked trees of images when the engine's directories cannot be read; empty: then no image can
	// be had whole.
	Scratch string
	// Self is the program that knows `docker-wake HOST CONTAINER`, which wakes a container if this process dies in a
	// freeze. Empty: the next service does.
	Self   string
	Pull   bool // whether an image that is not in the engine may be pulled. The engine pulls without a login: see pull
	Logger *slog.Logger
}

// Mount is a directory of this host that every workload sees.
type Mount struct {
	Source, Target string
	ReadOnly       bool // does not reach file systems that are mounted below it later
	// Propagation is the engine's word for whether later mounts are seen inside: empty is rprivate, which is no; rslave
	// is yes and needs a source that is a shared mount.
	Propagation string
}

// Backend runs workloads on a Docker Engine.
type Backend struct {
	cfg    Config
	host   string
	client *client.Client
	remote bool // the engine's directories are not looked for on this host
	log    *slog.Logger
	away   atomic.Pointer[absence] // the engine's latest; nil: there was none. Watch writes it
	pulls  pulls

	mu       sync.Mutex               // guards the field below, and that one probe container is there at a time
	accounts map[string]imageAccounts // by image ID

	ownNet bool       // the network is the instance's own to make
	netMu  sync.Mutex // held while it is made

	trees sync.Mutex // held while a tree is fetched through the engine's API

	owned  sync.Mutex            // guards the fields below
	whose  map[string]spawner.ID // workloads by container ID; empty: a stranger's. An ID is never used again
	groups map[string]string     // control groups of containers, by their IDs
}

var _ spawner.Backend = (*Backend)(nil)

// hurry bounds the calls that must not be broken off halfway, and those that clear up behind a call whose context has
// ended.
const hurry = 2 * time.Minute

// New makes a Backend. It does not speak to the engine yet: an engine that is down is for Check and Start to tell.
func New(cfg Config) (*Backend, error) {
	cfg.Host = cmp.Or(cfg.Host, "/var/run/docker.sock")
	cfg.Instance = cmp.Or(cfg.Instance, "slipway")
	own := cfg.Network == ""
	cfg.Network = cmp.Or(cfg.Network, ownNetwork(cfg.Instance))
	cfg.PidsLimit = cmp.Or(cfg.PidsLimit, 4096)
	cfg.RunSize = cmp.Or(cfg.RunSize, 256<<20)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	for _, m := range cfg.Mounts {
		if err := m.valid(); err != nil {
			return nil, err
		}
	}
	address, remote := "unix://"+cfg.Host, strings.HasPrefix(cfg.Host, "tcp://")
	if remote {
		address = cfg.Host
	}
	c, err := client.New(client.WithHost(address))
	if err != nil {
		return nil, errs.New(errs.Invalid, "docker socket %q: %w", cfg.Host, err)
	}
	return &Backend{
		cfg: cfg, host: cfg.Host, remote: remote, client: c, log: cfg.Logger, ownNet: own,
		accounts: map[string]imageAccounts{}, whose: map[string]spawner.ID{}, groups: map[string]string{},
	}, nil
}

// Close gives the connections to the engine back. What runs stays.
func (b *Backend) Close() error { return b.client.Close() }

// Name is "docker".
func (b *Backend) Name() string { return "docker" }

// nameOf is the name of a workload's container.
func nameOf(id spawner.ID) string { return "slipway-" + string(id) }

// find looks for the workload's container. Neither a missing one nor a stranger of that name is an error.
func (b *Backend) find(ctx context.Context, id spawner.ID) (c container.InspectResponse, found bool, err error) {
	c, found, err = b.named(ctx, id)
	if !found || err != nil {
		return c, false, err
	}
	return c, b.owns(c, id), nil
}

// named looks for the container of the workload's name, whosever it is; or else for one that was to take that name.
func (b *Backend) named(ctx context.Context, id spawner.ID) (c container.InspectResponse, found bool, err error) {
	// again the first: it may have been renamed meanwhile
	for _, name := range []string{nameOf(id), heirName(id), fillingName(id), nameOf(id)} {
		if c, found, err = b.inspect(ctx, name); found || err != nil {
			break
		}
	}
	return c, found, err
}

func (b *Backend) inspect(ctx context.Context, name string) (c container.InspectResponse, found bool, err error) {
	r, err := b.client.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	switch {
	case gone(err):
		return c, false, nil
	case err != nil:
		return c, false, b.explain(err, "look at %s", name)
	case r.Container.State == nil || r.Container.Config == nil || r.Container.HostConfig == nil:
		return c, false, errs.New(errs.Unavailable, "look at %s: the engine's answer lacks its state", name)
	}
	return r.Container, true, nil
}

func (b *Backend) owns(c container.InspectResponse, id spawner.ID) bool {
	return c.Config.Labels[labelInstance] == b.cfg.Instance && c.Config.Labels[labelID] == string(id)
}

// Stop ends a workload's container and keeps it.
func (b *Backend) Stop(ctx context.Context, id spawner.ID, grace time.Duration) error {
	c, found, err := b.find(ctx, id)
	if err != nil || !found {
		return err
	}
	if c.State.Running {
		err = b.halt(ctx, id, c, grace)
	}
	return errors.Join(err, b.undescribe(ctx, c, id))
}

// halt ends a running container. A paused one could not hear the request to end.
func (b *Backend) halt(ctx context.Context, id spawner.ID, c container.InspectResponse, grace time.Duration) error {
	if c.State.Paused {
		if _, err := b.client.ContainerUnpause(ctx, c.ID, client.ContainerUnpauseOptions{}); err != nil && !gone(err) {
			return b.explain(err, "unpause %s to stop it", id)
		}
	}
	seconds := int((grace + time.Second - 1) / time.Second)
	_, err := b.client.ContainerStop(ctx, c.ID, client.ContainerStopOptions{Timeout: &seconds})
	if err != nil && !gone(err) {
		return b.explain(err, "stop %s", id)
	}
	return nil
}

// Remove removes a stopped workload's container, and with it the session's changes.
func (b *Backend) Remove(ctx context.Context, id spawner.ID) error {
	if err := b.settle(ctx, id); err != nil {
		return err
	}
	c, found, err := b.find(ctx, id)
	if err != nil || !found {
		return err
	}
	if err := b.undescribe(ctx, c, id); err != nil {
		return err
	}
	_, err = b.client.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{RemoveVolumes: true})
	if err != nil && !gone(err) {
		return b.explain(err, "remove %s", id)
	}
	b.sweepThawed(ctx)
	return b.removeVolumes(ctx, c)
}

// List returns every workload of which this instance has a container, in any state.
func (b *Backend) List(ctx context.Context) (map[spawner.ID]spawner.Existence, error) {
	list, err := b.client.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: b.ours()})
	if err != nil {
		return nil, b.explain(err, "list the containers of instance %s", b.cfg.Instance)
	}
	seen := map[spawner.ID]spawner.Existence{}
	for _, c := range list.Items {
		id := spawner.ID(c.Labels[labelID])
		if _, twice := seen[id]; id == "" || twice && !slices.Contains(c.Names, "/"+nameOf(id)) {
			continue // of two, the one that has the name counts
		}
		seen[id] = existence(c.State, c.Labels)
	}
	return seen, nil
}

// ours matches all that this instance made.
func (b *Backend) ours() client.Filters {
	return client.Filters{}.Add("label", labelInstance+"="+b.cfg.Instance)
}
