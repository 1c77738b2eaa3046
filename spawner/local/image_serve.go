package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"slipway/spawner"
	"slipway/spawner/local/cgroup"
)

// imagePlan is what is to be mounted, as it lies in launch.json.
type imagePlan struct {
	Program string          `json:"program"` // squashfuse
	Image   string          `json:"image"`
	Offset  int64           `json:"offset"` // of the squashfs in it
	Account spawner.Account `json:"account"`
	Cgroups string          `json:"cgroups"`
}

// imageResources bound what a hostile image may do to who reads it. Nothing else needs much: the kernel keeps what was
// read for the job that reads it.
var imageResources = spawner.Resources{Memory: 2 << 30, Pids: 64}

// Image becomes the squashfuse that serves an image to all jobs of one account: it joins a control group of its own,
// mounts in a namespace of its own what squashfuse is to serve, gives up every right of root's, and is replaced by
// squashfuse. It is the whole of the program `slipway local-image DIR`, and returns only an error, which the service
// has been told then.
func Image(name string) error {
	runtime.LockOSThread() // the namespace is the thread's own, and so are rights
	word := os.NewFile(wordFD, "word")
	err := closeOnExec(wordFD) // the lock behind it is squashfuse's
	if err == nil {
		err = serveImage(dir(name))
	}
	_, werr := word.WriteString(err.Error())
	return errors.Join(err, werr)
}

func serveImage(d dir) error {
	var p imagePlan
	if err := d.read(launchFile, &p); err != nil {
		return err
	}
	group := imageGroup(cgroup.New(cgroup.Root, p.Cgroups), d)
	for _, act := range []func() error{group.Create, func() error { return group.Limit(imageResources) }, group.Join} {
		if err := act(); err != nil {
			return errors.Join(err, group.Remove())
		}
	}
	if err := d.put(pidFile, os.Getpid(), unsynced); err != nil {
		return err
	}
	image, err := unix.Open(p.Image, unix.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", p.Image, err)
	}
	fuse, err := p.mount()
	if err != nil {
		return fmt.Errorf("mount %s: %w", p.Image, err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := drop(p.Account); err != nil {
		return fmt.Errorf("give up root's rights: %w", err)
	}
	return fmt.Errorf("run %s: %w", p.Program, syscall.Exec(p.Program, p.argv(image, fuse), []string{}))
}

// mount mounts on the stage of a new namespace what the returned file serves. Without allow_other the kernel lets
// nobody in but the account.
func (p imagePlan) mount() (fuse int, err error) {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return 0, err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(stage, 0o755); err != nil {
		return 0, err
	}
	if fuse, err = unix.Open("/dev/fuse", unix.O_RDWR, 0); err != nil {
		return 0, fmt.Errorf("open /dev/fuse: %w", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", fuse, p.Account.UID, p.Account.GID)
	return fuse, unix.Mount("slipway", stage, "fuse", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_RDONLY, options)
}

// argv is squashfuse's command line, but for the option allow_other as Apptainer has it.
func (p imagePlan) argv(image, fuse int) []string {
	options := fmt.Sprintf("ro,uid=%d,gid=%d,offset=%d", p.Account.UID, p.Account.GID, p.Offset)
	return []string{
		p.Program, "-f", "-o", options, "/proc/self/fd/" + strconv.Itoa(image), "/dev/fd/" + strconv.Itoa(fuse),
	}
}

// openImage takes a mount of an image out of the namespace of who serves it. Nothing is read of it, so nothing waits
// for an answer. The calling thread must be locked to its goroutine.
func openImage(d dir) (int, error) {
	theirs, err := d.namespace()
	if err != nil {
		return -1, fmt.Errorf("%s: %w", notServed, err)
	}
	defer theirs.Close()
	ours, err := os.Open("/proc/thread-self/ns/mnt")
	if err != nil {
		return -1, err
	}
	defer ours.Close()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return -1, err
	}
	if err := unix.Setns(int(theirs.Fd()), unix.CLONE_NEWNS); err != nil {
		return -1, err
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, stage, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	return fd, errors.Join(err, unix.Setns(int(ours.Fd()), unix.CLONE_NEWNS))
}

// namespace opens that of who serves an image. The lock is asked for once it is in hand: the process ID may have passed
// to another.
func (d dir) namespace() (*os.File, error) {
	pid, err := os.ReadFile(d.path(pidFile))
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join("/proc", strings.TrimSpace(string(pid)), "ns/mnt"))
	if err != nil {
		return nil, err
	}
	held, err := d.held()
	if err == nil && !held {
		err = errors.New("nobody serves it any more")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// notServed marks an error of a start that would not have been one on a mount of the job's own.
const notServed = "the mount of the image that several jobs share is not served"

// served asks who serves a job's image for an answer. One that is dead gives none; one that never answers is killed by
// the shim.
func (p plan) served() error {
	if p.Mounted == "" {
		return nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(stageImage, &st); err != nil {
		return fmt.Errorf("%s: %w", notServed, err)
	}
	return nil
}

const (
	answerWithin = 30 * time.Second // who serves an image answers a job that starts
	dieWithin    = 10 * time.Second // a job is killed, if it waits for no answer
)

// killImage kills who serves a job's image: other jobs in it lose their files.
func (p plan) killImage(ctx context.Context) error {
	return imageGroup(cgroup.New(cgroup.Root, p.Cgroups), dir(p.Mounted)).Kill(ctx)
}

// end kills every process of a job's group. The kernel lets none die that waits for an answer of who serves its image,
// so one who gives none has to be killed too.
func (p plan) end(ctx context.Context, g cgroup.Group) error {
	if p.Mounted == "" {
		return g.Kill(ctx)
	}
	soon, cancel := context.WithTimeout(ctx, dieWithin)
	defer cancel()
	err := g.Kill(soon)
	if err == nil || soon.Err() == nil || ctx.Err() != nil {
		return err
	}
	if err := p.killImage(ctx); err != nil {
		return err
	}
	return g.Kill(ctx)
}
