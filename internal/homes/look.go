package homes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
)

// question is what Look is asked.
type question struct {
	Root    string   `json:"root"`
	Rest    []string `json:"rest,omitempty"`
	UID     int      `json:"uid"`
	GID     int      `json:"gid"`
	Groups  []int    `json:"groups,omitempty"`
	Create  bool     `json:"create,omitempty"`  // make what is missing
	Hers    bool     `json:"hers,omitempty"`    // it must be hers
	Guarded bool     `json:"guarded,omitempty"` // nobody but the site may write to it
	Mounted bool     `json:"mounted,omitempty"` // it must lie on another file system than the root
	Limits  bool     `json:"limits,omitempty"`  // say what limits her there
}

// answer is what it says.
type answer struct {
	Path     string   `json:"path"` // without links
	Trouble  *trouble `json:"trouble,omitempty"`
	ReadOnly bool     `json:"read_only,omitempty"` // the file system is
	Limits   []Limit  `json:"limits,omitempty"`
}

// trouble is an error that goes over a pipe.
type trouble struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

func (t *trouble) error() error {
	return errs.New(errs.ByCode(t.Kind), "%s", t.Message).With(t.Remedy)
}

// Look answers a question about a directory in one line of JSON. It is the whole of the program `slipway look-home QUESTION`, in a process of
// its own because the directory's file system may never answer.
func Look(w io.Writer, text string) error {
	var q question
	if err := json.Unmarshal([]byte(text), &q); err != nil {
		return fmt.Errorf("read the question: %w", err)
	}
	return json.NewEncoder(w).Encode(look(q))
}

func look(q question) answer {
	fd, path, err := open(q)
	if err != nil {
		t := &trouble{Kind: errs.RowOf(errs.Internal).Code, Message: err.Error()}
		if e, ok := errors.AsType[*errs.Error](err); ok {
			t = &trouble{Kind: errs.RowOf(e.Kind).Code, Message: e.Message, Remedy: e.Remedy}
		}
		return answer{Trouble: t}
	}
	defer unix.Close(fd)
	a := answer{Path: path}
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) == nil {
		a.ReadOnly = st.Flags&unix.ST_RDONLY != 0
	}
	if q.Limits {
		a.Limits = limitsAt(host{}, fd, path, q)
	}
	return a
}

// open finds the directory, or makes it, and gives it with its path.
func open(q question) (int, string, error) {
	root, err := filepath.EvalSymlinks(q.Root)
	if errors.Is(err, fs.ErrNotExist) && q.Create {
		if err = os.MkdirAll(q.Root, 0o711); err == nil {
			err = os.Chmod(q.Root, 0o711) // whatever the umask
		}
		root = q.Root
	}
	if err != nil {
		return -1, "", missing(q.Root, err)
	}
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "", missing(root, err)
	}
	if q.Mounted && sameDevice(fd, "/") {
		return -1, "", errors.Join(errs.New(errs.Unavailable, "nothing is mounted at %s", root).With("the administrator mounts it, or sets mounted: false"), unix.Close(fd))
	}
	if q.Guarded {
		if err := guarded(fd, root, -1); err != nil {
			return -1, "", errors.Join(err, unix.Close(fd))
		}
	}
	path := root
	for i, name := range q.Rest {
		last := i == len(q.Rest)-1
		next, err := step(fd, path, name, last, q)
		_ = unix.Close(fd)
		if err != nil {
			return -1, "", err
		}
		fd, path = next, filepath.Join(path, name)
	}
	if q.Hers {
		if err := hers(fd, path, q); err != nil {
			return -1, "", errors.Join(err, unix.Close(fd))
		}
	}
	return fd, path, nil
}

// step goes from a directory to one in it. Nobody but the site may be able to put another in its place.
func step(dir int, path, name string, last bool, q question) (int, error) {
	if err := guarded(dir, path, q.UID); err != nil {
		return -1, err
	}
	at := filepath.Join(path, name)
	const how = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, how, 0)
	if errors.Is(err, unix.ENOENT) && q.Create {
		if err := create(dir, at, name, last, q); err != nil {
			return -1, err
		}
		fd, err = unix.Openat(dir, name, how, 0)
	}
	var st unix.Stat_t
	switch {
	case err == nil:
		return fd, nil
	case unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return -1, errs.New(errs.Conflict, "%s is a link, which is not followed", at).With("the administrator puts the directory itself there, or a mount (`mount --bind`)")
	case errors.Is(err, unix.ENOTDIR):
		return -1, errs.New(errs.Conflict, "%s is no directory", at).With("the administrator moves it away")
	}
	return -1, missing(at, err)
}

// guarded refuses a directory in which the user, or everybody, could exchange what is handed out.
func guarded(dir int, path string, uid int) error {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return missing(path, err)
	}
	switch {
	case st.Mode&0o022 != 0:
		return errs.New(errs.Conflict, "%s has mode %04o: others could exchange what lies there", path, st.Mode&0o7777).With("run: chmod go-w " + path)
	case int(st.Uid) == uid:
		return errs.New(errs.Conflict, "%s is the user's own: she could exchange what lies there", path).With("run: chown root " + path)
	}
	return nil
}

// create makes a directory that is missing: of hers under another name first, so that it is never seen with the wrong owner.
func create(dir int, at, name string, last bool, q question) error {
	if !last {
		if err := unix.Mkdirat(dir, name, 0o711); err != nil && !errors.Is(err, unix.EEXIST) {
			return uncreated(at, err)
		}
		return nil
	}
	temp := fmt.Sprintf(".new-%s-%d", name[:min(len(name), 100)], os.Getpid())
	err := unix.Mkdirat(dir, temp, 0o700)
	if err == nil {
		err = errors.Join(unix.Fchownat(dir, temp, q.UID, q.GID, unix.AT_SYMLINK_NOFOLLOW), unix.Fchmodat(dir, temp, 0o700, 0))
	}
	if err == nil {
		err = unix.Renameat2(dir, temp, dir, name, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EINVAL) { // NFS cannot: over a directory that is there and not empty, the plain one fails too
			err = unix.Renameat(dir, temp, dir, name)
		}
	}
	if err == nil {
		return nil
	}
	_ = unix.Unlinkat(dir, temp, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY) { // another start has been quicker
		return nil
	}
	return uncreated(at, err)
}

func uncreated(at string, err error) error {
	remedy := "the administrator looks at the file system there"
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		remedy = "the administrator makes it, and sets create: false: on a file system that does not trust this host's root (root_squash), the service cannot"
	case errors.Is(err, unix.EROFS):
		remedy = "the administrator mounts it for writing"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		remedy = "the administrator makes room there"
	}
	return errs.New(errs.Unavailable, "%s cannot be made: %v", at, plainly(err)).With(remedy)
}

// hers refuses a directory that is another's.
func hers(fd int, path string, q question) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return missing(path, err)
	}
	if int(st.Uid) != q.UID {
		return errs.New(errs.Conflict, "%s is not a directory of user id %d, but of %d", path, q.UID, st.Uid).With("the administrator moves it away, or gives it to that id")
	}
	return nil
}

func missing(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errs.New(errs.Missing, "there is no %s", path).With("the administrator makes it")
	}
	return errs.New(errs.Unavailable, "%s cannot be used: %v", path, plainly(err)).With("the administrator looks at the file system there")
}

// plainly gives the kernel's words alone.
func plainly(err error) error {
	if e, ok := errors.AsType[unix.Errno](err); ok {
		return e
	}
	return err
}

func sameDevice(fd int, path string) bool {
	var a, b unix.Stat_t
	return unix.Fstat(fd, &a) == nil && unix.Stat(path, &b) == nil && a.Dev == b.Dev
}
