package kernels_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"slipway/internal/testenv"
	"slipway/kernels"
	"slipway/kernels/wire"
	"slipway/spawner"
)

const long = testenv.Hang

// browser is a client's websocket.
type browser struct {
	*testing.T
	*websocket.Conn
	codec wire.Codec
	inbox chan heard // nil: it reads when it is asked
}

type heard struct {
	m   wire.Message
	err error
}

// read has it read on by itself, as a browser does: only so pings are answered.
func (b *browser) read() {
	b.inbox = make(chan heard, 1000)
	go func() {
		for {
			m, err := b.receive(b.Context())
			b.inbox <- heard{m, err}
			if err != nil {
				return
			}
		}
	}()
}

func (s *site) open(id, session string, protocols ...string) *browser {
	s.Helper()
	return s.openAs(http.Header{}, id, session, protocols...)
}

func (s *site) openAs(header http.Header, id, session string, protocols ...string) *browser {
	s.Helper()
	header.Set("Authorization", "token alice")
	ctx, cancel := context.WithTimeout(s.Context(), long)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, s.url+"/api/kernels/"+id+"/channels?session_id="+session, &websocket.DialOptions{
		HTTPHeader: header, Subprotocols: protocols, HTTPClient: s.http,
	})
	if err != nil {
		s.Fatal(err)
	}
	ws.SetReadLimit(-1)
	s.Cleanup(func() { _ = ws.CloseNow() })
	b := &browser{T: s.T, Conn: ws, codec: wire.Legacy{}}
	if ws.Subprotocol() == wire.V1Name {
		b.codec = wire.V1{}
	}
	return b
}

func (b *browser) raw(form websocket.MessageType, data []byte) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), long)
	defer cancel()
	if err := b.Write(ctx, form, data); err != nil {
		b.Fatal(err)
	}
}

func ask(text string) wire.Message {
	m, err := wire.New(wire.Shell, "execute_request", nil, map[string]string{"code": text})
	if err != nil {
		panic(err)
	}
	return m
}

func (b *browser) say(m wire.Message) {
	b.Helper()
	binary, data, err := b.codec.Encode(m)
	if err != nil {
		b.Fatal(err)
	}
	form := websocket.MessageText
	if binary {
		form = websocket.MessageBinary
	}
	b.raw(form, data)
}

func (b *browser) next() (wire.Message, error) {
	if b.inbox == nil {
		ctx, cancel := context.WithTimeout(b.Context(), long)
		defer cancel()
		return b.receive(ctx)
	}
	h := <-b.inbox
	return h.m, h.err
}

func (b *browser) receive(ctx context.Context) (wire.Message, error) {
	form, data, err := b.Read(ctx)
	if err != nil {
		return wire.Message{}, err
	}
	return b.codec.Decode(form == websocket.MessageBinary, data)
}

// code reads the next message and gives what its request was.
func (b *browser) code() string {
	b.Helper()
	m, err := b.next()
	if err != nil {
		b.Fatal(err)
	}
	var c struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal(m.Content, &c); err != nil {
		b.Fatal(err)
	}
	return c.Code
}

func (b *browser) hears(want ...string) {
	b.Helper()
	for _, w := range want {
		if got := b.code(); got != w {
			b.Fatalf("hears %.60q, want %q", got, w)
		}
	}
}

func TestBothFramings(t *testing.T) {
	for _, protocols := range [][]string{nil, {wire.V1Name}, {"other"}} {
		t.Run(strings.Join(protocols, ","), func(t *testing.T) {
			s := newSite(t, nil)
			b := s.open(s.start(), "one", protocols...)
			if want := len(protocols) > 0 && protocols[0] == wire.V1Name; (b.Subprotocol() == wire.V1Name) != want {
				t.Fatalf("the protocol is %q", b.Subprotocol())
			}
			m := ask("6*7 </script> \u2603")
			b.say(m)
			got, err := b.next()
			if err != nil || got.Channel != wire.IOPub || got.ParentID() != m.ID() || !strings.Contains(string(got.Content), "6*7") {
				t.Errorf("%+v, %v", got, err)
			}
			m.Buffers = [][]byte{{0, 1, 2}, nil, []byte("x")}
			b.say(m)
			if got, err = b.next(); err != nil || len(got.Buffers) != 3 || string(got.Buffers[0]) != "\x00\x01\x02" {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestOddMessages(t *testing.T) {
	s := newSite(t, nil)
	b := s.open(s.start(), "one")
	b.raw(websocket.MessageText, []byte(`{"channel": "hb", "header": {}, "parent_header": {}, "metadata": {}, "content": {}}`))
	b.raw(websocket.MessageText, []byte(`{"channel": "iopub", "header": {}, "parent_header": {}, "metadata": {}, "content": {}}`))
	b.raw(websocket.MessageText, []byte(`{"header": {"msg_id": "1", "msg_type": "execute_request", "date": 1700000000.5}, "parent_header": {}, "metadata": {}, "content": {"code": "after"}}`))
	b.hears("after")
	for _, bad := range []string{"{", "[]", `{"header": 1}`, `{"channel": "shell"}`} {
		b := s.open(s.start(), "one")
		b.raw(websocket.MessageText, []byte(bad))
		if _, err := b.next(); websocket.CloseStatus(err) != websocket.StatusInvalidFramePayloadData {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if got := s.as("alice", "GET", "/api/kernels/"+s.start()+"/channels?session_id="+strings.Repeat("x", 300), "").status; got != 400 {
		t.Errorf("a long name: %d", got)
	}
}

// A frame says that more is coming than anybody may send: it is refused before it is there.
func TestGiantFrame(t *testing.T) {
	s := newSite(t, func(c *kernels.Config) { c.Message = 1 << 20 })
	id := s.start()
	c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/kernels"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /kernels/api/kernels/%s/channels HTTP/1.1\r\nHost: x\r\nAuthorization: token alice\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", id)
	frame := []byte{0x82, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4}
	if _, err := c.Write(append(frame, make([]byte, 1<<16)...)); err != nil {
		t.Fatal(err)
	}
	go func() { // the rest, until nobody takes it
		for {
			if _, err := c.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}()
	_ = c.SetReadDeadline(time.Now().Add(long))
	for buf := make([]byte, 4096); ; {
		if _, err := c.Read(buf); err != nil {
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				t.Error("it is taken")
			}
			return
		}
	}
}

// TestForsakenWebsocket: a Jupyter Server leaves the websocket open that its page has closed at once to open another.
// Served after the other one, it does not take its place.
func TestForsakenWebsocket(t *testing.T) {
	s := newSite(t, nil)
	id := s.start()
	forsaken, err := net.Dial("tcp", s.address())
	if err != nil {
		t.Fatal(err)
	}
	defer forsaken.Close()
	fmt.Fprintf(forsaken, "GET /kernels/api/kernels/%s/channels?session_id=one HTTP/1.1\r\nHost: x\r\n", id) // its connection is made
	b := s.open(id, "one")
	b.say(ask("first"))
	b.hears("first")
	fmt.Fprint(forsaken, "Authorization: token alice\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	_ = forsaken.SetReadDeadline(time.Now().Add(long))
	if _, err := io.ReadAll(forsaken); err != nil {
		t.Errorf("it is not closed: %v", err)
	}
	b.say(ask("second"))
	b.hears("second")
}

func TestHundredReconnects(t *testing.T) {
	s := newSite(t, nil)
	id := s.start()
	for i := range 100 {
		b := s.open(id, "one")
		want := fmt.Sprint(i)
		b.say(ask(want))
		for b.code() != want { // what it has not acknowledged comes again
		}
		_ = b.CloseNow()
	}
	if got := s.as("alice", "GET", "/api/kernels/"+id, "").status; got != 200 {
		t.Errorf("after that: %d", got)
	}
}

func (s *site) until(what string, is func() bool) {
	s.Helper()
	testenv.Until(s, what, long, is)
}

// What was written before a ping that the client has answered it surely has, and nothing else.
func TestReplay(t *testing.T) {
	s := newSite(t, nil)
	id := s.start()
	a := s.agent("s-" + spawner.ID(id))
	acked := func() uint64 { a.mu.Lock(); defer a.mu.Unlock(); return a.acked["one"] }
	b := s.open(id, "one")
	b.say(ask("1"))
	b.say(ask("2"))
	b.hears("1", "2")
	reading := b.CloseRead(t.Context()) // it answers pings
	s.until("both are acknowledged", func() bool { return acked() == 2 })
	_ = b.CloseNow()
	<-reading.Done()
	a.mu.Lock()
	m := ask("missed")
	a.journals["one"] = append(a.journals["one"], wire.EncodeV1(m))
	a.mu.Unlock()
	b = s.open(id, "one")
	b.hears("missed")
	other := s.open(id, "two")
	other.say(ask("alone"))
	other.hears("alone")
}

// What a client has does not lie with the agent until the next look whether the client is there.
func TestAcknowledgedSoonAfterABurst(t *testing.T) {
	s := newSite(t, nil)
	id := s.start()
	a := s.agent("s-" + spawner.ID(id))
	b := s.open(id, "one")
	for i := range 100 {
		b.say(ask(fmt.Sprint(i)))
	}
	for i := range 100 {
		b.hears(fmt.Sprint(i))
	}
	b.CloseRead(t.Context()) // it answers pings
	s.until("all are acknowledged", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.acked["one"] == 100 })
}

// The kernel comes again elsewhere: its agent's word tells of which cell the client was.
func TestCellIsKnownAfterAReconnect(t *testing.T) {
	s := newSite(t, nil)
	id := s.start()
	a := s.agent("s-" + spawner.ID(id))
	a.mu.Lock()
	a.cell = json.RawMessage(`{"msg_id": "before"}`)
	a.mu.Unlock()
	b := s.open(id, "one")
	b.say(ask("1"))
	b.hears("1")
	s.become(func(w *spawner.Workload) { w.Phase, w.Want = spawner.Stopped, spawner.WantStopped })
	a.is((*agent).leave)
	if m, err := b.next(); err != nil || m.Type() != "stream" || m.ParentID() != "before" {
		t.Errorf("%+v, %v", m, err)
	}
}

// The service was restarted while a cell ran, and then its kernel ends: the agent's word tells which cells are to be
// answered.
func TestCellsAreAnsweredAfterARestart(t *testing.T) {
	s := newSite(t, nil)
	id := s.start()
	before, cell := ask("before"), ask("1")
	s.agent("s-" + spawner.ID(id)).is(func(a *agent) { a.asked = []wire.Asked{{Channel: wire.Shell, Header: before.Header}} })
	b := s.open(id, "one")
	info, err := wire.New(wire.Shell, "kernel_info_request", nil, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	b.say(info) // the agent says it again: its word has come
	b.hears("")
	b.say(cell)
	b.hears("1")
	s.become(func(w *spawner.Workload) { w.Phase, w.Want = spawner.Stopped, spawner.WantStopped })
	s.agent("s-" + spawner.ID(id)).is((*agent).leave)
	if m, err := b.next(); err != nil || m.Type() != "stream" {
		t.Errorf("%+v, %v", m, err)
	}
	b.isRefused(before, "has ended")
	b.isRefused(cell, "has ended")
}

// A client that answers no pings is not there.
func TestHalfOpen(t *testing.T) {
	s := newSite(t, func(c *kernels.Config) { c.Ping = ping })
	id := s.start()
	c := s.plain(id)
	_ = c.SetReadDeadline(time.Now().Add(long))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("its websocket is open")
	}
}

// A websocket is held while the kernel waits for its slice, and what is said meanwhile is not lost.
func TestHeldWhileItStarts(t *testing.T) {
	s := newSite(t, nil)
	s.slow = true
	b := s.open(s.start(), "one")
	if m, err := b.next(); err != nil || m.Type() != "status" || !strings.Contains(string(m.Content), "starting") {
		t.Fatalf("%+v, %v", m, err)
	}
	b.say(ask("early"))
	s.become(func(w *spawner.Workload) { w.Phase = spawner.Running })
	b.hears("early")
}

func TestKernelThatEnds(t *testing.T) {
	s := newSite(t, nil)
	id := s.start()
	b := s.open(id, "one")
	first := ask("1")
	b.say(first)
	b.hears("1")
	cell, err := wire.New(wire.Shell, "execute_input", nil, struct{}{}) // the agent says it again
	if err != nil {
		t.Fatal(err)
	}
	b.say(cell)
	b.hears("")
	s.become(func(w *spawner.Workload) {
		w.Phase, w.Want, w.Outcome = spawner.Stopped, spawner.WantStopped, &spawner.Outcome{Failed: true, Reason: "out of memory"}
	})
	s.agent("s-" + spawner.ID(id)).is((*agent).leave)
	if m, err := b.next(); err != nil || m.Type() != "stream" || !strings.Contains(string(m.Content), "out of memory") || m.ParentID() != cell.ID() {
		t.Errorf("%+v, %v", m, err)
	}
	b.isRefused(first, "has ended")
	if m, err := b.next(); err != nil || m.Type() != "status" || !strings.Contains(string(m.Content), "dead") {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := b.next(); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Error(err)
	}
	for range 2 { // who comes again is told that it is dead, and not once more why
		b = s.open(id, "one")
		if m, err := b.next(); err != nil || m.Type() != "status" || !strings.Contains(string(m.Content), "dead") {
			t.Errorf("%s %s, %v", m.Type(), m.Content, err)
		}
	}
	if m, err := s.open(id, "other").next(); err != nil || !strings.Contains(string(m.Content), "out of memory") {
		t.Errorf("another client is told %s, %v", m.Content, err)
	}
}

// A client has lost its websocket when its kernel ends: when it comes again its cells are answered.
func TestKernelEndsWhileItsClientIsAway(t *testing.T) {
	inBubble(t, func(s *site, a *agent, b *browser) {
		cell, done := ask("1"), ask("2")
		b.say(cell)
		b.untilCode("1")
		b.say(done)
		b.untilCode("2")
		a.mu.Lock()
		a.journals["one"] = append(a.journals["one"], wire.EncodeV1(replyTo(done)))
		a.mu.Unlock()
		b.say(ask("3")) // behind which the agent says that
		b.untilCode("3")
		_ = b.CloseNow()
		synctest.Wait()
		s.become(func(w *spawner.Workload) { w.Phase, w.Want = spawner.Stopped, spawner.WantStopped })
		a.is((*agent).leave)
		again := s.open(s.work[0].Kernel, "one")
		again.read()
		if m, err := again.next(); err != nil || m.Type() != "stream" {
			t.Errorf("%s %s, %v", m.Type(), m.Content, err)
		}
		again.isRefused(cell, "has ended")
	})
}

func replyTo(cell wire.Message) wire.Message {
	m, err := wire.New(wire.Shell, "execute_reply", cell.Header, map[string]string{"status": "ok"})
	if err != nil {
		panic(err)
	}
	return m
}

func TestLargeOutput(t *testing.T) {
	s := newSite(t, nil)
	id := s.start()
	text := strings.Repeat("0123456789", 1_150_000)
	m, err := wire.New(wire.IOPub, "stream", nil, map[string]string{"name": "stdout", "text": text})
	if err != nil {
		t.Fatal(err)
	}
	a := s.agent("s-" + spawner.ID(id))
	a.mu.Lock()
	a.journals["one"], a.journals["two"] = [][]byte{wire.EncodeV1(m)}, [][]byte{wire.EncodeV1(m)}
	a.mu.Unlock()
	old, direct := s.open(id, "one"), s.open(id, "two", wire.V1Name)
	if m, err := direct.next(); err != nil || m.Size() < len(text) {
		t.Errorf("%d bytes, %v", m.Size(), err)
	}
	got := 0
	for got < len(text) {
		ctx, cancel := context.WithTimeout(t.Context(), long)
		_, data, err := old.Read(ctx)
		cancel()
		if err != nil || len(data) > 10<<20 {
			t.Fatalf("%d bytes, %v", len(data), err)
		}
		m, err := wire.Legacy{}.Decode(false, data)
		if err != nil {
			t.Fatal(err)
		}
		var c struct{ Text string }
		_ = json.Unmarshal(m.Content, &c)
		got += len(c.Text)
	}
}

// A Jupyter Server with --gateway-url sends what is binary as text, and cannot read what is.
func TestBinaryThroughAJupyterServer(t *testing.T) {
	s := newSite(t, nil)
	id := s.start()
	b := s.openAs(http.Header{"User-Agent": {"Tornado/6.6"}}, id, "one")
	m := ask("figure")
	m.Buffers = [][]byte{{0xff, 0, 0x80}}
	_, data, err := wire.Legacy{}.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Write(t.Context(), websocket.MessageText, data); err != nil {
		t.Fatal(err)
	}
	if got := <-s.agent("s-" + spawner.ID(id)).heard; len(got.Buffers) != 1 || !bytes.Equal(got.Buffers[0], m.Buffers[0]) {
		t.Errorf("the kernel gets %+v", got)
	}
	b.say(m)
	for _, want := range []string{"stream", m.Type(), m.Type()} {
		if m, err := b.next(); err != nil || m.Type() != want || len(m.Buffers) > 0 {
			t.Errorf("%s: %+v, %v", want, m, err)
		}
	}
}
