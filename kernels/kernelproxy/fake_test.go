package kernelproxy

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"slipway/hubapi"
	"slipway/internal/testenv"
	"slipway/kernels/wire"
	"slipway/kernels/zmtp"
)

const long = testenv.Hang

// gateway is a service that starts one kernel, and the kernel.
type gateway struct {
	t    *testing.T
	path string

	mu       sync.Mutex
	calls    []string
	asked    map[string]any // to start it
	exists   bool
	state    hubapi.Kernel
	refuse   string // a start
	freezes  string // the stream of a freeze
	ending   int    // how many starts come too soon
	hears    func(m wire.Message)
	ws       *websocket.Conn
	accepted int // websockets
	heard    map[string]int
}

func newGateway(t *testing.T) *gateway {
	dir, err := os.MkdirTemp("/tmp", "bridge") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	g := &gateway{t: t, path: filepath.Join(dir, "api.sock"), state: hubapi.Kernel{State: "idle"}, heard: map[string]int{}}
	g.hears = g.answers
	l, err := net.Listen("unix", g.path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(g)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return g
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, _ := strings.CutPrefix(r.URL.Path, "/kernels/api/kernels")
	word := path[strings.LastIndex(path, "/")+1:]
	if strings.Count(path, "/") == 1 {
		word = ""
	}
	if word == "channels" {
		g.converse(w, r)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if path, is := strings.CutPrefix(r.URL.Path, "/api/v1/"); is {
		g.calls = append(g.calls, path)
		if word == "freeze" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, g.freezes)
			return
		}
		body, _ := io.ReadAll(r.Body)
		g.calls = append(g.calls, string(body))
		_, _ = io.WriteString(w, "{}")
		return
	}
	g.calls = append(g.calls, strings.TrimSpace(r.Method+" "+word))
	fault := func(status int, message string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"reason": "no", "message": message})
	}
	switch {
	case r.Method == http.MethodPost && path == "" && g.refuse != "":
		fault(http.StatusForbidden, g.refuse)
		return
	case r.Method == http.MethodPost && path == "" && g.ending > 0:
		g.ending--
		fault(http.StatusConflict, "this kernel is still ending")
		return
	case r.Method == http.MethodPost && path == "":
		g.state = hubapi.Kernel{State: "idle"}
		_ = json.NewDecoder(r.Body).Decode(&g.asked)
		g.exists = true
	case !g.exists:
		fault(http.StatusNotFound, "there is none")
		return
	case r.Method == http.MethodDelete:
		g.exists = false
		if g.freezes != "" && g.ws != nil { // as a gateway closes the connections of a kernel that is removed
			go func(ws *websocket.Conn) {
				g.say(wire.IOPub, "stream", nil, map[string]any{"name": "stderr", "text": "stopped by its owner"})
				_ = ws.Close(websocket.StatusNormalClosure, "the kernel has ended")
			}(g.ws)
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	_ = json.NewEncoder(w).Encode(g.state)
}

func (g *gateway) converse(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.calls = append(g.calls, "channels "+r.URL.RawQuery)
	g.mu.Unlock()
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.V1Name}})
	if err != nil {
		return
	}
	defer ws.CloseNow()
	ws.SetReadLimit(wire.Limit)
	g.mu.Lock()
	g.ws = ws
	g.accepted++
	g.mu.Unlock()
	for {
		_, data, err := ws.Read(r.Context())
		if err != nil {
			return
		}
		m, err := wire.DecodeV1(data)
		if err != nil {
			g.t.Errorf("it sends what is no message: %v", err)
			return
		}
		g.mu.Lock()
		g.heard[m.ID()]++
		hears := g.hears
		g.mu.Unlock()
		hears(m)
	}
}

// answers is a kernel that does what it is told by the code of a cell.
func (g *gateway) answers(m wire.Message) {
	g.say(wire.IOPub, "status", m.Header, map[string]any{"execution_state": "busy"})
	var c struct{ Code string }
	_ = json.Unmarshal(m.Content, &c)
	switch kind := m.Type(); {
	case kind == "input_reply", kind == "comm_msg":
		return
	case strings.HasPrefix(c.Code, "import "):
		g.say(wire.IOPub, "error", m.Header, map[string]any{"ename": "ModuleNotFoundError", "evalue": "No module named '" + c.Code[len("import "):] + "'"})
	case c.Code == "ask":
		g.say(wire.Stdin, "input_request", m.Header, map[string]any{"prompt": "who? "})
	case c.Code != "":
		g.say(wire.IOPub, "stream", m.Header, map[string]any{"name": "stdout", "text": c.Code})
	}
	g.say(m.Channel, strings.TrimSuffix(m.Type(), "_request")+"_reply", m.Header, map[string]any{"status": "ok"})
	g.say(wire.IOPub, "status", m.Header, map[string]any{"execution_state": "idle"})
}

func (g *gateway) say(c wire.Channel, kind string, parent json.RawMessage, content any, buffers ...[]byte) wire.Message {
	m, err := wire.New(c, kind, parent, content)
	if err != nil {
		g.t.Error(err)
	}
	m.Buffers = buffers
	g.send(m)
	return m
}

func (g *gateway) send(m wire.Message) {
	g.mu.Lock()
	ws := g.ws
	g.mu.Unlock()
	_ = ws.Write(context.Background(), websocket.MessageBinary, wire.EncodeV1(m)) // it may be gone
}

func (g *gateway) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

func (g *gateway) called(call string) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.calls {
		if c == call {
			n++
		}
	}
	return n
}

// times says how often a message has come.
func (g *gateway) times(id string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.heard[id]
}

// hangUp closes the websocket.
func (g *gateway) hangUp(code websocket.StatusCode, why string) {
	g.mu.Lock()
	ws := g.ws
	g.mu.Unlock()
	_ = ws.Close(code, why)
}

// started is a bridge that runs.
type started struct {
	*testing.T
	file string
	key  *wire.Key
	c    wire.Connection
	stop context.CancelFunc
	done chan error
}

// startBridge starts one for a connection file, a new one where none is given.
func startBridge(t *testing.T, g *gateway, file string, more func(*Config)) *started {
	s := &started{T: t, file: file, done: make(chan error, 1)}
	if file == "" {
		s.file = filepath.Join(filepath.Dir(g.path), "kernel-1.json")
		s.c = wire.Connection{Transport: "ipc", IP: filepath.Join(filepath.Dir(g.path), "ipc"), Scheme: "hmac-sha256", Key: "key", Shell: 1, IOPub: 2, Stdin: 3, Control: 4, Heartbeat: 5}
		b, _ := json.Marshal(s.c)
		if err := os.WriteFile(s.file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if s.c, err = readConnection(s.file); err != nil {
		t.Fatal(err)
	}
	s.key = wire.NewKey([]byte(s.c.Key))
	cfg := Config{File: s.file, Spec: "gpu", Language: "python", Socket: g.path, Dir: "/home/alice/analysis", Logger: slog.New(slog.DiscardHandler)}
	if more != nil {
		more(&cfg)
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	go func() { s.done <- Run(ctx, cfg) }()
	t.Cleanup(func() {
		s.stop()
		s.over()
	})
	return s
}

// over waits for its end.
func (s *started) over() {
	s.Helper()
	select {
	case err := <-s.done:
		if err != nil {
			s.Error(err)
		}
		s.done <- nil
	case <-time.After(long):
		s.Error("it does not end")
	}
}

// client is one of its clients.
type client struct {
	*started
	identity string
	sockets  map[wire.Channel]*zmtp.Socket
	got      chan wire.Message
	kept     []wire.Message // that have come and were not looked for yet
}

func (s *started) join(identity string) *client {
	s.Helper()
	c := &client{started: s, identity: identity, sockets: map[wire.Channel]*zmtp.Socket{}, got: make(chan wire.Message, 1000)}
	for channel, kind := range map[wire.Channel]string{wire.Shell: "DEALER", wire.Control: "DEALER", wire.Stdin: "DEALER", wire.IOPub: "SUB"} {
		socket := s.connect(s.c.Port(channel), kind, identity)
		c.sockets[channel] = socket
		go func() {
			for {
				frames, err := socket.Receive()
				if err != nil {
					return
				}
				m, err := wire.NewKey([]byte(s.c.Key)).Parse(channel, frames)
				if err != nil {
					s.Errorf("%s: %v", channel, err)
				}
				c.got <- m
			}
		}()
	}
	if err := c.sockets[wire.IOPub].Send([][]byte{{1}}); err != nil {
		s.Fatal(err)
	}
	c.until("iopub_welcome", "")
	return c
}

func (s *started) connect(port int, kind, identity string) *zmtp.Socket {
	s.Helper()
	var conn net.Conn
	testenv.Until(s.T, "the bridge listens", long, func() (ok bool) {
		var err error
		conn, err = net.Dial("unix", s.c.IP+"-"+strconv.Itoa(port))
		return err == nil
	})
	socket, err := zmtp.Open(s.Context(), conn, kind, []byte(identity))
	if err != nil {
		s.Fatal(err)
	}
	go socket.Write()
	s.Cleanup(socket.Close)
	return socket
}

// ask sends a request and gives its id.
func (c *client) ask(channel wire.Channel, kind string, content any, buffers ...[]byte) string {
	c.Helper()
	m, err := wire.New(channel, kind, nil, content)
	if err == nil {
		m.Buffers = buffers
		err = c.sockets[channel].Send(c.key.Frames(m))
	}
	if err != nil {
		c.Fatal(err)
	}
	return m.ID()
}

func (c *client) cell(code string) string {
	return c.ask(wire.Shell, "execute_request", map[string]string{"code": code})
}

// until returns the next message of a kind about a request.
func (c *client) until(kind, request string) wire.Message {
	c.Helper()
	return c.find(kind+" of "+request, func(m wire.Message) bool { return m.Type() == kind && m.ParentID() == request })
}

// find returns the first message that is what is looked for, of those that have come and were not found yet: channels
// keep no order among each other.
func (c *client) find(what string, is func(wire.Message) bool) wire.Message {
	c.Helper()
	if i := slices.IndexFunc(c.kept, is); i >= 0 {
		m := c.kept[i]
		c.kept = slices.Delete(c.kept, i, i+1)
		return m
	}
	late := time.After(long)
	for {
		select {
		case m := <-c.got:
			if is(m) {
				return m
			}
			c.kept = append(c.kept, m)
		case <-late:
			c.Fatalf("no %s comes", what)
		}
	}
}

// words returns what a message says to people.
func words(m wire.Message) string {
	var c struct{ Text, Evalue string }
	_ = json.Unmarshal(m.Content, &c)
	return c.Text + c.Evalue
}
