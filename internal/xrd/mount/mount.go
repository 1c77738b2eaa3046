// Package mount shows a session its user's storage as directories: one xrootdfs for each session and view of an
// element, with this user's credentials, mounted on the host and seen in the container by propagation.
//
// Promises: no two sessions share a mount, and none is made with another's credentials; what reads through a cache
// cannot be written to; a start waits for no storage; a mount whose process has died is made anew, and one whose
// credentials or whose cache have changed is exchanged, while files that are open stay open; nothing of a session that
// has ended is left mounted; what was written and has not come to its storage is told to who wrote it. What is mounted
// is read from the kernel, so a service that starts anew finds and keeps it. Nothing is ever removed below a directory
// while something is mounted there.
//
// It must not decide who may have which session, nor talk to storage by itself.
package mount

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/internal/mounts"
	"slipway/internal/secret"
	"slipway/internal/taskgroup"
	"slipway/internal/xrd"
)

// Papers are a user's credentials for one element; empty ones she does not have.
type Papers struct{ Token, Proxy secret.Text }

// Session is one for which storage is mounted.
type Session struct {
	ID   string
	User string // whose papers are asked for; nothing here reads it
}

// Config is what a Mounter needs. All fields without a stated default are required.
type Config struct {
	Dir     string // holds a directory for each session
	RunDir  string // where its tokens are; root's alone, and better not on a disk
	Storage *xrd.Storage
	// Papers returns the credentials of a session's user for an element.
	Papers   func(ctx context.Context, user, element string) (Papers, error)
	Program  string        // empty: xrootdfs on PATH
	Trust    string        // directory of trust anchors; empty: the program's own
	Patience time.Duration // for a mount to be made, and to answer. Zero: 15 s
	Every    time.Duration // all mounts are looked at. Zero: 10 s
	// Look looks at a mount, which may never answer: better in a process of its own. Nil: in this one.
	Look func(point string) error
	// Tell tells a session's user what she must know of her storage. Nil: nobody is told.
	Tell   func(session, text string)
	Logger *slog.Logger
}

// Mounter mounts storage for sessions.
type Mounter struct {
	cfg     Config
	log     *slog.Logger
	wake    chan struct{}
	opening *taskgroup.Group // what Open begins; ends with Run

	mu       sync.Mutex // guards the fields below
	sessions map[string]*own
	looks    looks
	opens    int // counts

	info func() ([]byte, error) // what the kernel tells of mounts
}

// own is what is known of a session. Its lock is held while its mounts are changed.
type own struct {
	sync.Mutex
	once  sync.Once
	begun chan struct{} // closed once it was opened and looked at

	// Guarded by the Mounter's lock.
	opened  int                // when it was, by the Mounter's count
	trouble map[string]string  // by name of the view
	stop    context.CancelFunc // ends what is being done for it; nil: nothing is
}

// New makes a Mounter, and makes of Dir a mount that propagates.
func New(cfg Config) (*Mounter, error) {
	if cfg.Program == "" {
		cfg.Program = "xrootdfs"
	}
	if cfg.Patience == 0 {
		cfg.Patience = 15 * time.Second
	}
	if cfg.Every == 0 {
		cfg.Every = 10 * time.Second
	}
	if cfg.Look == nil {
		cfg.Look = mounts.LookAt
	}
	if cfg.Tell == nil {
		cfg.Tell = func(string, string) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	for _, dir := range []*string{&cfg.Dir, &cfg.RunDir} {
		if err := makeReal(dir); err != nil {
			return nil, fmt.Errorf("make the directories of storage mounts: %w", err)
		}
	}
	m := &Mounter{cfg: cfg, log: cfg.Logger, wake: make(chan struct{}, 1), sessions: map[string]*own{}}
	m.info = func() ([]byte, error) { return os.ReadFile(mountInfo) }
	m.looks = newLooks(m.views())
	m.opening = taskgroup.New(context.Background())
	if err := share(cfg.Dir); err != nil {
		return nil, errs.New(errs.Missing, "share %s with sessions: %w", cfg.Dir, err).
			With("run the service as root in the host's own mount namespace, or set mount: false in data.storage")
	}
	return m, nil
}

// makeReal makes a directory, and gives it the path by which the kernel speaks of it: the one given may lead through
// links.
func makeReal(dir *string) error {
	if err := os.MkdirAll(*dir, 0o700); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(*dir)
	if err == nil {
		*dir, err = filepath.Abs(real)
	}
	return err
}

var validID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// Open returns the directory that a session is to see as xrd.Root, and has its storage mounted there in the background.
// What cannot be mounted in time is told.
func (m *Mounter) Open(s Session, tell func(string)) (string, error) {
	if !validID.MatchString(s.ID) {
		return "", errs.Bad("session", s.ID, "an ID of lower-case letters and digits")
	}
	o := m.noteOpen(s.ID)
	dir := m.dir(s.ID)
	if err := m.makeDirs(dir); err != nil {
		return "", fmt.Errorf("make the storage directories of %s: %w", s.ID, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "README.txt"), []byte(m.readme()), 0o644); err != nil {
		return "", fmt.Errorf("describe the storage of %s: %w", s.ID, err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	m.opening.Go(func(ctx context.Context) {
		defer o.once.Do(func() { close(o.begun) })
		m.begin(ctx, s, tell)
	})
	return dir, nil
}

// Await waits until what was opened has its storage, or was told why not; at most for so long.
func (m *Mounter) Await(id string, patience time.Duration) {
	select {
	case <-m.own(id).begun:
	case <-m.opening.Done():
	case <-time.After(patience):
	}
}

// makeDirs makes what a session's storage is mounted on. Something may be mounted there still, and must not be looked
// at: it may be silent.
func (m *Mounter) makeDirs(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, v := range m.views() {
		if err := os.Mkdir(filepath.Join(dir, v.name()), 0o755); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}

// noteOpen notes that a session is opened: who was asked before which sessions live does not know of it.
func (m *Mounter) noteOpen(id string) *own {
	o := m.own(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opens++
	o.opened = m.opens
	return o
}

// begin mounts what a session is to have, and tells what is not there.
func (m *Mounter) begin(ctx context.Context, s Session, tell func(string)) {
	ctx, cancel := context.WithTimeout(ctx, 2*m.cfg.Patience)
	defer cancel()
	m.settle(ctx, s, nil)
	for _, t := range m.Status(s.ID) {
		if t.Trouble != "" {
			tell(t.Path + " is not there: " + t.Trouble)
		}
	}
}

// Close unmounts what a session had. What is still open there ends; what was written and closed has time to come to the
// storage, and is told where it may not have.
func (m *Mounter) Close(id string) { m.closeOpened(id, math.MaxInt) }

// closeOpened does so where the session was not opened after a moment, by the Mounter's count.
func (m *Mounter) closeOpened(id string, until int) {
	o := m.own(id)
	m.mu.Lock()
	was := o.opened
	if was > until {
		m.mu.Unlock()
		return
	}
	if o.stop != nil {
		o.stop()
	}
	m.mu.Unlock()
	o.Lock()
	defer o.Unlock()
	m.clear(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	if o.opened == was { // else it is opened anew, and waits for this
		delete(m.sessions, id)
	}
}

// Forget removes a session's directory as well. It is empty by then, or it stays.
func (m *Mounter) Forget(id string) error {
	m.Close(id)
	dir := m.dir(id)
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove the storage directories of %s: %w", id, err)
	}
	if n := len(m.mounted(id)); n > 0 {
		return errs.New(errs.Unavailable, "remove the storage directories of %s: %d mounts are still there", id, n)
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil { // never what is in it
			return fmt.Errorf("remove the storage directories of %s: %w", id, err)
		}
	}
	return os.Remove(dir)
}

// Status is what is known of one view of a session's storage.
type Status struct {
	Element string
	Path    string // as the session sees it
	Cached  bool
	Trouble string // why it is not there; empty: it is
}

// Status tells of all views of a session's storage, by the last look.
func (m *Mounter) Status(id string) []Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	var trouble map[string]string
	if o := m.sessions[id]; o != nil {
		trouble = o.trouble
	}
	var out []Status
	for _, v := range m.views() {
		out = append(out, Status{Element: v.Name, Path: v.path(), Cached: v.cached, Trouble: trouble[v.name()]})
	}
	return out
}

// Run keeps the mounts of sessions as they must be until ctx ends: live gives those that may be running. What others
// had is unmounted. The mounts stay when it returns.
func (m *Mounter) Run(ctx context.Context, live func() []Session) error {
	defer m.opening.Wait()
	defer m.opening.End()
	for {
		m.round(ctx, live)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.wake:
		case <-time.After(m.cfg.Every):
		}
	}
}

// round looks at all once. What is opened after it was asked who lives is not overruled by the answer.
func (m *Mounter) round(ctx context.Context, live func() []Session) {
	m.mu.Lock()
	began := m.opens
	m.mu.Unlock()
	now, here := m.table(), map[string]bool{}
	all := live()
	for _, s := range all {
		here[s.ID] = true
	}
	var looking sync.WaitGroup
	for _, id := range m.left(now, here) {
		m.log.Info("storage mounts of a session that has ended are removed", "id", id)
		looking.Go(func() { m.closeOpened(id, began) })
	}
	for _, s := range all {
		looking.Go(func() { m.settle(ctx, s, now) })
	}
	looking.Wait()
}

// Wake has Run look at once.
func (m *Mounter) Wake() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *Mounter) dir(id string) string { return filepath.Join(m.cfg.Dir, id) }

func (m *Mounter) own(id string) *own {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions[id] == nil {
		m.sessions[id] = &own{begun: make(chan struct{}), trouble: map[string]string{}}
	}
	return m.sessions[id]
}
