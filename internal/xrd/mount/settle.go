package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"slipway/internal/errs"
)

// settle makes a session's mounts as they must be now. What was mounted a while ago may be given.
func (m *Mounter) settle(ctx context.Context, s Session, was table) {
	o := m.own(s.ID)
	o.Lock()
	defer o.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !m.begins(s.ID, o, cancel) {
		return
	}
	trouble := make([]string, len(m.views()))
	var each sync.WaitGroup
	for i, v := range m.views() {
		each.Go(func() {
			if err := m.settleView(ctx, s, v, was); err != nil {
				trouble[i] = errs.Brief(err)
			}
		})
	}
	each.Wait()
	m.tellLosses(s.ID)
	m.mu.Lock()
	defer m.mu.Unlock()
	if o.stop = nil; ctx.Err() != nil {
		return
	}
	for i, v := range m.views() {
		if was := o.trouble[v.name()]; was != trouble[i] && trouble[i] != "" {
			m.log.Warn("a session's storage is not there", "id", s.ID, "path", v.path(), "why", trouble[i])
		}
		o.trouble[v.name()] = trouble[i]
	}
}

// begins notes how to end what is done for a session. It reports false when the session has been closed meanwhile.
func (m *Mounter) begins(id string, o *own, stop context.CancelFunc) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions[id] != o {
		return false
	}
	o.stop = stop
	return true
}

// settleView mounts what is not mounted, or is with other credentials or from elsewhere, or has lost its process.
func (m *Mounter) settleView(ctx context.Context, s Session, v view, was table) error {
	point := filepath.Join(m.dir(s.ID), v.name())
	p, err := m.cfg.Papers(ctx, s.User, v.Name)
	if err != nil {
		return fmt.Errorf("your credentials cannot be had: %w", err)
	}
	want := m.fsname(v, p)
	if was.shows(s.ID, point, want) || m.table().shows(s.ID, point, want) {
		if err := m.answers(ctx, v, point, want); !dead(err) {
			return words(err)
		}
		m.log.Warn("a storage mount has lost its process: it is made anew", "id", s.ID, "path", v.path())
	}
	if err := m.mount(ctx, s, v, p, want, point); err != nil {
		return err
	}
	return words(m.answers(ctx, v, point, want))
}

// dead reports whether the process behind a mount is gone: "Transport endpoint is not connected".
func dead(err error) bool {
	return errors.Is(err, syscall.ENOTCONN) || errors.Is(err, syscall.ECONNABORTED)
}

// words says what an error of a mount means to its user.
func words(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return errs.New(errs.Unavailable, "the storage does not answer")
	case errors.Is(err, fs.ErrPermission):
		return errs.New(errs.Forbidden, "the storage does not let you in: `slipway credentials` shows whether you have a token or proxy for it")
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.EBADE), errors.Is(err, fs.ErrNotExist):
		return errs.New(errs.Unavailable, "the storage does not answer, or does not let you in: see `slipway data` and `slipway credentials`")
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok { // without the path: that is this host's
		return errs.New(errs.Unavailable, "the storage does not answer as it should: %w", number)
	}
	return err
}

// mount mounts a view aside, and then puts it where it belongs.
func (m *Mounter) mount(ctx context.Context, s Session, v view, p Papers, name, point string) error {
	aside := filepath.Join(m.cfg.RunDir, s.ID, "new", name)
	if err := m.makeAside(aside); err != nil {
		return fmt.Errorf("mount %s: %w", v.path(), err)
	}
	defer func() { _ = os.Remove(aside) }()
	env, err := m.deliver(s, v, p)
	if err != nil {
		return fmt.Errorf("mount %s: %w", v.path(), err)
	}
	env = append(env, m.straight(v)...)
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Patience)
	defer cancel()
	options := "rdr=" + m.server(v) + "/" + v.Path + ",fsname=" + name + ",nosuid,nodev,big_writes"
	if v.readOnly() {
		options += ",ro"
	}
	c := exec.CommandContext(ctx, m.cfg.Program, aside, "-o", options)
	c.Dir, c.Env, c.WaitDelay = "/", env, time.Second
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it stays when the service ends
	if out, err := c.CombinedOutput(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		m.kill(aside)
		if errors.Is(err, exec.ErrNotFound) {
			return errs.New(errs.Missing, "xrootdfs is not installed on this host").With("apt-get install xrootd-fuse")
		}
		return errs.New(errs.Unavailable, "xrootdfs: %w %s", err, strings.TrimSpace(string(out)))
	}
	if err := m.replace(aside, point, s.ID); err != nil {
		m.kill(aside)
		return fmt.Errorf("mount %s: %w", v.path(), err)
	}
	return nil
}

// straight has xrootdfs ask the server of a view itself for what is in a directory, and not those that it names. That
// works for a user who may read only a part of the directory, and where the server's certificate has its name alone.
// The server counts as one of all names then, which xrootdfs would write to when a file is closed that it believes to
// be written: so for what is read alone, and where the kernel's word for large files is the one that it takes for
// reading.
func (m *Mounter) straight(v view) []string {
	if !v.readOnly() || runtime.GOARCH != "amd64" {
		return nil
	}
	return []string{"XROOTDFS_CNSURL=" + m.server(v) + "/" + v.Path, "XROOTDFS_FASTLS=1"}
}

// makeAside makes the directory where a view is mounted first. A service that was killed there has left it, and more.
func (m *Mounter) makeAside(aside string) error {
	if err := os.MkdirAll(filepath.Dir(aside), 0o700); err != nil {
		return err
	}
	err := os.Mkdir(aside, 0o700)
	if !os.IsExist(err) {
		return err
	}
	err = detach(aside)
	m.kill(aside)
	return err
}

// patience is what xrootdfs's client has with servers: one that is away is asked again in seconds and not, as it is by
// itself, in half an hour.
var patience = []string{
	"XRD_CONNECTIONWINDOW=5", "XRD_CONNECTIONRETRY=2", "XRD_STREAMTIMEOUT=20", "XRD_STREAMERRORWINDOW=5",
	"XRD_REQUESTTIMEOUT=60", "XRD_LOGLEVEL=Error",
}

// deliver writes the credentials for a view, and gives the environment that names them. What root of this host has, or
// is, counts for nothing: only ways of showing who one is for which this user has something are open at all.
func (m *Mounter) deliver(s Session, v view, p Papers) ([]string, error) {
	dir := filepath.Join(m.cfg.RunDir, s.ID)
	file := func(name string) string { return filepath.Join(dir, name) }
	env := append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "XRD_LOGFILE=" + file("log-"+v.name()),
		"BEARER_TOKEN_FILE=" + file("token-"+v.Name),
	}, patience...)
	if m.cfg.Trust != "" {
		env = append(env, "X509_CERT_DIR="+m.cfg.Trust)
	}
	ways := "none"
	if !p.Token.Empty() {
		ways += ",ztn"
	}
	if !p.Proxy.Empty() { // one that names no file keeps the client from TLS at all
		ways += ",gsi"
		env = append(env, "X509_USER_PROXY="+file("x509"))
	}
	return append(
		env, "XrdSecPROTOCOL="+strings.TrimPrefix(ways, "none,"),
	), errors.Join(write(file("token-"+v.Name), p.Token.Reveal()), write(file("x509"), p.Proxy.Reveal()))
}

// write replaces a file that root alone may read; without text there is none.
func write(file, text string) error {
	if text == "" {
		if err := os.Remove(file); !os.IsNotExist(err) {
			return err
		}
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".paper-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(0o600), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
