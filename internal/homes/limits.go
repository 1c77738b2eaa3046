package homes

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"slipway/internal/quota"
)

// The kinds of Limit.
const (
	ByUser    = "user"       // the user's quota of the file system
	ByGroup   = "group"      // that of one of her groups
	ByProject = "project"    // that of the directory, as ext4 and XFS have them
	ByCephFS  = "cephfs"     // that of the directory, as CephFS has them
	ByDisk    = "filesystem" // how large the whole file system is
)

// Limit is one bound of what may lie in a directory. Zero is no bound.
type Limit struct {
	Kind      string `json:"kind"`
	Used      int64  `json:"used"` // bytes
	Most      int64  `json:"most"`
	Files     int64  `json:"files"`
	MostFiles int64  `json:"most_files"`
}

// Percent says how much of it is used: of bytes or of files, whatever is more. It is above 100 where more is used than
// may be.
func (l Limit) Percent() int { return max(percent(l.Used, l.Most), percent(l.Files, l.MostFiles)) }

// Full reports whether programs that write are likely to fail: next to nothing is left, of bytes or of files.
func (l Limit) Full() bool { return full(l.Used, l.Most, 64<<20) || full(l.Files, l.MostFiles, 1000) }

// full reports whether less is left than a hundredth, and than what is little in any case.
func full(used, most, little int64) bool {
	return most > 0 && most-used < little && percent(used, most) >= 99
}

// Bound reports whether it bounds anything.
func (l Limit) Bound() bool { return l.Most > 0 || l.MostFiles > 0 }

func percent(used, most int64) int {
	if most <= 0 {
		return 0
	}
	return int(min(float64(used)/float64(most)*100, 1e6))
}

// nearlyFull is from when on a file system as a whole matters to everybody on it.
const nearlyFull = 95

// Tightest returns what bounds a user first. How full the whole file system is matters where nothing else bounds her,
// and where it is nearly full.
func Tightest(all []Limit) (tight Limit, found bool) {
	for _, l := range all {
		switch {
		case !l.Bound(), l.Kind == ByDisk && found && l.Percent() < max(nearlyFull, tight.Percent()):
		case !found || l.Percent() > tight.Percent() || tight.Kind == ByDisk && tight.Percent() < nearlyFull:
			tight, found = l, true
		}
	}
	return tight, found
}

// host is what asks the kernel. The zero one does; tests have others.
type host struct {
	quota  func(fd int, kind quota.Kind, id int) (quota.Block, error)
	xattr  func(path, name string) ([]byte, error)
	statfs func(fd int) (unix.Statfs_t, error)
	projid func(path string) (int, error)
}

// limitsAt returns what bounds a user in a directory: quotas, where the file system has them, and its size.
func limitsAt(h host, fd int, path string, q question) []Limit {
	var all []Limit
	st, err := h.fill().statfs(fd)
	if err != nil {
		return nil
	}
	h = h.fill()
	if uint32(st.Type) == unix.CEPH_SUPER_MAGIC {
		all = append(all, h.ceph(path)...)
	} else {
		all = append(all, h.quotas(fd, path, q)...)
	}
	if size := st.Blocks - st.Bfree + st.Bavail; st.Blocks > 0 {
		unit := uint64(max(st.Frsize, st.Bsize, 1))
		if st.Frsize > 0 {
			unit = uint64(st.Frsize)
		}
		disk := Limit{Kind: ByDisk, Used: int64((st.Blocks - st.Bfree) * unit), Most: int64(size * unit)}
		if st.Files > 0 {
			disk.Files, disk.MostFiles = int64(st.Files-st.Ffree), int64(st.Files)
		}
		all = append(all, disk)
	}
	return all
}

func (h host) fill() host {
	if h.quota == nil {
		h.quota = kernelQuota
	}
	if h.xattr == nil {
		h.xattr = kernelXattr
	}
	if h.projid == nil {
		h.projid = kernelProject
	}
	if h.statfs == nil {
		h.statfs = func(fd int) (st unix.Statfs_t, err error) { err = unix.Fstatfs(fd, &st); return st, err }
	}
	return h
}

// quotas asks for those of the user, of her groups and of the directory's project. A file system without, as most are,
// has none to tell.
func (h host) quotas(fd int, path string, q question) []Limit {
	var all []Limit
	note := func(name string, kind quota.Kind, id int) {
		got, err := h.quota(fd, kind, id)
		if err != nil {
			return
		}
		if l := limitOf(got, name); l.Bound() {
			all = append(all, l)
		}
	}
	note(ByUser, quota.User, q.UID)
	for _, gid := range append([]int{q.GID}, q.Groups...) {
		note(ByGroup, quota.Group, gid)
	}
	if project, err := h.projid(path); err == nil && project > 0 {
		note(ByProject, quota.Project, project)
	}
	return all
}

// limit takes the hard bound, or the soft one where that is the only one or passes for hard after its time of grace.
func limitOf(q quota.Block, kind string) Limit {
	lower := func(hard, soft uint64) int64 {
		if hard == 0 || soft != 0 && soft < hard {
			hard = soft
		}
		return int64(hard)
	}
	return Limit{
		Kind: kind, Used: int64(q.Space), Most: lower(q.HardBlocks, q.SoftBlocks) << 10, Files: int64(q.Files),
		MostFiles: lower(q.HardFiles, q.SoftFiles),
	}
}

// kernelQuota asks the kernel, by the directory and not by a device (Linux 5.14).
func kernelQuota(fd int, kind quota.Kind, id int) (b quota.Block, err error) {
	real, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return b, err
	}
	defer unix.Close(real)
	return quota.Get(real, kind, id)
}

// kernelProject returns the number of the project to which a directory belongs; 0: to none.
func kernelProject(path string) (int, error) {
	const getXattr = 0x801c581f // FS_IOC_FSGETXATTR
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var attr [28]byte // fsxattr: flags, extent size, extents, project
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), getXattr, uintptr(unsafe.Pointer(&attr))); errno != 0 {
		return 0, errno
	}
	return int(binary.NativeEndian.Uint32(attr[12:])), nil
}

// ceph reads the quota of a directory of CephFS, or of the nearest above it that has one.
func (h host) ceph(path string) []Limit {
	number := func(dir, name string) int64 {
		text, err := h.xattr(dir, name)
		if err != nil {
			return 0
		}
		n, _ := strconv.ParseInt(strings.TrimSpace(string(bytes.TrimRight(text, "\x00"))), 10, 64)
		return n
	}
	for dir := path; dir != "/"; dir = filepath.Dir(dir) {
		l := Limit{
			Kind: ByCephFS, Most: number(dir, "ceph.quota.max_bytes"), MostFiles: number(dir, "ceph.quota.max_files"),
		}
		if l.Bound() {
			l.Used, l.Files = number(dir, "ceph.dir.rbytes"), number(dir, "ceph.dir.rentries")
			return []Limit{l}
		}
	}
	return nil
}

func kernelXattr(path, name string) ([]byte, error) {
	value := make([]byte, 64)
	n, err := unix.Lgetxattr(path, name, value)
	return value[:max(n, 0)], err
}
