package docker

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"slipway/internal/errs"
)

// optionICC is the bridge driver's option for whether containers of one network reach each other.
const optionICC = "com.docker.network.bridge.enable_icc"

// unfit are the characters that an engine does not take in the name of a network.
var unfit = regexp.MustCompile(`[^a-zA-Z0-9_.-]`)

// ownNetwork is the name of an instance's own network. Two services on one engine share none.
func ownNetwork(instance string) string {
	name := unfit.ReplaceAllString(instance, "-")
	if !strings.HasPrefix(name, "slipway") {
		name = "slipway-" + name
	}
	return name + "-net"
}

// ensureNetwork makes the instance's own network unless it is there, and returns its ID. A network that the site has
// named is the site's: then the ID is empty, and whether it is there is for the engine to say.
func (b *Backend) ensureNetwork(ctx context.Context) (string, error) {
	if !b.ownNet {
		return "", nil
	}
	b.netMu.Lock() // an engine makes a second network of the same name
	defer b.netMu.Unlock()
	there, err := b.networks(ctx)
	if err != nil {
		return "", err
	}
	if len(there) > 0 {
		if err := b.oursToUse(there[0]); err != nil {
			return "", err
		}
		return there[0].ID, b.removeDoubles(ctx, there[1:])
	}
	made, err := b.client.NetworkCreate(ctx, b.cfg.Network, client.NetworkCreateOptions{
		Driver: "bridge", Options: map[string]string{optionICC: "false"},
		Labels: map[string]string{labelInstance: b.cfg.Instance},
	})
	if err != nil {
		return "", b.explain(err, "make network %s, in which sessions do not reach each other", b.cfg.Network)
	}
	b.log.Info("made the network of sessions", "network", b.cfg.Network)
	return made.ID, nil
}

// networks returns the engine's networks of the configured name, the one to use first: the site's before this
// instance's own, and the oldest first. There are two when the engine carries out the request of a service that was
// killed beside that of the next one; asked for their name alone, it then refuses to say anything.
func (b *Backend) networks(ctx context.Context) ([]network.Network, error) {
	if !b.ownNet { // it may be named by its ID
		r, err := b.client.NetworkInspect(ctx, b.cfg.Network, client.NetworkInspectOptions{})
		if gone(err) {
			return nil, nil
		}
		if err != nil {
			return nil, b.explain(err, "look at network %s", b.cfg.Network)
		}
		return []network.Network{r.Network.Network}, nil
	}
	// The filter also lets names through that only contain this one.
	r, err := b.client.NetworkList(ctx, client.NetworkListOptions{Filters: client.Filters{}.Add("name", b.cfg.Network)})
	if err != nil {
		return nil, b.explain(err, "look at network %s", b.cfg.Network)
	}
	var there []network.Network
	for _, n := range r.Items {
		if n.Name == b.cfg.Network {
			there = append(there, n.Network)
		}
	}
	slices.SortFunc(there, func(x, y network.Network) int {
		return cmp.Or(
			cmp.Compare(x.Labels[labelInstance], y.Labels[labelInstance]), x.Created.Compare(y.Created),
			cmp.Compare(x.ID, y.ID),
		)
	})
	return there, nil
}

// removeDoubles removes networks of the same name as the one to use, which this instance has made. The engine keeps one
// that a container is attached to.
func (b *Backend) removeDoubles(ctx context.Context, doubles []network.Network) error {
	for _, n := range doubles {
		if n.Labels[labelInstance] != b.cfg.Instance {
			return errs.New(errs.Conflict, "the engine has several networks named %s", n.Name).
				With("remove all but one by their IDs: `docker network ls`, `docker network rm ID`")
		}
		_, err := b.client.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{})
		if err != nil && !gone(err) {
			return b.explain(err, "remove the second network named %s, %s", n.Name, n.ID)
		}
		b.log.Info("removed the second network of this name", "network", n.Name, "id", n.ID)
	}
	return nil
}

// oursToUse refuses a network that another instance has made. One without a mark may be the site's, with a subnet of
// its choice.
func (b *Backend) oursToUse(n network.Network) error {
	if whose := n.Labels[labelInstance]; whose != "" && whose != b.cfg.Instance {
		return errs.New(
			errs.Conflict, "the engine's network %s belongs to another service, with instance %q", n.Name, whose,
		).With("choose another instance, or name a network by docker.network")
	}
	return nil
}

// rejoin has a stopped container use the network of today: it may have been made when another was configured, or its
// network may have been removed and made anew since, which an engine takes for another one.
func (b *Backend) rejoin(ctx context.Context, c container.InspectResponse, id string) error {
	if c.NetworkSettings == nil || id == "" || !ordinary(c.HostConfig.NetworkMode) {
		return nil
	}
	joined := false
	for name, at := range c.NetworkSettings.Networks {
		if name == b.cfg.Network && (at.NetworkID == id || at.NetworkID == "") {
			joined = true
			continue
		}
		_, err := b.client.NetworkDisconnect(ctx, name, client.NetworkDisconnectOptions{Container: c.ID, Force: true})
		if err != nil && !gone(err) {
			return b.explain(err, "take %s off network %s", strings.TrimPrefix(c.Name, "/"), name)
		}
	}
	if joined {
		return nil
	}
	if _, err := b.client.NetworkConnect(ctx, id, client.NetworkConnectOptions{Container: c.ID}); err != nil {
		return b.explain(err, "join %s to network %s", strings.TrimPrefix(c.Name, "/"), b.cfg.Network)
	}
	return nil
}

// ordinary reports whether a container has a network that it can be taken off.
func ordinary(mode container.NetworkMode) bool {
	return mode != "none" && mode != "host" && !strings.HasPrefix(string(mode), "container:")
}

// Isolation is an error if sessions reach each other by the engine's network. It is for the administrator to judge: a
// site may want that.
func (b *Backend) Isolation(ctx context.Context) error {
	there, err := b.networks(ctx)
	switch {
	case err != nil:
		return err
	case len(there) > 0:
		return isolated(there[0])
	case b.ownNet:
		return nil // made with the first session
	}
	return b.noNetwork()
}

// noNetwork is the error of a network that the site has named and the engine does not have.
func (b *Backend) noNetwork() error {
	return errs.New(errs.Missing, "the Docker Engine has no network %s", b.cfg.Network).With("`docker network create " + b.cfg.Network + "`")
}

// isolated reads an engine's account of a network.
func isolated(n network.Network) error {
	const remedy = "leave docker.network empty, so that Slipway makes a network without traffic between containers"
	switch {
	case n.Driver == "null":
		return nil
	case n.Driver == "host":
		return errs.New(errs.Missing, "sessions share the network of this host").With(remedy)
	case n.Driver != "bridge":
		return errs.New(
			errs.Missing, "whether sessions reach each other by network %s is up to its driver, %s", n.Name, n.Driver,
		).With(remedy + "; or see to it that the driver keeps containers apart")
	case n.Options[optionICC] != "false":
		return errs.New(errs.Missing, "sessions of different users reach each other by network %s", n.Name).
			With(fmt.Sprintf("%s; or make yours anew with `docker network create -o %s=false`", remedy, optionICC))
	case n.EnableIPv6:
		return errs.New(errs.Missing, "network %s has IPv6: containers are apart there only if the engine runs with `ip6tables`", n.Name).
			With("Docker 27 and newer do; for older ones put {\"ip6tables\": true, \"experimental\": true} into /etc/docker/daemon.json")
	}
	return nil
}
