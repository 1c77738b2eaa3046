package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"slipway/internal/mounts"
	"slipway/spawner"
	"slipway/spawner/accounts"
	"slipway/spawner/local/cgroup"
)

// Enter becomes a job's Apptainer: it joins the job's control group, puts the job's files in place in the mount
// namespace in which the shim has started it, gives up every right of root's, and is replaced by Apptainer. It is the
// whole of the program `slipway local-enter DIR`, and returns only an error, which the shim has been told then.
func Enter(name string) error {
	runtime.LockOSThread() // rights are a thread's own, and exec keeps those of the thread that calls it
	status := os.NewFile(statusFD, "status")
	err := closeOnExec(lockFD)
	if err == nil {
		err = enter(dir(name))
	}
	_, werr := status.WriteString(err.Error())
	return errors.Join(err, werr)
}

// joinNetwork moves the calling thread into the job's network, or makes one of its own usable.
func (p plan) joinNetwork() error {
	switch {
	case p.isTrial() || p.Network == Isolated:
		return loopbackUp()
	case p.Network == Outward:
		return unix.Setns(networkFD, unix.CLONE_NEWNET)
	}
	return nil
}

// leastPriority is the kernel's nicest.
const leastPriority = 19

func enter(d dir) error {
	p, err := d.plan()
	if err != nil {
		return err
	}
	if err := cgroup.New(cgroup.Root, p.Cgroups).Group(p.ID).Join(); err != nil {
		return fmt.Errorf("join the job's control group: %w", err)
	}
	if err := p.joinNetwork(); err != nil {
		return fmt.Errorf("join the job's network: %w", err)
	}
	if err := p.furnish(); err != nil {
		return fmt.Errorf("put the job's files in place: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if p.isTrial() { // nobody waits for it
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, leastPriority); err != nil {
			return fmt.Errorf("give up priority: %w", err)
		}
	}
	if err := drop(p.Account); err != nil {
		return fmt.Errorf("give up root's rights: %w", err)
	}
	if err := p.served(); err != nil {
		return err
	}
	return fmt.Errorf("run %s: %w", p.Apptainer, syscall.Exec(p.Apptainer, p.argv(), p.environ()))
}

// binding puts one file or directory of the host in its place on the stage, or in the job's own /dev.
type binding struct {
	from, to string
	readOnly bool
	device   bool // may be opened as one
	tree     bool // with what is mounted below it, now and later
	plain    bool // no part of from may be a link, also where somebody has put one there since it was looked at
	owner    int  // whose it must be; 0: anybody's
	mounted  bool // from is the directory of a shared mount, and that is what is bound
}

// image is the image itself, or what is mounted of it already.
func (p plan) image() binding {
	if p.Mounted != "" {
		return binding{from: p.Mounted, to: stageImage, readOnly: true, mounted: true}
	}
	return binding{from: p.Image, to: stageImage, readOnly: true}
}

func (p plan) bindings() []binding {
	all := []binding{
		p.image(),
		{from: p.Account.HomeDir, to: stageHome, plain: !p.isTrial(), owner: p.Account.UID},
		{from: p.Scratch, to: stageScratch},
	}
	if !p.isTrial() {
		all = append(all,
			binding{from: p.AgentDir, to: stageBin, readOnly: true},
			binding{from: p.LinkDir, to: stageLink, readOnly: true},
			binding{from: p.RunDir, to: stageRun},
		)
		for i, m := range p.Mounts {
			all = append(
				all, binding{from: m.Source, to: stageMount(i), readOnly: !m.Write, tree: true, plain: m.Plain},
			)
		}
	}
	return slices.Concat(all, p.gpuBindings(), p.deviceBindings())
}

// furnish makes the stage. No mount of it reaches the host, and all end with the namespace's last process. The sources
// are opened before the stage covers anything.
func (p plan) furnish() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return err
	}
	var sources []int
	all := p.bindings()
	for _, b := range all {
		fd, err := b.open()
		if err != nil {
			return fmt.Errorf("open %s: %w", b.from, err)
		}
		sources = append(sources, fd)
	}
	if err := os.MkdirAll(stage, 0o755); err != nil {
		return err
	}
	unix.Umask(0o022)
	if err := unix.Mount("slipway", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=16m"); err != nil {
		return err
	}
	if err := ownDevices(); err != nil {
		return err
	}
	for i, b := range all {
		if err := b.bind(sources[i]); err != nil {
			return fmt.Errorf("bind %s: %w", b.from, err)
		}
	}
	if err := owned(stageSecrets, p.Account); err != nil {
		return err
	}
	return p.introduce()
}

// open opens what is to be bound: from then on nobody can exchange it.
func (b binding) open() (int, error) {
	const how = unix.O_PATH | unix.O_CLOEXEC
	if b.mounted {
		return openImage(dir(b.from))
	}
	if !b.plain {
		return unix.Open(b.from, how, 0)
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, b.from, &unix.OpenHow{Flags: how, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil || b.owner == 0 {
		return fd, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fd, err
	}
	if int(st.Uid) != b.owner {
		return fd, fmt.Errorf("it is not of user id %d, but of %d", b.owner, st.Uid)
	}
	return fd, nil
}

// bind binds what fd is open on.
func (b binding) bind(fd int) error {
	if err := b.attach(fd); err != nil {
		return err
	}
	flags := uintptr(unix.MS_BIND | unix.MS_REMOUNT | unix.MS_NOSUID)
	if !b.device {
		flags |= unix.MS_NODEV
	}
	if b.readOnly {
		flags |= unix.MS_RDONLY
	}
	return unix.Mount("", b.to, "", flags, "")
}

// attach puts what fd is open on in its place.
func (b binding) attach(fd int) error {
	if b.mounted { // what root may not even look at
		if err := os.MkdirAll(b.to, 0o755); err != nil {
			return err
		}
		return unix.MoveMount(fd, "", unix.AT_FDCWD, b.to, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if err := b.point(fd); err != nil {
		return err
	}
	how := uintptr(unix.MS_BIND)
	if b.tree {
		how |= unix.MS_REC
	}
	return unix.Mount("/proc/self/fd/"+strconv.Itoa(fd), b.to, "", how, "")
}

// point makes the place to bind on: a file or a directory, as what fd is open on.
func (b binding) point(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return os.MkdirAll(b.to, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(b.to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(b.to, nil, 0o444)
}

// introduce makes the account known in the namespace. Nothing is mounted on the host's own tables: programs such as
// useradd replace them by new files, and what is mounted on a file that is replaced is gone, in every namespace. So
// /etc is the host's below a layer with ours.
func (p plan) introduce() error {
	users, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return err
	}
	all, err := os.ReadFile("/etc/group")
	if err != nil {
		return err
	}
	for _, dir := range []string{stageEtc, stageHostEtc} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	for name, table := range map[string][]byte{"passwd": accounts.UsersOfHost(p.Account, users), "group": accounts.GroupsOfHost(p.Account, all)} {
		if err := os.WriteFile(filepath.Join(stageEtc, name), table, 0o444); err != nil {
			return err
		}
	}
	return coverEtc()
}

// coverEtc lays stageEtc over /etc. What is mounted below that, as in a container, is not in the layers and is bound
// again.
func coverEtc() error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if err := unix.Mount("/etc", stageHostEtc, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	layers := "lowerdir=" + stageEtc + ":" + stageHostEtc
	if err := unix.Mount("slipway", "/etc", "overlay", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, layers); err != nil {
		return fmt.Errorf("an overlay on /etc: %w", err)
	}
	for _, name := range mountsBelow(string(table), "/etc") {
		if err := unix.Mount(filepath.Join(stageHostEtc, name), filepath.Join("/etc", name), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("bind /etc/%s: %w", name, err)
		}
	}
	return nil
}

// mountsBelow returns what is mounted below a directory, relative to it; what is mounted below one of those comes with
// it.
func mountsBelow(mountinfo, dir string) (names []string) {
	for m := range mounts.Mounts(mountinfo) {
		name, below := strings.CutPrefix(m.Point, dir+"/")
		isPart := func(of string) bool { return name == of || strings.HasPrefix(name, of+"/") }
		if below && !slices.ContainsFunc(names, isPart) {
			names = append(names, name)
		}
	}
	return names
}

// drop makes the calling thread an ordinary user's, for ever: without other groups than the user's, capabilities but those
// that are kept, or the means to gain any. What is kept, the program that replaces this one has too.
func drop(a spawner.Account, kept ...uint) error {
	for c := 0; ; c++ {
		if slices.Contains(kept, uint(c)) {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // the kernel knows no more
		}
		if err != nil {
			return err
		}
	}
	var groups []int
	for _, g := range a.Groups {
		groups = append(groups, g.ID)
	}
	if err := syscall.Setgroups(groups); err != nil {
		return err
	}
	if err := syscall.Setgid(a.GID); err != nil {
		return err
	}
	if len(kept) > 0 { // of this thread alone, so Setuid below, which is of all threads, is no way
		if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
			return err
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETUID, uintptr(a.UID), 0, 0); errno != 0 {
			return errno
		}
	} else if err := syscall.Setuid(a.UID); err != nil {
		return err
	}
	var left [2]unix.CapUserData
	for _, c := range kept {
		word := &left[c/32]
		word.Effective |= 1 << (c % 32)
		word.Permitted, word.Inheritable = word.Effective, word.Effective
	}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &left[0]); err != nil {
		return err
	}
	for _, c := range kept {
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(c), 0, 0); err != nil {
			return err
		}
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}
