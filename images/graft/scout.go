package graft

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
)

// What the scouts may have found that nobody has asked for yet.
const (
	maxAhead   = 1 << 14 // entries
	maxFolders = 256     // open directories
	partLength = 256     // names of a directory that are looked at together
)

// scout looks at a tree with several goroutines, ahead of the one who asks for it in the order of a walk. What that one
// gets does not depend on how many they are, nor on who was quicker.
//
// A task is a directory to open, or a part of one's names to look at. Those that are not begun lie on a stack, the one
// that is needed first on top. Whoever asks for a task that nobody has begun does it himself, so nobody ever waits for
// room.
type scout struct {
	dev uint64
	// The tree is no upper directory: devices and sockets are looked at closely, and layers have devices of their own.
	whole  bool
	xattrs bool   // they are wanted
	notes  *notes // what need not be looked at closely; nil: nothing

	mu    sync.Mutex
	wake  sync.Cond // something can be done, or all is over
	stack []*task
	ahead int              // entries found and not asked for
	open  map[*folder]bool // to close
	over  bool
	done  sync.WaitGroup
}

// task is something to find out. It is begun once.
type task struct {
	do      func()
	folder  bool // it opens one
	begun   bool // guarded by the scout
	waiting chan struct{}
}

// folder is an open directory.
type folder struct {
	task
	file   *os.File
	path   string
	stat   unix.Stat_t
	xattrs []tree.Xattr
	rules  tree.Live
	parts  []*part // its names in byte order, without those that are stripped
	ripe   bool    // a change of its names or xattrs since will show in its times
	err    error
}

// part is a part of a directory's names.
type part struct {
	task
	dir     *folder
	entries []entry
	print   *print // of them
	stale   bool   // print is not of what they are now
}

// entry is what stands under a name.
type entry struct {
	name   string
	path   string
	stat   unix.Stat_t
	xattrs []tree.Xattr // of what is no directory
	target string       // of a link
	note   *note        // of a file that is known
	ripe   bool         // a change of it since will show in its times
	folder *folder      // of a directory
	err    error
}

// scouts is how many look at a tree: several even on one core, for a cold disk answers several at once.
func scouts() int { return min(max(runtime.GOMAXPROCS(0), 2), 16) }

// newScout begins to look at root with that many goroutines. End it.
func newScout(
	ctx context.Context, workers int, root *os.File, dev uint64, rules tree.Live, notes *notes, whole bool,
) (*scout, *folder) {
	s := &scout{dev: dev, whole: whole, xattrs: notes != nil, notes: notes, open: map[*folder]bool{}}
	s.wake.L = &s.mu
	// its own read position
	top := s.folder(ctx, "", rules, func() (*os.File, error) { return tree.OpenDir(tree.FDPath(int(root.Fd()))) })
	s.push(&top.task)
	for range workers {
		s.done.Go(s.work)
	}
	return s, top
}

// end waits for the goroutines, and closes what is open.
func (s *scout) end() {
	s.mu.Lock()
	s.over = true
	s.wake.Broadcast()
	s.mu.Unlock()
	s.done.Wait()
	for f := range s.open {
		_ = f.file.Close() // it was only read
	}
}

// work does tasks as long as there is room for what they find.
func (s *scout) work() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.over {
		t := s.next()
		if t == nil {
			s.wake.Wait()
			continue
		}
		s.mu.Unlock()
		t.do()
		close(t.waiting)
		s.mu.Lock()
	}
}

// next takes the topmost task, nil when there is none, or no room.
func (s *scout) next() *task {
	for len(s.stack) > 0 {
		t := s.stack[len(s.stack)-1]
		if !t.begun && (s.ahead >= maxAhead || t.folder && len(s.open) >= maxFolders) {
			return nil
		}
		s.stack = s.stack[:len(s.stack)-1]
		if !t.begun {
			t.begun = true
			return t
		}
	}
	return nil
}

// push puts tasks on the stack, the first on top.
func (s *scout) push(list ...*task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(list) - 1; i >= 0; i-- {
		s.stack = append(s.stack, list[i])
	}
	if len(list) > 1 {
		s.wake.Broadcast()
	} else {
		s.wake.Signal()
	}
}

// await returns when a task is done.
func (s *scout) await(t *task) {
	s.mu.Lock()
	mine := !t.begun
	t.begun = true
	s.mu.Unlock()
	if mine {
		t.do()
		close(t.waiting)
		return
	}
	<-t.waiting
}

// look returns the entries of a part. They are the caller's until the next call for this directory.
func (s *scout) look(p *part) []entry {
	s.await(&p.task)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead -= len(p.entries)
	if s.ahead < maxAhead/2 {
		s.wake.Signal()
	}
	return p.entries
}

// visit gives the directory when it is open.
func (s *scout) visit(f *folder) error {
	s.await(&f.task)
	return f.err
}

// leave closes a directory of which all was asked for. After a failure others may still be looking at it: it is closed
// at the end.
func (s *scout) leave(f *folder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open[f] {
		return
	}
	delete(s.open, f)
	_ = f.file.Close() // it was only read
	if len(s.open) == maxFolders-1 {
		s.wake.Signal()
	}
}

func (s *scout) folder(ctx context.Context, path string, rules tree.Live, open func() (*os.File, error)) *folder {
	f := &folder{path: path, rules: rules}
	f.task = task{folder: true, waiting: make(chan struct{}), do: func() { f.err = s.enter(ctx, f, open) }}
	return f
}

// enter opens a directory, and makes tasks of its names.
func (s *scout) enter(ctx context.Context, f *folder, open func() (*os.File, error)) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.file, err = open(); err != nil {
		return err
	}
	s.mu.Lock()
	s.open[f] = true
	s.mu.Unlock()
	if f.stat, err = tree.StatFile(f.file); err != nil {
		return err
	}
	f.ripe = age(&f.stat) >= tick
	if s.xattrs {
		if f.xattrs, err = tree.ReadXattrs(tree.FDPath(int(f.file.Fd()))); err != nil {
			return err
		}
	}
	if f.rules.All() {
		return nil
	}
	names, err := tree.Names(f.file)
	if err != nil {
		return fmt.Errorf("list /%s: %w", f.path, err)
	}
	var tasks []*task
	for len(names) > 0 {
		n := min(len(names), partLength)
		p := s.part(ctx, f, names[:n])
		f.parts, tasks, names = append(f.parts, p), append(tasks, &p.task), names[n:]
	}
	s.push(tasks...)
	return nil
}

func (s *scout) part(ctx context.Context, f *folder, names []string) *part {
	p := &part{dir: f}
	p.task = task{waiting: make(chan struct{}), do: func() { s.examine(ctx, p, names) }}
	return p
}

// examine looks at each of the names.
func (s *scout) examine(ctx context.Context, p *part, names []string) {
	p.print = newPrint()
	p.entries = make([]entry, 0, len(names))
	var below []*task
	for _, name := range names {
		stripped, rules := p.dir.rules.Enter(name)
		if stripped || p.dir.path == "" && name == runtimeDir {
			continue
		}
		p.entries = append(p.entries, entry{name: name, path: tree.Join(p.dir.path, name)})
		e := &p.entries[len(p.entries)-1]
		if e.err = s.entry(ctx, p, e); e.err != nil {
			// a whiteout over nothing: overlayfs lists it, and it is not there
			if s.whole && errors.Is(e.err, fs.ErrNotExist) {
				p.entries = p.entries[:len(p.entries)-1]
			}
			continue
		}
		if e.err = p.note(e, rules.All()); e.err != nil {
			continue
		}
		if tree.IsDir(&e.stat) {
			e.folder = s.folder(
				ctx, e.path, rules, func() (*os.File, error) { return tree.Child(p.dir.file, name, s.dev) },
			)
			below = append(below, &e.folder.task)
		}
	}
	s.mu.Lock()
	s.ahead += len(p.entries)
	s.mu.Unlock()
	if len(below) > 0 {
		s.push(below...)
	}
}

// note adds an entry to the part's fingerprint. emptied: of a directory nothing travels but itself.
func (p *part) note(e *entry, emptied bool) error {
	if !emptied || !tree.IsDir(&e.stat) {
		p.print.note(e.path, &e.stat)
		return nil
	}
	xattrs, err := tree.EntryXattrs(p.dir.file, e.name)
	if err == nil {
		p.print.noteEmptied(e.path, &e.stat, xattrs)
	}
	return err
}

// entry finds out what is wanted of an entry.
func (s *scout) entry(ctx context.Context, p *part, e *entry) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	dev := s.dev
	if s.whole {
		dev = 0 // an overlay shows each of its layers as another, but for directories
	}
	if e.stat, err = look(p.dir.file, e.name, e.path, dev); err != nil || !s.xattrs || !s.closely(e) {
		return err
	}
	return e.attributes(p.dir.file)
}

// attributes reads what is not in the numbers of an entry.
func (e *entry) attributes(dir *os.File) (err error) {
	if e.xattrs, err = tree.EntryXattrs(dir, e.name); err == nil && e.stat.Mode&unix.S_IFMT == unix.S_IFLNK {
		e.target, err = readlink(dir, e.name)
	}
	return err
}

// closely says whether more than the numbers of an entry is to be read: of directories when they are opened, of what
// does not travel never, and not again of what has not changed.
func (s *scout) closely(e *entry) bool {
	e.ripe = age(&e.stat) >= tick
	switch e.stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return false
	case unix.S_IFSOCK, unix.S_IFCHR, unix.S_IFBLK:
		return s.whole
	case unix.S_IFREG:
		e.note = s.notes.find(&e.stat, e.path)
		return e.note == nil || !e.note.plain
	default:
		return true
	}
}

func readlink(dir *os.File, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
	if err != nil {
		return "", &os.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(buf[:n]), nil
}
