package local

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
	"slipway/spawner/local/cgroup"
)

// An image is mounted once for all jobs of one account that run in it, by a squashfuse of that account's: a job that
// mounts its image by itself pays for that, and reads all that it uses of the image anew. The mount is in a namespace
// of squashfuse's own, out of which jobs take it (see openImage), so it shows nowhere on the host and ends with that
// process. What is known of it lies in a directory as a job's does (see dir), and survives the service:
//
//	lock         held by squashfuse as long as it lives
//	launch.json  what is mounted
//	pid          squashfuse's, valid while the lock is held
//	users        read-locked by the shim of each job that uses the mount, and by the service while it starts one
const (
	imagesDir = "images" // below the backend's
	usersFile = "users"
)

// linger is how long an image that no job uses stays mounted: the next point of a scan finds it.
const linger = time.Minute

// spurnFor is how long jobs mount an image by themselves once a shared mount of it has not worked.
const spurnFor = 10 * time.Minute

// imageState is what the service remembers of a mount. It is locked by who looks after the mount.
type imageState struct {
	sync.Mutex
	idle    time.Time // since when no job was seen to use it; zero: one did
	spurned time.Time // until when it is not to be used
}

// sharing is how a Backend looks after mounted images.
type sharing struct {
	mounter func() (string, error) // finds squashfuse, once
	said    sync.Once              // why each job mounts its image by itself
	mu      sync.Mutex
	states  map[string]*imageState
}

func (s *sharing) state(key string) *imageState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.states[key] == nil {
		s.states[key] = &imageState{}
	}
	return s.states[key]
}

// Shares says why jobs cannot share mounts of their images on this host; nil when they can.
func (b *Backend) Shares(context.Context) error {
	_, err := b.sharing.mounter()
	return err
}

// findMounter finds the squashfuse that Apptainer uses, or another that gives files the same owners.
func (b *Backend) findMounter() (string, error) {
	alone := "jobs run all the same, each with a mount of its image of its own; "
	apptainer, err := b.program()
	if err != nil {
		return "", err
	}
	if why := forbidsDirectories(buildValue(apptainer, "APPTAINER_CONFDIR")); why != "" {
		return "", errs.New(errs.Missing, "jobs of one user cannot share a mount of their image: %s", why).
			With(alone + "allow it there")
	}
	for _, name := range []string{
		filepath.Join(filepath.Dir(apptainer), "squashfuse_ll"),
		filepath.Join(buildValue(apptainer, "LIBEXECDIR"), "apptainer/bin/squashfuse_ll"),
		"squashfuse_ll",
	} {
		program, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		help, _ := exec.Command(program, "--help").CombinedOutput() // says so with an exit code that is not zero
		if strings.Contains(string(help), "uid=") && strings.Contains(string(help), "clone_fd") {
			return program, nil
		}
	}
	return "", errs.New(errs.Missing, "jobs of one user cannot share a mount of their image: there is no squashfuse_ll with the option uid and libfuse 3").
		With(alone + "install squashfuse 0.5 or later, or Apptainer's own package, which has it")
}

// buildValue asks Apptainer for a value that it was built with.
func buildValue(apptainer, name string) string {
	out, _ := exec.Command(apptainer, "buildcfg", name).Output() // then there is no such file either
	return strings.TrimSpace(string(out))
}

// forbidsDirectories says why Apptainer's configuration keeps containers from being made of a directory, or would be
// evaded by it.
func forbidsDirectories(confdir string) string {
	for file, line := range map[string]string{"apptainer.conf": "allowcontainerdir=no", "ecl.toml": "activated=true"} {
		name := filepath.Join(confdir, file)
		text, _ := os.ReadFile(name) // what is not there forbids nothing
		for l := range strings.Lines(string(text)) {
			if strings.HasPrefix(strings.Join(strings.Fields(l), ""), line) {
				return name + " has " + strings.TrimSpace(l)
			}
		}
	}
	return ""
}

// shareImage returns a job's plan the shared mount of its image, and what keeps that mounted. Where there is none the
// job mounts its image by itself, and nil is returned.
func (b *Backend) shareImage(ctx context.Context, p *plan) *os.File {
	if b.cfg.Squashfs == nil {
		return nil
	}
	program, err := b.sharing.mounter()
	if err != nil {
		b.sharing.said.Do(func() { b.cfg.Logger.Info("each job mounts its image by itself", "why", err) })
		return nil
	}
	users, err := b.useImage(ctx, program, p)
	if err != nil {
		b.cfg.Logger.Warn("a job mounts its image by itself", "id", p.ID, "err", err)
	}
	return users
}

func (b *Backend) useImage(ctx context.Context, program string, p *plan) (*os.File, error) {
	d, err := b.imageDir(*p)
	if err != nil {
		return nil, err
	}
	s := b.sharing.state(d.key())
	s.Lock()
	defer s.Unlock()
	if time.Now().Before(s.spurned) {
		return nil, nil
	}
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, err
	}
	users, free, err := d.lockUsers(unix.F_RDLCK)
	if err != nil || !free {
		return nil, err
	}
	held, err := d.held()
	if err == nil && !held {
		err = b.mountImage(ctx, d, program, *p)
	}
	if err != nil {
		s.spurned = time.Now().Add(spurnFor)
		return nil, errors.Join(err, users.Close())
	}
	s.idle, p.Mounted = time.Time{}, string(d)
	return users, nil
}

// spurn has jobs mount an image by themselves for a while.
func (b *Backend) spurn(d dir) {
	s := b.sharing.state(d.key())
	s.Lock()
	defer s.Unlock()
	s.spurned = time.Now().Add(spurnFor)
}

// imageDir is where it is known what is mounted of a job's image for its account. Another file of that name has
// another.
func (b *Backend) imageDir(p plan) (dir, error) {
	info, err := os.Stat(p.Image)
	if err != nil {
		return "", err
	}
	var inode uint64
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = st.Ino
	}
	file := fmt.Sprintf("%s\x00%d\x00%d\x00%d", p.Image, inode, info.Size(), info.ModTime().UnixNano())
	key := fmt.Sprintf("%d-%d-%x", p.Account.UID, p.Account.GID, sha256.Sum256([]byte(file)))
	return dir(filepath.Join(b.cfg.Dir, imagesDir, key[:min(len(key), 60)])), nil
}

// key names a mounted image, also in the control groups.
func (d dir) key() string { return filepath.Base(string(d)) }

// imageGroup is the control group of who serves the image that is mounted at d.
func imageGroup(t cgroup.Tree, d dir) cgroup.Group { return t.Group("image-" + d.key()) }

// lockUsers takes a lock that says that an image is in use, or one that says that it is not.
func (d dir) lockUsers(how int16) (*os.File, bool, error) { return d.lockFile(usersFile, how) }

// mountImage starts the program that becomes the image's squashfuse.
func (b *Backend) mountImage(ctx context.Context, d dir, program string, p plan) error {
	if err := b.endImage(ctx, d); err != nil { // what a dead one has left
		return err
	}
	offset, err := b.cfg.Squashfs(p.Image)
	if err == nil {
		err = isSquashfs(p.Image, offset)
	}
	if err != nil {
		return err
	}
	lock, free, err := d.lock()
	if err != nil || !free {
		return err
	}
	err = d.put(launchFile, imagePlan{
		Program: program, Image: p.Image, Offset: offset, Account: p.Account, Cgroups: b.groups.Parent,
	}, unsynced)
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	r, err := b.detach("local-image", d, lock, nil)
	if err = errors.Join(err, lock.Close()); err == nil {
		err = unspoken(ctx, r)
	}
	if r != nil {
		_ = r.Close()
	}
	if err != nil {
		return errors.Join(err, b.endImage(context.WithoutCancel(ctx), d))
	}
	return nil
}

// unspoken waits until who is to serve an image has become squashfuse, or has said why not.
func unspoken(ctx context.Context, r *os.File) error {
	said, err := hear(ctx, r)
	if err == nil && said != "" {
		err = errors.New(said)
	}
	return err
}

// isSquashfs looks for what every squashfs begins with: of others Apptainer says best what is wrong with them.
func isSquashfs(image string, offset int64) error {
	f, err := os.Open(image)
	if err != nil {
		return err
	}
	defer f.Close()
	magic := make([]byte, 4)
	if _, err := f.ReadAt(magic, offset); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if string(magic) != "hsqs" {
		return errs.New(errs.Invalid, "%s holds no squashfs at %d", filepath.Base(image), offset)
	}
	return nil
}

// endImage ends who serves an image. Jobs that use it lose their files.
func (b *Backend) endImage(ctx context.Context, d dir) error {
	group := imageGroup(b.groups, d)
	if err := group.Kill(ctx); err != nil {
		return err
	}
	return group.Remove()
}

// Tidy unmounts the images that no job uses.
func (b *Backend) Tidy(ctx context.Context) error { return b.sweepImages(ctx, 0) }

// sweepImages unmounts the images that no job has used for a while, and removes what is left of those that nobody
// serves.
func (b *Backend) sweepImages(ctx context.Context, linger time.Duration) error {
	entries, err := os.ReadDir(filepath.Join(b.cfg.Dir, imagesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		d := dir(filepath.Join(b.cfg.Dir, imagesDir, e.Name()))
		s := b.sharing.state(d.key())
		if s.TryLock() { // otherwise a job is being started on it
			err = errors.Join(err, b.sweepImage(ctx, d, s, linger))
			s.Unlock()
		}
	}
	return err
}

func (b *Backend) sweepImage(ctx context.Context, d dir, s *imageState, linger time.Duration) error {
	users, free, err := d.lockUsers(unix.F_WRLCK)
	if err != nil {
		return err
	}
	if !free {
		s.idle = time.Time{}
		return nil
	}
	defer users.Close()
	if s.idle.IsZero() {
		s.idle = time.Now()
	}
	held, err := d.held()
	if err != nil || held && time.Since(s.idle) < linger {
		return err
	}
	if err := b.endImage(ctx, d); err != nil {
		return err
	}
	s.idle = time.Time{}
	return os.RemoveAll(string(d))
}
