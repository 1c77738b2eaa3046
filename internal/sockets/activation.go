package sockets

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"slipway/internal/clock"
	"slipway/internal/errs"
)

// firstHeld is the first file descriptor of those that are handed over.
const firstHeld = 3

// held are listeners that were handed over and not taken yet.
type held struct {
	names     []string
	listeners []net.Listener
	notify    string // systemd's socket; empty: nobody keeps listeners for this process
	log       *slog.Logger
}

// takeHeld takes over what this process was started with, and closes to its children whatever it has open.
func takeHeld(log *slog.Logger) (*held, error) {
	h := &held{notify: os.Getenv("NOTIFY_SOCKET"), log: log}
	// Kernels before 5.11 cannot; what becomes a job closes what it has by itself.
	if err := unix.CloseRange(firstHeld, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		log.Debug("what this process was started with stays open to its children", "err", err)
	}
	count, _ := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	names := strings.Split(os.Getenv("LISTEN_FDNAMES"), ":")
	if pid := os.Getenv("LISTEN_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		count = 0 // another program's
	}
	for _, name := range []string{"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET"} {
		_ = os.Unsetenv(name)
	}
	for i := range count {
		fd := firstHeld + i
		syscall.CloseOnExec(fd)
		f := os.NewFile(uintptr(fd), "listener")
		l, err := net.FileListener(f)
		_ = f.Close()
		if err != nil {
			return nil, errs.New(
				errs.Invalid, "file descriptor %d, which was handed over, is no listener: %w", fd, err,
			).With("see LISTEN_FDS in man sd_listen_fds")
		}
		name := ""
		if i < len(names) {
			name = names[i]
		}
		h.names, h.listeners = append(h.names, name), append(h.listeners, l)
	}
	return h, nil
}

// nameOf is what a listener at a configured address is called where it is held.
func nameOf(address string) string {
	return "tcp_" + strings.NewReplacer(":", "_", "/", "_").Replace(address)
}

// listen takes the listener of an address, or opens one, and has it held from now on.
func (h *held) listen(address string) (net.Listener, error) {
	for i, l := range h.listeners {
		if h.names[i] == nameOf(address) || l.Addr().String() == address {
			h.names, h.listeners = slices.Delete(h.names, i, i+1), slices.Delete(h.listeners, i, i+1)
			h.hold(address, l)
			return l, nil
		}
	}
	l, err := listenTCP(address)
	if err == nil {
		h.hold(address, l)
	}
	return l, err
}

// portFree is how long a port may stay taken by what a killed service has left: a child of it that it had not started
// yet has all that the service had open.
const portFree = 5 * time.Second

// listenTCP opens a listener.
func listenTCP(address string) (net.Listener, error) {
	ctx, cancel := context.WithTimeout(context.Background(), portFree)
	defer cancel()
	for {
		l, err := net.Listen("tcp", address)
		if !errors.Is(err, syscall.EADDRINUSE) || !clock.Sleep(ctx, 50*time.Millisecond) {
			return l, err
		}
	}
}

// hold gives systemd a copy of a listener. It keeps one copy of each.
func (h *held) hold(address string, l net.Listener) {
	tcp, ok := l.(*net.TCPListener)
	if h.notify == "" || !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err == nil {
		var told error
		err = raw.Control(func(fd uintptr) { told = h.tell("FDSTORE=1\nFDNAME="+nameOf(address), int(fd)) })
		err = errors.Join(err, told)
	}
	if err != nil {
		h.log.Warn("the port is not held while the service restarts", "listen", address, "err", err)
	}
}

// tell tells systemd something, with file descriptors.
func (h *held) tell(words string, fds ...int) error {
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	return unix.Sendmsg(s, []byte(words), rights, &unix.SockaddrUnix{Name: h.notify}, 0)
}

// close gives up what is held and no configured address wants any more.
func (h *held) close() {
	for i, l := range h.listeners {
		h.log.Info("a port that was held is not configured any more", "listen", l.Addr().String())
		_ = l.Close()
		if h.notify != "" && h.names[i] != "" {
			if err := h.tell("FDSTOREREMOVE=1\nFDNAME=" + h.names[i]); err != nil {
				h.log.Warn("systemd keeps a port that is not configured any more", "err", err)
			}
		}
	}
	h.listeners, h.names = nil, nil
}

// restartPause is between the end of a service and its next start.
const restartPause = time.Second

// Hold holds the ports at these addresses for the service, a program with its arguments that is run as a child, and
// starts it anew whenever it ends. It returns when ctx has ended, and the child with it.
func Hold(ctx context.Context, argv, addresses []string, log *slog.Logger) error {
	h, err := newHolder(argv, addresses, log)
	defer h.close()
	if err != nil {
		return err
	}
	return h.run(ctx)
}

// holder runs the service as a child, which it starts anew whenever it ends, and holds the ports meanwhile. It ends
// with the child when ctx ends.
type holder struct {
	argv      []string
	listeners []*os.File
	names     []string
	log       *slog.Logger
}

// newHolder opens what the configuration wants to listen at.
func newHolder(argv, addresses []string, log *slog.Logger) (*holder, error) {
	h := &holder{argv: argv, log: log}
	for _, address := range addresses {
		l, err := listenTCP(address)
		if err != nil {
			return h, errs.New(errs.Unavailable, "listen at %s: %w", address, err).
				With("another service may be there; see `listen` and `ssh.listen` in the configuration")
		}
		f, err := l.(*net.TCPListener).File()
		if err = errors.Join(err, l.Close()); err != nil {
			return h, err
		}
		h.listeners, h.names = append(h.listeners, f), append(h.names, nameOf(address))
	}
	return h, nil
}

// run returns when ctx has ended and the child with it.
func (h *holder) run(ctx context.Context) error {
	runtime.LockOSThread() // the child is asked to end when this thread does
	defer runtime.UnlockOSThread()
	for {
		err := h.runOnce(ctx)
		if errors.Is(err, context.Canceled) { // it was asked to end, and has
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		h.log.Error("the service has ended and is started again; its ports are held", "err", err)
		if !clock.Sleep(ctx, restartPause) {
			return nil
		}
	}
}

func (h *holder) runOnce(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, h.argv[0], h.argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdout, os.Stderr, h.listeners
	count := fmt.Sprintf("LISTEN_FDS=%d", len(h.listeners))
	cmd.Env = append(os.Environ(), count, "LISTEN_FDNAMES="+strings.Join(h.names, ":"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // then it is waited for
	return cmd.Run()
}

func (h *holder) close() {
	for _, f := range h.listeners {
		_ = f.Close()
	}
}
