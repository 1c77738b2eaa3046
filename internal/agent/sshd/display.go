package sshd

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// forwardAgent makes the socket that leads to the client's ssh agent. A connection has one.
func (s *session) forwardAgent(ctx context.Context) bool {
	path, err := s.guest.agentSocket(ctx)
	if err != nil {
		s.server.cfg.Logger.Warn("no way to the client's ssh agent", "error", err)
		return false
	}
	s.agent = path
	return true
}

func (g *guest) agentSocket(ctx context.Context) (string, error) {
	g.mu.Lock()
	path := g.agent
	g.mu.Unlock()
	if path != "" {
		return path, nil
	}
	dir, err := g.privateDir()
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "agent")
	l, err := listenAt(path)
	if err != nil {
		return "", err
	}
	if !g.add(ctx, unixKey(path), "auth-agent@openssh.com", l, func(net.Conn) []byte { return nil }) {
		return "", fmt.Errorf("%d listeners are open", maxForwards)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.agent = path
	return path, nil
}

// The displays that are the client's: as with OpenSSH they begin at 10, so that none is taken for the machine's own.
const (
	firstDisplay = 10
	lastDisplay  = 1000
	displayPort  = 6000
	xauthTime    = 10 * time.Second
)

// display is an X display inside the session that is the client's.
type display struct {
	guest     *guest
	key       string
	name      string // as programs are told it
	authority string // the file with its cookie
}

func (d *display) close() {
	_ = os.Remove(d.authority)
	d.guest.mu.Lock()
	defer d.guest.mu.Unlock()
	if l := d.guest.listeners[d.key]; l != nil {
		l.close()
		delete(d.guest.listeners, d.key)
	}
}

// forwardX11 opens a display. An image without xauth has no programs for it either.
func (s *session) forwardX11(ctx context.Context, payload []byte) bool {
	want, err := parseX11(payload)
	if err != nil || s.x11 != nil {
		return false
	}
	xauth := s.around.find("xauth")
	if xauth == "" {
		return false
	}
	d, number, err := s.guest.openDisplay(ctx, want)
	if err != nil {
		s.server.cfg.Logger.Warn("no display for ssh", "error", err)
		return false
	}
	lines := fmt.Sprintf("add unix:%d.%d %s %s\n", number, want.Screen, want.Protocol, want.Cookie)
	if err := s.tell(ctx, xauth, d.authority, lines); err != nil {
		s.server.cfg.Logger.Warn("no display for ssh", "error", err)
		d.close()
		return false
	}
	s.x11 = d
	return true
}

func (g *guest) openDisplay(ctx context.Context, want x11Request) (*display, int, error) {
	l, number, err := listenDisplay()
	if err != nil {
		return nil, 0, err
	}
	dir, err := g.privateDir()
	if err != nil {
		l.close()
		return nil, 0, err
	}
	d := &display{
		guest: g, key: fmt.Sprint("x11 ", number), name: fmt.Sprintf("localhost:%d.%d", number, want.Screen),
		authority: filepath.Join(dir, fmt.Sprint("xauthority-", number)),
	}
	ok := g.add(ctx, d.key, "x11", l, func(c net.Conn) []byte {
		if want.Single {
			l.close()
		}
		host, port := origin(c)
		return ssh.Marshal(struct {
			Host string
			Port uint32
		}{host, port})
	})
	if !ok {
		return nil, 0, fmt.Errorf("%d listeners are open", maxForwards)
	}
	return d, number, nil
}

func listenDisplay() (*listener, int, error) {
	for n := firstDisplay; n <= lastDisplay; n++ {
		if l, _, err := listenLoopback(uint16(displayPort + n)); err == nil {
			return l, n, nil
		}
	}
	return nil, 0, fmt.Errorf("the displays up to %d are taken", lastDisplay)
}

// tell has xauth write the cookie into a file of the connection's own, and not into the user's: that would keep it.
func (s *session) tell(ctx context.Context, xauth, file, lines string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		_ = r.Close()
		return err
	}
	p, err := s.server.start(xauth, []string{"xauth", "-q", "-f", file, "-"}, &syscall.ProcAttr{
		Dir: "/", Env: s.around.env, Files: []uintptr{r.Fd(), null.Fd(), null.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	_, _ = r.Close(), null.Close()
	if err != nil {
		return err
	}
	if _, err := w.WriteString(lines); err != nil {
		return err
	}
	_ = w.Close()
	ctx, cancel := context.WithTimeout(ctx, xauthTime)
	defer cancel()
	select {
	case <-p.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	if p.status.ExitStatus() != 0 {
		return fmt.Errorf("xauth ended with code %d", p.status.ExitStatus())
	}
	return nil
}

// find returns the path of a program; empty: there is none.
func (a surroundings) find(name string) string {
	for _, dir := range strings.Split(a.env.get("PATH"), ":") {
		p := filepath.Join(dir, name)
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return p
		}
	}
	return ""
}
