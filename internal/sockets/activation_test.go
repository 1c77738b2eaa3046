package sockets

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestListenersAreTakenOver: by their name or their address, and what is not configured any more is closed.
func TestListenersAreTakenOver(t *testing.T) {
	byName, byAddress, stale := listening(t), listening(t), listening(t)
	h := &held{
		names: []string{nameOf(byName.Addr().String()), "slipway.socket", "tcp_old"}, listeners: []net.Listener{byName, byAddress, stale},
		log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	for _, want := range []net.Listener{byName, byAddress} {
		if got, err := h.listen(want.Addr().String()); err != nil || got != want {
			t.Errorf("%v, %v", got, err)
		}
	}
	h.close()
	if _, err := stale.Accept(); err == nil {
		t.Error("what is not configured is still open")
	}
	fresh, err := h.listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = fresh.Close()
}

func listening(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestSystemdIsGivenEachListener speaks systemd's side of the file descriptor store.
func TestSystemdIsGivenEachListener(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	s, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h := &held{notify: path, log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	l, err := h.listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	words, rights := make([]byte, 1000), make([]byte, 1000)
	n, m, _, _, err := s.ReadMsgUnix(words, rights)
	if err != nil || string(words[:n]) != "FDSTORE=1\nFDNAME=tcp_127.0.0.1_0" {
		t.Fatalf("%q, %v", words[:n], err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:m])
	if err != nil || len(messages) != 1 {
		t.Fatal(err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		t.Fatalf("%v, %v", fds, err)
	}
	stored := os.NewFile(uintptr(fds[0]), "stored")
	defer stored.Close()
	copied, err := net.FileListener(stored)
	if err != nil || copied.Addr().String() != l.Addr().String() {
		t.Fatalf("%v, %v", copied, err)
	}
	_, _ = l.Close(), copied.Close()
}

// TestHeldService is no test, but what TestPortsAreHeldOverARestart starts anew: it answers with its process ID.
func TestHeldService(*testing.T) {
	address := os.Getenv("SLIPWAY_TEST_HELD_SERVICE")
	if address == "" {
		return
	}
	h, err := takeHeld(slog.New(slog.DiscardHandler))
	if err == nil {
		var l net.Listener
		if l, err = h.listen(address); err == nil {
			err = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, os.Getpid()) }))
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestPortsAreHeldOverARestart: a connection that comes while the service is dead is answered by the next one, and
// nobody else gets the port.
func TestPortsAreHeldOverARestart(t *testing.T) {
	l := listening(t)
	address := l.Addr().String()
	_ = l.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLIPWAY_TEST_HELD_SERVICE", address)
	h, err := newHolder([]string{self, "-test.run=^TestHeldService$"}, []string{address}, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.run(ctx) }()
	client := http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func() (pid int) {
		t.Helper()
		r, err := client.Get("http://" + address)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if _, serr := fmt.Sscan(string(body), &pid); serr != nil || err != nil {
			t.Fatal(serr, err)
		}
		return pid
	}
	first := ask()
	for range 3 {
		if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for dead := false; !dead; { // until the kernel has closed what it had
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", first))
			dead = err != nil || strings.Contains(string(status), "State:\tZ")
		}
		if thief, err := net.Listen("tcp", address); err == nil {
			_ = thief.Close()
			t.Error("another program takes the port")
		}
		next := ask()
		if next == first {
			t.Error("the dead one answers")
		}
		first = next
	}
	cancel()
	if err := <-done; err != nil && !strings.Contains(err.Error(), "terminated") { // by its signal: it does not listen to it
		t.Error(err)
	}
	if err := exec.Command("kill", "-0", fmt.Sprint(first)).Run(); err == nil {
		t.Error("the service outlives its holder")
	}
}
