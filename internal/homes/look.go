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
	Root   string   `json:"root"`
	Rest   []string `json:"rest,omitempty"`
	UID    int      `json:"uid"`
	GID    int      `json:"gid"`
	Groups []int    `json:"groups,omitempty"`
	Checks
	Limits bool `json:"limits,omitempty"` // say what limits her there
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

// Look answers a question about a directory in one line of JSON. It is the whole of the program `slipway look-home
// QUESTION`, in a process of its own because the directory's file system may never answer.
func Look(w io.Writer, text string) error {
	var q question
	if err := json.Unmarshal([]byte(text), &q); err != nil {
		return fmt.Errorf("read the question: %w", err)
	}
	unix.Umask(0) // what is made has the modes that are said here
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
		root, err = q.Root, os.MkdirAll(q.Root, 0o711)
	}
	if err != nil {
		return -1, "", missing(q.Root, err)
	}
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "", missing(root, err)
	}
	if q.Mounted && sameDevice(fd, "/") {
		return -1, "", errors.Join(errs.New(errs.Unavailable, "nothing is mounted at %s", root).
			With("the administrator mounts it, or sets mounted: false"), unix.Close(fd))
	}
	if q.Guarded {
		if err := guarded(fd, root, q); err != nil {
			return -1, "", errors.Join(err, unix.Close(fd))
		}
	}
	path := root
	for i, name := range q.Rest {
		next, err := step(fd, path, name, i == len(q.Rest)-1, q)
		_ = unix.Close(fd)
		if err != nil {
			return -1, "", err
		}
		fd, path = next, filepath.Join(path, name)
	}
	if q.Hers {
		if err = give(fd, path, q); err == nil {
			err = hers(fd, path, q)
		}
		if err != nil {
			return -1, "", errors.Join(err, unix.Close(fd))
		}
	}
	return fd, path, nil
}

// step goes from a directory to one in it. Nobody but the site may be able to put another in its place.
func step(dir int, path, name string, last bool, q question) (int, error) {
	if err := guarded(dir, path, q); err != nil {
		return -1, err
	}
	at := filepath.Join(path, name)
	const how = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, how, 0)
	if errors.Is(err, unix.ENOENT) && q.Create {
		if err := create(dir, at, name, last); err != nil {
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

// nobody is whom NFS has for an owner whom this host may not know.
const nobody = 65534

// guarded refuses a directory in which anybody but the site could exchange what is handed out.
func guarded(dir int, path string, q question) error {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return missing(path, err)
	}
	switch owner := int(st.Uid); {
	case st.Mode&0o022 != 0:
		return errs.New(errs.Conflict, "%s has mode %04o: others could exchange what lies there", path, st.Mode&0o7777).
			With("run: chmod go-w " + path)
	case owner == q.UID && len(q.Rest) > 0:
		return errs.New(errs.Conflict, "%s is the user's own: she could exchange what lies there", path).
			With("run: chown root " + path)
	case owner != 0 && owner != os.Geteuid() && (owner != nobody || q.Create):
		return errs.New(errs.Conflict, "%s is user id %d's, who could exchange what lies there", path, owner).
			With("run: chown root " + path)
	}
	return nil
}

// create makes a directory that is missing: of hers such that it is known again by give. Another look may have been
// quicker.
func create(dir int, at, name string, last bool) error {
	mode := uint32(0o711)
	if last {
		mode = ungiven
	}
	if err := unix.Mkdirat(dir, name, mode); err != nil && !errors.Is(err, unix.EEXIST) {
		return uncreated(at, err)
	}
	return nil
}

// ungiven is the mode of a user's new directory.
const ungiven = 0o700

// give gives the user a directory that was made for her and is the service's still: by this look, by another at this
// moment, or by one that was killed then. It is empty.
func give(fd int, at string, q question) error {
	var st unix.Stat_t
	if !q.Create || unix.Fstat(fd, &st) != nil || int(st.Uid) != os.Geteuid() || st.Mode&0o777 != ungiven ||
		!empty(fd) {
		return nil
	}
	if err := unix.Fchownat(fd, "", q.UID, q.GID, unix.AT_EMPTY_PATH); err != nil {
		return uncreated(at, err)
	}
	return nil
}

func empty(dir int) bool {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	d := os.NewFile(uintptr(fd), "directory")
	defer d.Close()
	_, err = d.Readdirnames(1)
	return errors.Is(err, io.EOF)
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
		return errs.New(errs.Conflict, "%s is not a directory of user id %d, but of %d", path, q.UID, st.Uid).
			With("the administrator moves it away, or gives it to that id")
	}
	return nil
}

func missing(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errs.New(errs.Missing, "there is no %s", path).With("the administrator makes it")
	}
	return errs.New(errs.Unavailable, "%s cannot be used: %v", path, plainly(err)).
		With("the administrator looks at the file system there")
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
