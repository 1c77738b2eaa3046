package mps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/gpu"
)

// End takes a holder's processes off the GPU in the order that MPS wants: before they are killed, for to kill a client
// of MPS while it computes may hurt the others. pids are the host's; those that are no clients are left out. It may be
// repeated. After an error the caller may kill them all the same, as the last resort.
func (d *Daemons) End(ctx context.Context, uuid, holder string, pids []int) error {
	g, done, err := d.take(ctx, uuid)
	if err != nil {
		return err
	}
	defer done()
	r, ok, err := g.load()
	if err != nil || !ok {
		return err
	}
	if control, _ := d.processes(g); control == 0 {
		return nil
	}
	if r.V3 {
		err = d.endSpace(ctx, g, holder, pids)
	} else {
		err = d.endClients(ctx, g, pids)
	}
	if err != nil {
		return fmt.Errorf("take %s off %s: %w", holder, gpu.ShortUUID(g.uuid), err)
	}
	return nil
}

// endClients terminates clients of a daemon of protocol 2.
func (d *Daemons) endClients(ctx context.Context, g daemon, pids []int) error {
	text, err := d.say(ctx, g, "get_server_list")
	if err != nil {
		return err
	}
	var all []error
	for _, server := range parsePIDs(text) {
		text, err := d.say(ctx, g, "get_client_list", server)
		if err != nil {
			all = append(all, err)
			continue
		}
		for _, pid := range parsePIDs(text) {
			if slices.Contains(pids, pid) {
				_, err := d.say(ctx, g, "terminate_client", server, pid)
				all = append(all, err)
			}
		}
	}
	return errors.Join(all...)
}

// endSpace terminates clients of a daemon of protocol 3: those given, and all that came through the holder's namespace.
func (d *Daemons) endSpace(ctx context.Context, g daemon, holder string, pids []int) error {
	clients, err := d.clients3(ctx, g)
	if err != nil {
		return err
	}
	var all []error
	for _, c := range clients {
		if c.space == spaceName(holder) || slices.Contains(pids, c.pid) {
			_, err := d.run(ctx, g, "", "client", "terminate", strconv.Itoa(c.pid))
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

func (d *Daemons) clients3(ctx context.Context, g daemon) ([]client, error) {
	text, err := d.run(ctx, g, "", "client", "list", "--all", "--format=csv,noheader")
	return parseClients(text), err
}

// Release says that a holder has been seen gone. When it was the last, the daemon ends and the GPU is open to everybody
// again. It may be repeated.
func (d *Daemons) Release(ctx context.Context, uuid, holder string) error {
	g, done, err := d.take(ctx, uuid)
	if err != nil {
		return err
	}
	defer done()
	r, ok, err := g.load()
	if err != nil || !ok {
		return err
	}
	return d.leave(ctx, g, r, holder)
}

// leave removes a holder from a daemon, and the daemon with the last holder.
func (d *Daemons) leave(ctx context.Context, g daemon, r record, holder string) error {
	if _, ok := r.Holders[holder]; ok && r.V3 && len(r.Holders) > 1 {
		if err := d.dropSpace(ctx, g, holder); err != nil {
			return err
		}
		d.step("dropped")
	}
	r.Holders = maps.Clone(r.Holders)
	delete(r.Holders, holder)
	if err := g.save(r); err != nil {
		return err
	}
	d.step("left")
	if len(r.Holders) > 0 {
		return nil
	}
	return d.end(ctx, g, r.V3)
}

// Quit ends the daemon of a GPU that nobody holds, and opens the GPU to everybody. One that is gone is success.
func (d *Daemons) Quit(ctx context.Context, uuid string) error {
	g, done, err := d.take(ctx, uuid)
	if err != nil {
		return err
	}
	defer done()
	r, _, err := g.load()
	if err != nil {
		return err
	}
	if names := r.others(""); len(names) > 0 {
		return errs.New(errs.Conflict, "%s is shared by MPS: %s", gpu.ShortUUID(uuid), strings.Join(names, ", ")).
			With("end these first")
	}
	return d.end(ctx, g, r.V3)
}

// Keep releases all holders that are not among those who hold something, by GPU, and so ends daemons that nobody is on.
// The service calls it at its start, when it knows its leases.
func (d *Daemons) Keep(ctx context.Context, held map[string][]string) error {
	entries, err := os.ReadDir(d.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var all []error
	for _, e := range entries {
		if e.IsDir() && safeName.MatchString(e.Name()) {
			all = append(all, d.keep(ctx, e.Name(), held[e.Name()]))
		}
	}
	return errors.Join(all...)
}

func (d *Daemons) keep(ctx context.Context, uuid string, held []string) error {
	g, done, err := d.take(ctx, uuid)
	if err != nil {
		return err
	}
	defer done()
	for {
		r, ok, err := g.load()
		if err != nil || !ok {
			return err
		}
		lost := slices.DeleteFunc(r.others(""), func(h string) bool { return slices.Contains(held, h) })
		if len(lost) == 0 {
			if len(r.Holders) == 0 {
				return d.end(ctx, g, r.V3)
			}
			return nil
		}
		d.cfg.Logger.InfoContext(ctx, "MPS share of nobody is released", "gpu", uuid, "holder", lost[0])
		if err := d.leave(ctx, g, r, lost[0]); err != nil {
			return err
		}
	}
}
