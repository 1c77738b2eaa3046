// Package libdir is the directory of a library of environments: which files it has and who may read them, how they are
// written, and what a killed service left in it.
//
// It promises that a file holds its old content or its new one after a crash at any instant, that one process at a time
// has the directory, and that a file which was touched does not count as known. It must not know what the files say.
package libdir

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/blob"
	"slipway/internal/errs"
	"slipway/internal/mounts"
)

// Dir is the path of a library:
//
//	documents/<hex>.json        the documents that name the environments' parts; <hex> is the digest of the document
//	blobs/<hex>.sif             the environments' images, each once
//	facts/<hex>.json            what was found out of an image since: the digest of the signed file, what is in it
//	statements/<hex>/           signed statements on where it comes from
//	bases/<hex>.sqfs            converted images, by their own digest; bases/<key>.json says of what
//	records/<owner>/<hex>.json  whose the environments are and what they are called
//	sources/<owner>/<key>.json  what the last freeze of a source found; <key>.memory what it has stored where
//	tails/<hex>/                what an image has beside its base, in packs that environments of one session share
//	work/                       freezes and conversions in progress
//	sound-bases.json            which bases were compared with their digests, and when
//	lock                        held by the one process that has the library open
//
// The whole tree is root's. blobs and the library itself can be entered but not listed (0711) and the files are
// world-readable, so a batch job of any user can open an environment whose digest it was given, and no user can find
// out which there are: a digest has 256 bits and nothing but the owner's records leads to it. All else is 0700.
type Dir string

// Path returns the path of a file in the library.
func (d Dir) Path(parts ...string) string {
	return filepath.Join(append([]string{string(d)}, parts...)...)
}

// Image returns the path of an environment's image: a SIF, readable by every user who knows the path.
func (d Dir) Image(digest string) string { return d.Path("blobs", HexOrNone(digest)+".sif") }

// Base returns the path of a base's squashfs.
func (d Dir) Base(digest string) string { return d.Path("bases", HexOrNone(digest)+".sqfs") }

// Tail returns the path of the directory in which an image's tail lies.
func (d Dir) Tail(digest string) string { return d.Path("tails", HexOrNone(digest)) }

// HexOrNone returns the name of a digest's files. What is not a digest names files that cannot exist.
func HexOrNone(digest string) string {
	if h, ok := blob.Hex(digest); ok {
		return h
	}
	return "none"
}

// places are the library's directories and their modes.
func places() map[string]os.FileMode {
	return map[string]os.FileMode{
		"": 0o711, "blobs": 0o711, "documents": 0o700, "facts": 0o700, "statements": 0o700, "bases": 0o700,
		"records": 0o700, "sources": 0o700, "tails": 0o700,
		"work": 0o700,
	}
}

// Open makes what is missing of the library, takes its lock, which the caller closes, and clears away what a killed
// service left.
func (d Dir) Open(log *slog.Logger) (lock *os.File, err error) {
	for _, name := range slices.Sorted(maps.Keys(places())) {
		if err := os.MkdirAll(d.Path(name), 0o700); err != nil {
			return nil, err
		}
		if err := os.Chmod(d.Path(name), places()[name]); err != nil {
			return nil, err
		}
	}
	if lock, err = d.acquire(); err != nil {
		return nil, err
	}
	if err := d.reap(log); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// lockPatience is how long an opening waits for the lock: a service that was killed leaves it to a child that it was
// just starting, which has it until it becomes another program.
const lockPatience = 2 * time.Second

// acquire takes the lock: reaping must never take the work of another process for left-overs.
func (d Dir) acquire() (*os.File, error) {
	f, err := os.OpenFile(d.Path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockSoon(f); err != nil {
		err = errs.New(errs.Conflict, "another process has it open: %w", err).With("stop the other service first")
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func lockSoon(f *os.File) error {
	for end := time.Now().Add(lockPatience); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// reap removes unfinished freezes with their mounts, and temporary files.
func (d Dir) reap(log *slog.Logger) error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for _, point := range mountsBelow(string(table), d.Path("work")) {
		log.Info("unmounting what an unfinished freeze left", "path", point)
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	left, err := filepath.Glob(d.Path("work", "*"))
	if err != nil {
		return err
	}
	for _, pattern := range []string{"records/*", "sources/*", "statements/*", "tails/*", "documents", "facts", "bases"} {
		files, err := filepath.Glob(d.Path(pattern, TempPrefix+"*"))
		if err != nil {
			return err
		}
		left = append(left, files...)
	}
	for _, path := range left {
		log.Info("removing what an unfinished freeze left", "path", path)
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// mountsBelow returns the mount points below dir, the last mounted first.
func mountsBelow(mountinfo, dir string) []string {
	var out []string
	for m := range mounts.Mounts(mountinfo) {
		if strings.HasPrefix(m.Point, dir+"/") {
			out = append(out, m.Point)
		}
	}
	slices.Reverse(out)
	return out
}

// Free returns how many bytes are free on the library's file system.
func (d Dir) Free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(string(d), &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: string(d), Err: err}
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// Explain turns a full disk into an error that says where and how much, and of a full quota leaves what its owner is
// told. need is the size of the changes, 0 when they do not matter.
func (d Dir) Explain(err error, need int64) error {
	if full, ok := errors.AsType[*errs.Error](err); ok && full.Kind == errs.OverQuota {
		return full // what was being written then is nothing to the owner
	}
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	where := "on the file system of " + string(d)
	if free, failed := d.Free(); failed == nil {
		where = fmt.Sprintf("%d MB are free %s", free>>20, where)
	}
	return errs.New(errs.NoSpace, "no space for the environment, %s: %w", where, err).
		With(fmt.Sprintf(
			"free at least the image's size and %d MB for the changes, or enlarge the quota, and freeze again",
			need>>20+1,
		))
}
