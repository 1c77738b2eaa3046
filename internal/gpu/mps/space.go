package mps

import (
	"context"
	"slices"
	"strconv"
)

// setSpace gives a holder a namespace of its own in a daemon of protocol 3, with its own limits, and reads them back. A
// namespace without limits has the whole GPU, so both are set before anybody is told where it is.
func (d *Daemons) setSpace(ctx context.Context, g daemon, r record, holder string) error {
	p := r.Holders[holder]
	if err := d.ensureServer(ctx, g, r, p); err != nil {
		return err
	}
	name, at := spaceName(holder), "--server="+serverName
	s, ok, err := d.space(ctx, g, name)
	if err != nil {
		return err
	}
	if ok && s.holds(p) {
		return nil
	}
	if !ok {
		if _, err := d.run(ctx, g, "", "namespace", "create", name, at); err != nil {
			return badPlace(g, "make a namespace in its MPS daemon", err.Error())
		}
	}
	d.step("space")
	if _, err := d.run(ctx, g, "", "namespace", "set", name, at,
		"--pinned-memory-limit="+limit(p.Memory), "--active-thread-percentage="+strconv.Itoa(p.Percent)); err != nil {
		return badPlace(g, "set limits in its MPS daemon", err.Error())
	}
	s, ok, err = d.space(ctx, g, name)
	if err != nil {
		return err
	}
	if !ok || !s.holds(p) {
		return badPlace(g, "check the limits in its MPS daemon",
			"want "+limit(p.Memory)+" and "+strconv.Itoa(p.Percent)+"%, found "+clip(s.memory+" and "+s.percent))
	}
	return nil
}

func (s space) holds(p part) bool {
	return sameMemory(s.memory, p.Memory) && samePercent(s.percent, p.Percent)
}

// space finds a namespace.
func (d *Daemons) space(ctx context.Context, g daemon, name string) (space, bool, error) {
	text, err := d.run(ctx, g, "", "namespace", "list", "--server="+serverName, "--format=csv,noheader")
	if err != nil {
		return space{}, false, err
	}
	all := parseSpaces(text)
	i := slices.IndexFunc(all, func(s space) bool { return s.name == name && s.server == serverName })
	if i < 0 {
		return space{}, false, nil
	}
	return all[i], true, nil
}

// ensureServer makes the server that all namespaces are in. One that cannot use its GPU ends silently, so it is looked
// for again.
func (d *Daemons) ensureServer(ctx context.Context, g daemon, r record, p part) error {
	ready := func() bool {
		s, ok, err := d.server(ctx, g)
		return err == nil && ok && !faulty(s.status)
	}
	if ready() {
		return nil
	}
	uid := "--uid=0"
	if !r.Multi {
		uid = "--uid=" + strconv.Itoa(p.UID)
	}
	if _, err := d.run(ctx, g, "", "server", "create", serverName, "--allowed-devices="+g.uuid, uid); err != nil {
		return badPlace(g, "make a server in its MPS daemon", err.Error())
	}
	d.step("server")
	if !d.until(ctx, ready) {
		return badPlace(g, "start the server of its MPS daemon", tail(g.log()+"/"+serverName+"/server.log"))
	}
	// Whoever comes in by the server's own door, not by a namespace, is to have next to nothing.
	if _, err := d.run(ctx, g, "", "server", "set", serverName, "--pinned-memory-limit=1M", "--active-thread-percentage=1"); err != nil {
		return badPlace(g, "limit the server of its MPS daemon", err.Error())
	}
	return nil
}

// server finds the server.
func (d *Daemons) server(ctx context.Context, g daemon) (server, bool, error) {
	text, err := d.run(ctx, g, "", "server", "list", "--format=csv,noheader")
	if err != nil {
		return server{}, false, err
	}
	all := parseServers(text)
	i := slices.IndexFunc(all, func(s server) bool { return s.name == serverName })
	if i < 0 {
		return server{}, false, nil
	}
	return all[i], true, nil
}

// dropSpace removes a holder's namespace. One that is gone, or whose daemon is, is success.
func (d *Daemons) dropSpace(ctx context.Context, g daemon, holder string) error {
	if control, _ := d.processes(g); control == 0 {
		return nil
	}
	name := spaceName(holder)
	_, ok, err := d.space(ctx, g, name)
	if err != nil || !ok {
		if isRefusal(err) { // no such server, or no daemon
			err = nil
		}
		return err
	}
	if _, err := d.run(ctx, g, "", "namespace", "delete", name, "--server="+serverName, "--force"); err != nil {
		return badPlace(g, "remove a namespace from its MPS daemon", err.Error())
	}
	return nil
}
