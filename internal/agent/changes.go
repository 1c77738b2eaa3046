package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/changeset"
	"slipway/images/tree"
	"slipway/internal/agent/control"
	"slipway/internal/agent/process"
	"slipway/internal/errs"
	"slipway/internal/mounts"
)

// packer gives out what the session has changed over its image, where the service cannot read it for itself.
type packer struct {
	overlay string // directory of the writable overlay
	proc    string
	root    string // of the session's tree
	still   func() *stillness
	hold    func() (release func()) // what the agent itself does for ssh

	mu sync.Mutex // one stream at a time
}

func (a *agent) packer() *packer {
	self, parent := os.Getpid(), os.Getppid()
	return &packer{overlay: a.cfg.OverlayDir, proc: "/proc", root: "/", hold: a.ssh.Hold, still: func() *stillness {
		return newStillness("/proc", self, process.Alone("/proc", self, parent))
	}}
}

// serve answers with the stream.
func (p *packer) serve(w http.ResponseWriter, r *http.Request) {
	if !p.mu.TryLock() {
		control.WriteError(w, errs.New(errs.Conflict, "the session's changes are being packed already").
			With("wait until that freeze has ended"))
		return
	}
	defer p.mu.Unlock()
	cfg, err := p.prepare(r.Body)
	if err != nil {
		control.WriteError(w, err)
		return
	}
	s, release := p.still(), func() {}
	cfg.Pause = func(ctx context.Context) error {
		// Whoever takes the stream too slowly must not hold the session still.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(mostStill))
		release = p.hold()
		return s.stop(ctx)
	}
	cfg.Resume = func(context.Context) error {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		release()
		return s.resume()
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_ = changeset.Pack(r.Context(), cfg, w) // it has told the other side
}

// prepare reads the request, and says what to pack.
func (p *packer) prepare(body io.Reader) (changeset.Config, error) {
	var r control.ChangesRequest
	if err := json.NewDecoder(io.LimitReader(body, control.MaxChanges)).Decode(&r); err != nil {
		return changeset.Config{}, errs.New(errs.Invalid, "read the request for changes: %w", err)
	}
	return p.config(r.Strip)
}

// config says what to pack, less what rules name.
func (p *packer) config(rules []string) (changeset.Config, error) {
	strip, err := tree.ExactStrip(rules)
	if err != nil {
		return changeset.Config{}, err
	}
	upper := filepath.Join(p.overlay, "upper")
	if _, err := os.Stat(upper); errors.Is(err, fs.ErrNotExist) {
		return changeset.Config{}, errs.New(
			errs.Missing, "this session has no overlay at %s, so its agent cannot tell what it has changed", p.overlay,
		).With("freeze it on the host that it runs on, or start a session on a backend that keeps changes")
	}
	table, err := os.ReadFile(filepath.Join(p.proc, "self/mountinfo"))
	if err != nil {
		return changeset.Config{}, err
	}
	marks, bare, err := marksOf(string(table))
	if err == nil && marks == changeset.Trusted && !bare {
		err = readsTrusted(p.proc)
	}
	cfg := changeset.Config{Upper: upper, Marks: marks, Strip: strip}
	if marks == changeset.Fuse {
		cfg.Fresh = p.fresh
	}
	return cfg, err
}

// marksOf finds by a table of mounts who keeps the changes of the tree that its reader sees. Apptainer lets a user have
// the kernel's overlay over a directory, without userxattr: then no attributes can be set at all, so there are no marks
// to read, and what would need one (a directory in the place of another) fails in the session with an I/O error. The
// kernel says that by uuid=null, from 6.6 on.
//
//	36 35 98:0 / / rw,noatime master:1 - overlay source rw,lowerdir=/a:/b,upperdir=/c,workdir=/d,userxattr
func marksOf(mountinfo string) (marks changeset.Marks, bare bool, err error) {
	kind := "nothing"
	for m := range mounts.Mounts(mountinfo) {
		if m.Point != "/" {
			continue
		}
		bare = slices.Contains(m.Options, "uuid=null")
		switch kind = m.Type; { // of two the later one counts, for it is on top
		case kind == "overlay" && slices.Contains(m.Options, "userxattr"):
			marks = changeset.User
		case kind == "overlay":
			marks = changeset.Trusted
		case kind == "fuse.fuse-overlayfs":
			marks = changeset.Fuse
		default:
			marks = ""
		}
	}
	if marks == "" {
		return "", false, errs.New(
			errs.Missing, "the session's tree is %s, and no overlay whose changes could be packed", kind,
		).With("let the site's Apptainer use overlays: `enable overlay = try` in apptainer.conf")
	}
	return marks, bare, nil
}

// readsTrusted refuses to read an overlay whose marks are hidden from this process: deleted directories would come
// back.
func readsTrusted(proc string) error {
	const machine = "user:[4026531837]" // a fixed number of the kernel's
	space, err := os.Readlink(filepath.Join(proc, "self/ns/user"))
	if err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	if space != machine || data[0].Effective&(1<<unix.CAP_SYS_ADMIN) == 0 {
		return errs.New(
			errs.Missing,
			"the session's overlay keeps its marks in attributes that only root may read, and its agent is not root",
		).With("start such sessions from a SIF, so that Apptainer takes fuse-overlayfs, or on a kernel of 6.6 or later")
	}
	return nil
}

// fresh has what the session wrote to a file in the upper directory. fuse-overlayfs lets the kernel keep it back while
// a file is open, and its size and time with it: where these are the same, nothing is kept.
func (p *packer) fresh(path string, st *unix.Stat_t) error {
	at := filepath.Join(p.root, path)
	var seen unix.Stat_t
	if err := unix.Lstat(at, &seen); err != nil || seen.Mode&unix.S_IFMT != unix.S_IFREG ||
		seen.Size == st.Size && seen.Mtim == st.Mtim {
		return nil // hidden by a mount, or whole
	}
	f, err := os.OpenFile(at, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil // what hides it there is not it
	}
	return errors.Join(f.Sync(), f.Close())
}
