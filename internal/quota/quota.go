// Package quota limits how much a directory may hold on disk.
//
// Where the file system has project quotas (XFS and ext4, mounted with prjquota) the kernel enforces the limit: see
// Set. Elsewhere Watch measures the directory from time to time and reports when it holds too much. Both count
// allocated blocks.
//
// Three limits of the mechanism: ext4, other than XFS, does not hold a process with CAP_SYS_RESOURCE to it, such as
// root's of the host; a process in the host's user namespace may change the project of files that it owns, so a
// container without a user namespace of its own can evade a project quota on purpose (Docker's own limit has the same
// property); and rename or link between a directory with a project and one outside fails with EXDEV.
//
// The package knows nothing of workloads.
package quota

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrUnsupported is what Set returns, wrapped, where the file system enforces no project quotas.
var ErrUnsupported = errors.New("project quotas are not enforced here")

// Set limits what the directory and everything that is made in it from now on may hold. What is in it already is not
// counted, so it is called on an empty directory. Calling it again changes the limit. Clear takes the limit away.
func Set(dir string, bytes int64) error { return system().set(dir, bytes) }

// Join puts another directory under the limit of one that has been given one by Set. Both must be of one file system.
func Join(dir, limited string) error { return system().join(dir, limited) }

// Clear takes the limit of a directory away, before the directory is removed. A directory that has none, or is gone, is
// no error.
func Clear(dir string) error { return system().clear(dir) }

// Used returns how much is counted against the limit of a directory, and the limit; zero is no limit.
func Used(dir string) (used, limit int64, err error) { return system().used(dir) }

// Kind is a kind of quota, as linux/quota.h has them.
type Kind int

// The kinds.
const (
	User    Kind = 0
	Group   Kind = 1
	Project Kind = 2
)

// Get asks for what a user, a group or a project has and may have on the file system of an open directory.
func Get(fd int, kind Kind, id int) (b Block, err error) {
	return b, control(fd, getQuota, kind, uint32(id), unsafe.Pointer(&b))
}

// Enforced reports whether the kernel enforces limits of directories below dir.
func Enforced(dir string) bool {
	fd, _, err := open(dir)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	_, err = projectOf(fd)
	return err == nil && enforced(fd)
}

// kernel are the calls that the package needs; tests have others.
type kernel struct {
	open       func(dir string) (fd int, inode uint64, err error)
	shut       func(fd int)
	enforced   func(fd int) bool
	together   func(fd, other int) bool // are of one file system
	project    func(fd int) (uint32, error)
	setProject func(fd int, id uint32) error
	get        func(fd int, id uint32) (Block, error)
	put        func(fd int, id uint32, b Block) error
}

// Block is if_dqblk of linux/quota.h: limits are in blocks of 1 KiB, what is used in bytes.
type Block struct {
	HardBlocks, SoftBlocks, Space, HardFiles, SoftFiles, Files, BlocksTime, FilesTime uint64
	Valid, _                                                                          uint32
}

// ours marks the projects that this package makes: beyond those that administrators and container engines count up from
// 1.
const ours = 0x40000000

// candidates is how many projects are tried for a directory before it is given up. One is in use only by a coincidence.
const candidates = 64

func (k kernel) set(dir string, bytes int64) error {
	fd, inode, err := k.open(dir)
	if err != nil {
		return fmt.Errorf("limit %s: %w", dir, err)
	}
	defer k.shut(fd)
	if !k.enforced(fd) {
		return fmt.Errorf("limit %s: %w", dir, ErrUnsupported)
	}
	id, fresh, err := k.choose(fd, inode)
	if err != nil {
		return fmt.Errorf("limit %s: %w", dir, err)
	}
	// The limit stands before the directory has the project: nothing is written to it without.
	if err := k.put(fd, id, limitOf(bytes)); err != nil {
		return fmt.Errorf("limit %s to %d bytes: %w", dir, bytes, err)
	}
	if fresh {
		if err := k.setProject(fd, id); err != nil {
			return fmt.Errorf("give %s a project: %w", dir, err)
		}
	}
	return nil
}

// choose returns the directory's project, or a free one that follows from its inode number, which no other directory
// has.
func (k kernel) choose(fd int, inode uint64) (id uint32, fresh bool, err error) {
	if id, err = k.project(fd); err != nil || id&ours != 0 {
		return id, false, err
	}
	for n := range uint64(candidates) {
		id = ours | uint32((inode+n*0x9e3779b1)%ours)
		b, err := k.get(fd, id)
		if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) || err == nil && b.Files == 0 && b.Space == 0 {
			return id, true, nil
		}
		if err != nil {
			return 0, false, err
		}
	}
	return 0, false, errors.New("no project is free")
}

func (k kernel) join(dir, limited string) error {
	from, _, err := k.open(limited)
	if err != nil {
		return fmt.Errorf("limit %s with %s: %w", dir, limited, err)
	}
	defer k.shut(from)
	to, _, err := k.open(dir)
	if err != nil {
		return fmt.Errorf("limit %s with %s: %w", dir, limited, err)
	}
	defer k.shut(to)
	id, err := k.project(from)
	if err == nil && (id&ours == 0 || !k.together(from, to)) {
		err = ErrUnsupported
	}
	if err == nil {
		err = k.setProject(to, id)
	}
	if err != nil {
		return fmt.Errorf("limit %s with %s: %w", dir, limited, err)
	}
	return nil
}

func (k kernel) clear(dir string) error {
	fd, _, err := k.open(dir)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer k.shut(fd)
	id, err := k.project(fd)
	if err != nil || id&ours == 0 { // file systems without projects included
		return nil
	}
	if err := k.put(fd, id, limitOf(0)); err != nil {
		return fmt.Errorf("take the limit of %s away: %w", dir, err)
	}
	return nil
}

func (k kernel) used(dir string) (used, limit int64, err error) {
	fd, _, err := k.open(dir)
	if err != nil {
		return 0, 0, err
	}
	defer k.shut(fd)
	id, err := k.project(fd)
	if err != nil || id&ours == 0 {
		return 0, 0, fmt.Errorf("look at the limit of %s: %w", dir, ErrUnsupported)
	}
	b, err := k.get(fd, id)
	return int64(b.Space), int64(b.HardBlocks << 10), err
}

// limitOf is a hard limit and no soft one.
func limitOf(bytes int64) Block {
	const limits = 1 // QIF_BLIMITS: nothing else changes
	return Block{HardBlocks: uint64(bytes+1023) >> 10, Valid: limits}
}

// The commands of linux/quota.h, dqblk_xfs.h and fs.h. The same ones serve ext4 and XFS.
const (
	getQuota     = 0x800007
	setQuota     = 0x800008
	getState     = 'X'<<8 | 8 // Q_XGETQSTATV
	projectsBind = 1 << 5     // FS_QUOTA_PDQ_ENFD
	getXattr     = 0x801c581f // FS_IOC_FSGETXATTR
	setXattr     = 0x401c5820 // FS_IOC_FSSETXATTR
	inherit      = 0x200      // FS_XFLAG_PROJINHERIT
)

func system() kernel {
	return kernel{
		open: open, shut: func(fd int) { _ = unix.Close(fd) }, enforced: enforced, together: together,
		project: projectOf, setProject: setProject,
		get: func(fd int, id uint32) (Block, error) { return Get(fd, Project, int(id)) },
		put: func(fd int, id uint32, b Block) error {
			return control(fd, setQuota, Project, id, unsafe.Pointer(&b))
		},
	}
}

func open(dir string) (fd int, inode uint64, err error) {
	fd, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, 0, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, 0, errors.Join(err, unix.Close(fd))
	}
	return fd, st.Ino, nil
}

// control asks for a directory's file system (Linux 5.14), so no device has to be found.
func control(fd, command int, kind Kind, id uint32, at unsafe.Pointer) error {
	what := uintptr(command<<8 | int(kind))
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), what, uintptr(id), uintptr(at), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// enforced reports whether the file system refuses what is beyond a limit: ext4 may count and not refuse.
func enforced(fd int) bool {
	state := [32]uint64{0: 1} // fs_quota_statv: version 1, padding, flags at byte 2
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return false // a big-endian machine: nobody has tried
	}
	if err := control(fd, getState, Project, 0, unsafe.Pointer(&state)); err != nil {
		return false
	}
	return state[0]>>16&projectsBind != 0
}

func together(fd, other int) bool {
	var a, b unix.Stat_t
	return unix.Fstat(fd, &a) == nil && unix.Fstat(other, &b) == nil && a.Dev == b.Dev
}

// attributes is fsxattr of linux/fs.h.
type attributes struct {
	Flags, ExtentSize, Extents, Project, CowExtentSize uint32
	_                                                  [8]byte
}

func projectOf(fd int) (uint32, error) {
	var a attributes
	if err := ioctl(fd, getXattr, &a); err != nil {
		return 0, fmt.Errorf("%w (%s)", ErrUnsupported, err)
	}
	return a.Project, nil
}

func setProject(fd int, id uint32) error {
	var a attributes
	if err := ioctl(fd, getXattr, &a); err != nil {
		return err
	}
	a.Project, a.Flags = id, a.Flags|inherit
	return ioctl(fd, setXattr, &a)
}

func ioctl(fd int, request uintptr, a *attributes) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(a))); errno != 0 {
		return os.NewSyscallError("ioctl "+strconv.FormatUint(uint64(request), 16), errno)
	}
	return nil
}
