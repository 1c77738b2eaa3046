package tunnel

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/internal/agent/control"
)

// writes notes the size of each write, and fails from the last one on.
type writes struct {
	all   []byte
	sizes []int
	most  int
}

func (w *writes) Write(p []byte) (int, error) {
	if w.most > 0 && len(w.sizes) == w.most {
		return 0, io.ErrClosedPipe
	}
	w.all, w.sizes = append(w.all, p...), append(w.sizes, len(p))
	return len(p), nil
}

func TestBurst(t *testing.T) {
	const piece = 4 << 10 // as the library writes
	for name, tt := range map[string]struct {
		sizes []int
		want  []int
	}{
		"nothing":                      {nil, nil},
		"a byte":                       {[]int{1}, []int{1}},
		"a header and a body":          {[]int{14, 500}, []int{514}},
		"pieces":                       {slices.Repeat([]int{piece}, 20), []int{burstSize, burstSize, 20*piece - 2*burstSize}},
		"just full":                    {slices.Repeat([]int{piece}, burstSize/piece), []int{burstSize}},
		"a large one alone":            {[]int{burstSize + 1}, []int{burstSize + 1}},
		"a large one behind a header":  {[]int{14, burstSize}, []int{burstSize, 14}},
		"a large one and what follows": {[]int{burstSize, 2}, []int{burstSize, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			to := &writes{}
			b := &burst{to: to, pool: newPool()}
			var sent []byte
			for round := range 2 {
				b.begin()
				for n, size := range tt.sizes {
					p := bytes.Repeat([]byte{byte(n + round + 1)}, size)
					sent = append(sent, p...)
					if m, err := b.Write(p); m != size || err != nil {
						t.Fatalf("%d, %v", m, err)
					}
				}
				if err := b.end(); err != nil || b.held != nil {
					t.Fatalf("%v, and a buffer is kept: %v", err, b.held != nil)
				}
			}
			if want := slices.Repeat(tt.want, 2); !bytes.Equal(to.all, sent) || !slices.Equal(to.sizes, want) {
				t.Errorf("written in %v, want %v; unchanged: %v", to.sizes, want, bytes.Equal(to.all, sent))
			}
		})
	}
}

// Outside of a burst all goes through at once, and what cannot be written is told, now or at the end.
func TestBurstFails(t *testing.T) {
	to := &writes{most: 1}
	b := &burst{to: to, pool: newPool()}
	if _, err := b.Write([]byte("pong")); err != nil || !slices.Equal(to.sizes, []int{4}) {
		t.Errorf("%v, %v", to.sizes, err)
	}
	b.begin()
	if _, err := b.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if err := b.end(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("at the end: %v", err)
	}
	b.begin()
	if _, err := b.Write(make([]byte, 2*burstSize)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("when it is full: %v", err)
	}
	if err := b.end(); err != nil || b.held != nil {
		t.Errorf("there was nothing left: %v", err)
	}
}

// piped answers a request over a pipe.
type piped struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (p piped) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return p.conn, bufio.NewReadWriter(bufio.NewReader(p.conn), bufio.NewWriter(p.conn)), nil
}

// FuzzWebsocket feeds a far link whatever comes after the handshake: it must end, and not panic.
func FuzzWebsocket(f *testing.F) {
	masked := func(kind byte, body string) string {
		return string([]byte{kind, 0x80 | byte(len(body)), 0, 0, 0, 0}) + body
	}
	f.Add([]byte(masked(0x82, hello) + masked(0x82, string(frame(1, 1, 1, 0))) + masked(0x82, "s")))
	f.Add([]byte(masked(0x02, hello[:4]) + masked(0x89, "ping") + masked(0x80, hello[4:]) + masked(0x88, "\x03\xe8")))
	f.Add([]byte(masked(0x82, hello) + "\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x01\x02\x03\x04"))
	f.Fuzz(func(t *testing.T, b []byte) {
		near, peer := net.Pipe()
		l := New(Config{Logger: slog.New(slog.DiscardHandler)})
		if err := l.Expect("s-x"); err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, "/link", nil)
		for k, v := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="} {
			r.Header.Set(k, v)
		}
		var work sync.WaitGroup
		work.Go(func() { _, _ = io.Copy(io.Discard, peer) })
		work.Go(func() { _ = l.Upgrade(piped{httptest.NewRecorder(), near}, r, "s-x") })
		_, _ = peer.Write(b)
		_ = peer.Close()
		work.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = l.Run(ctx)
	})
}

// TestCredentialStaysOnItsWay: an agent shows its credential to the address that it was given, not to where that
// points.
func TestCredentialStaysOnItsWay(t *testing.T) {
	shown := make(chan string, 4)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { shown <- r.Header.Get("Authorization") }))
	t.Cleanup(elsewhere.Close)
	here := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	t.Cleanup(here.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := NewDialer().Dial(ctx, control.Uplink{URL: strings.Replace(here.URL, "http", "ws", 1), Token: token})
	if err == nil || len(shown) > 0 {
		t.Errorf("%v; it was shown %d times", err, len(shown))
	}
}
