package worker

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway/images/changeset"
	"slipway/internal/agent/control"
	"slipway/internal/tunnel"
)

const session = "s-0123456789abcdef"

// service waits for the agent of one session.
type service struct {
	server *httptest.Server
	links  *tunnel.Links
	client control.Client
	stop   func()
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{links: tunnel.New(tunnel.Config{Logger: slog.New(slog.DiscardHandler)})}
	must(t, s.links.Expect(session))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var done sync.WaitGroup
	done.Go(func() { _ = s.links.Run(ctx) })
	s.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hush" || s.links.Upgrade(w, r, session) != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	s.stop = sync.OnceFunc(func() { cancel(); done.Wait(); s.server.CloseClientConnections(); s.server.Close() })
	t.Cleanup(s.stop)
	s.client = control.Client{Dial: func(ctx context.Context) (net.Conn, error) { return s.links.Dial(ctx, session, tunnel.DoorControl) }}
	return s
}

func (s *service) uplink() control.Uplink {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
	return control.Uplink{URL: "wss" + strings.TrimPrefix(s.server.URL, "https") + "/link", Token: "hush", CA: string(ca)}
}

// wait waits for the agent.
func (s *service) wait(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, s.links.Wait(ctx, session))
}

// begin starts a session on a node, which does something and then goes on.
func (s *service) begin(t *testing.T, n *node, line string) {
	t.Helper()
	n.app, n.link, n.plan.ID, n.plan.Session = nil, s.uplink(), session, true
	n.send()
	n.start()
	s.wait(t)
	app := control.App{Launch: "l1", Argv: []string{"sh", "-c", line + "; echo begun; while :; do sleep 0.1; done"}, Grace: time.Second}
	must(t, s.client.Launch(t.Context(), app))
	log, err := s.client.Log(t.Context(), 0, true)
	must(t, err)
	defer log.Close()
	if _, err := io.ReadFull(log, make([]byte, len("begun"))); err != nil {
		t.Fatal(err)
	}
}

// TestRemoteSession: a session that is ended over its link leaves what it has changed, which is what it saw.
func TestRemoteSession(t *testing.T) {
	s, n := newService(t), newNode(t, "")
	s.begin(t, n, `echo n > /opt/new; rm -r /opt/old; mkdir /opt/old; echo k > /opt/old/kept; echo h > $HOME/h
		(setsid sh -c 'while :; do echo x >> /opt/grows; done' &); while [ ! -s /opt/grows ]; do sleep 0.1; done`)
	must(t, s.client.End(t.Context()))
	code, e := n.wait()
	if e.Reason != "" || code == 0 || n.status().State != control.Exited || !strings.HasPrefix(n.out(LogFile), "begun\n") {
		t.Errorf("code %d, %+v, %+v", code, e, n.status())
	}
	f, err := os.Open(n.at(OutDir, PackFile))
	must(t, err)
	defer f.Close()
	dir := t.TempDir()
	upper, err := changeset.Unpack(t.Context(), f, changeset.Target{Dir: dir, Owner: &changeset.Owner{UID: 1000, GID: 1000}, Layers: []string{filepath.Join(shared(), "tree")}})
	must(t, err)
	for name, want := range map[string]string{"opt/new": "n\n", "opt/old/kept": "k\n", "home/alice/h": "h\n"} { // the node has no home of hers
		if b, err := os.ReadFile(filepath.Join(upper, name)); string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if st, err := os.Lstat(filepath.Join(upper, "opt/old/file")); err == nil && st.Mode()&os.ModeCharDevice == 0 {
		t.Errorf("what was deleted is there: %v", st.Mode())
	}
	if st, err := os.Stat(filepath.Join(upper, "opt/grows")); err != nil || st.Size() == 0 {
		t.Errorf("what was still written: %v", err)
	}
}

// A session that loses its place says nothing of changes, and one whose service is away goes on.
func TestSessionEvicted(t *testing.T) {
	s, n := newService(t), newNode(t, "")
	s.begin(t, n, "echo n > /opt/new")
	s.stop()
	must(t, n.cmd.Process.Signal(syscall.SIGTERM))
	code, e := n.wait()
	if code == 0 || !strings.Contains(e.Reason, "asked to end by the batch system") {
		t.Errorf("code %d, %+v", code, e)
	}
	if _, err := os.Stat(n.at(OutDir, PackFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("changes came back: %v", err)
	}
	if st := n.status(); st.State != control.Exited {
		t.Errorf("%+v", st)
	}
}

// Changes for which there is no room are not kept, and the user is told.
func TestSessionWithoutRoom(t *testing.T) {
	s, n := newService(t), newNode(t, "")
	n.smallDisk(10 << 20)
	s.begin(t, n, "dd if=/dev/urandom of=/opt/large bs=1M count=6 2>/dev/null")
	must(t, s.client.End(t.Context()))
	_, e := n.wait()
	if e.PackSize != 0 || !strings.Contains(e.Reason, "could not be kept") || !strings.Contains(e.Tail, "no space left on device") || !strings.Contains(n.status().Reason, "is lost: ") {
		t.Errorf("%+v, %+v", e, n.status())
	}
	if _, err := os.Stat(n.at(OutDir, PackFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("changes came back: %v", err)
	}
}
