package mps

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"slipway/internal/errs"
)

// Condition is how a daemon is.
type Condition string

// The conditions.
const (
	Absent  Condition = "absent"  // no daemon; nobody holds anything, or it has ended by itself
	Working Condition = "working" // it answers
	Mute    Condition = "mute"    // its process is there and does not answer
	Faulty  Condition = "fault"   // a fatal fault has ended all its clients, and it takes no new ones
	Altered Condition = "altered" // its limits are not those that Slipway has set
)

// State is one look at a daemon.
type State struct {
	Condition Condition
	Holders   []string // in order
	Clients   []int    // processes on the GPU, as the host numbers them
	Why       string   // for people, when it does not work
}

// What people are told. The second is all that MPS can do about the failure of one.
const (
	whyMute  = "its MPS daemon does not answer: nothing new can use the GPU; end the sessions on it, then the daemon is started anew"
	whyFault = "a fatal fault of one program has ended the programs of all who share this GPU by MPS, for they are one to the hardware; " +
		"new ones can start when all old ones have ended: restart the kernels or end the sessions on it"
	whyAltered = "the limits of its MPS daemon are not those that Slipway has set: somebody has changed them; end the sessions on it"
	whyAbsent  = "its MPS daemon has ended by itself: those who were on it have lost the GPU; end the sessions on it"
)

// Health looks at the daemon of a GPU. It keeps the daemon's logs short, too. An error means that it could not look.
func (d *Daemons) Health(ctx context.Context, uuid string) (State, error) {
	g, done, err := d.take(ctx, uuid)
	if err != nil {
		return State{}, err
	}
	defer done()
	r, _, err := g.load()
	if err != nil {
		return State{}, err
	}
	d.trim(ctx, g)
	s, err := d.look(ctx, g, r)
	if err != nil {
		return s, err
	}
	if s.Condition == Absent && len(s.Holders) > 0 {
		s.Why = whyAbsent
	}
	if s.Condition == Working && !r.V3 && len(s.Holders) > 0 {
		return d.unaltered(ctx, g, r, s)
	}
	return s, nil
}

// look finds out how a daemon is. Only a caller that gives up, or a missing program, is an error.
func (d *Daemons) look(ctx context.Context, g daemon, r record) (State, error) {
	s := State{Condition: Absent, Holders: r.others("")}
	if control, _ := d.processes(g); control == 0 {
		return s, nil
	}
	ask := d.look2
	if r.V3 {
		ask = d.look3
	}
	fault, clients, err := ask(ctx, g)
	s.Clients = clients
	switch {
	case ctx.Err() != nil || errs.Is(err, errs.Missing):
		return s, err
	case err != nil:
		s.Condition, s.Why = Mute, whyMute+" ("+err.Error()+")"
	case fault:
		s.Condition, s.Why = Faulty, whyFault
	default:
		s.Condition = Working
	}
	return s, nil
}

// look2 asks a daemon of protocol 2.
func (d *Daemons) look2(ctx context.Context, g daemon) (fault bool, clients []int, err error) {
	text, err := d.say(ctx, g, "get_default_active_thread_percentage")
	if err != nil {
		return false, nil, err
	}
	if _, ok := parsePercent(text); !ok {
		return false, nil, errs.New(errs.Unavailable, "it answers %q where a percentage is expected", firstLine(text))
	}
	text, err = d.say(ctx, g, "get_server_list")
	if err != nil {
		return false, nil, err
	}
	for _, server := range parsePIDs(text) {
		status, err := d.say(ctx, g, "get_server_status", server)
		if err != nil && !isRefusal(err) { // an old daemon does not know the question
			return false, nil, err
		}
		fault = fault || faulty(status)
		text, err := d.say(ctx, g, "get_client_list", server)
		if err != nil && !isRefusal(err) { // the server has just ended
			return false, nil, err
		}
		clients = append(clients, parsePIDs(text)...)
	}
	return fault, clients, nil
}

// look3 asks a daemon of protocol 3.
func (d *Daemons) look3(ctx context.Context, g daemon) (fault bool, clients []int, err error) {
	s, ok, err := d.server(ctx, g)
	if err != nil || !ok {
		return false, nil, err
	}
	all, err := d.clients3(ctx, g)
	for _, c := range all {
		clients = append(clients, c.pid)
	}
	return faulty(s.status), clients, err
}

// unaltered checks that the limits for new clients are those that all holders have.
func (d *Daemons) unaltered(ctx context.Context, g daemon, r record, s State) (State, error) {
	p := r.Holders[s.Holders[0]]
	memory, err := d.say(ctx, g, "get_default_device_pinned_mem_limit", 0)
	if err != nil {
		return s, err
	}
	percent, err := d.say(ctx, g, "get_default_active_thread_percentage")
	if err != nil {
		return s, err
	}
	if !sameMemory(memory, p.Memory) || !samePercent(percent, p.Percent) {
		s.Condition, s.Why = Altered, whyAltered
	}
	return s, nil
}

// trim keeps the end of each log that has grown too long, once, and empties it. The files may be another user's:
// nothing outside the directory is written to, whatever links are put there.
func (d *Daemons) trim(ctx context.Context, g daemon) {
	root, err := os.OpenRoot(g.log())
	if err != nil {
		return // no log, nothing to shorten
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || !strings.HasSuffix(path, ".log") {
			return nil // what is gone needs no shortening
		}
		info, err := root.Lstat(path)
		if err != nil {
			return nil
		}
		// a writer leaves a hole where it was cut
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Blocks*512 <= d.cfg.LogLimit {
			return nil
		}
		old := end(filepath.Join(g.log(), path), d.cfg.LogLimit/4)
		if err := root.WriteFile(path+".old", []byte(old), 0o600); err != nil {
			return err
		}
		f, err := root.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			return err
		}
		return f.Close()
	})
	if err != nil {
		d.cfg.Logger.WarnContext(ctx, "cannot shorten the logs of an MPS daemon", "gpu", g.uuid, "err", err)
	}
}

// end returns the last n bytes of a file, nothing when it cannot be read.
func end(path string, n int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > n {
		if _, err := f.Seek(-n, io.SeekEnd); err != nil {
			return ""
		}
	}
	text, _ := io.ReadAll(io.LimitReader(f, n))
	return string(text)
}

// tail returns the end of a log for an error message.
func tail(path string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(end(path, 400), "?")), " ")
}
