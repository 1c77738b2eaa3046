package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/coder/websocket"

	"slipway/internal/errs"
	"slipway/kernels/wire"
)

const (
	base        = "http://slipway/kernels/api/kernels"
	longestBody = 1 << 20
	askTime     = 10 * time.Second
	hintsEnv    = "KERNEL_SLICE_HINTS" // what a session's user has said of them holds for the kernels that it starts
)

// service is the gateway to kernels, as this session's agent has it.
type service struct {
	http *http.Client
	id   string // of the kernel
}

func newService(socket, id string) *service {
	return &service{id: id, http: &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}}}
}

// state is what the gateway says of a kernel.
type state struct {
	State    string `json:"execution_state"`
	Reason   string `json:"reason"`
	Progress string `json:"progress"`
}

func (s state) over() bool { return s.State == "dead" }

// call sends a request. What the gateway refuses is an error of a kind; that it is not reached is one of none.
func (s *service) call(ctx context.Context, method, path string, body any) (v state, err error) {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return v, err
		}
		r = bytes.NewReader(b)
	}
	q, err := http.NewRequestWithContext(ctx, method, base+path, r)
	if err != nil {
		return v, err
	}
	res, err := s.http.Do(q)
	if err != nil {
		return v, fmt.Errorf("the service is not reached: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, longestBody))
	if err != nil {
		return v, fmt.Errorf("the service is not reached: %w", err)
	}
	if res.StatusCode >= 300 {
		return v, refusal(res.StatusCode, text)
	}
	if len(text) == 0 {
		return v, nil
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return v, fmt.Errorf("what the service says of the kernel: %w", err)
	}
	return v, nil
}

// refusal is what an answer other than a success means. One that the gateway has not written comes of something between, and goes away.
func refusal(status int, text []byte) error {
	var v struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &v) != nil || v.Message == "" {
		return fmt.Errorf("the service answers with status %d", status)
	}
	kind := errs.Invalid
	switch status {
	case http.StatusNotFound:
		kind = errs.NotFound
	case http.StatusConflict:
		kind = errs.Conflict
	}
	return errs.New(kind, "%s", v.Message)
}

func (s *service) one() string { return "/" + s.id }

func (s *service) look(ctx context.Context) (state, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return s.call(ctx, http.MethodGet, s.one(), nil)
}

// start starts the kernel. It waits for a while; asking once more is harmless.
func (s *service) start(ctx context.Context, spec, dir string) (state, error) {
	env := map[string]string{"KERNEL_ID": s.id}
	if hints := os.Getenv(hintsEnv); hints != "" {
		env[hintsEnv] = hints
	}
	if dir != "" {
		env["KERNEL_WORKING_DIR"] = dir
	}
	return s.call(ctx, http.MethodPost, "", map[string]any{"name": spec, "env": env, "tied": true})
}

func (s *service) interrupt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	_, err := s.call(ctx, http.MethodPost, s.one()+"/interrupt", struct{}{})
	return err
}

func (s *service) restart(ctx context.Context) (state, error) {
	return s.call(ctx, http.MethodPost, s.one()+"/restart", struct{}{})
}

// remove ends the kernel. That there is none is as good.
func (s *service) remove(ctx context.Context) error {
	_, err := s.call(ctx, http.MethodDelete, s.one(), nil)
	if errs.Is(err, errs.NotFound) {
		return nil
	}
	return err
}

// dial opens the websocket. The first time what is kept of an earlier process is not asked for; after that, all that was missed is.
func (s *service) dial(ctx context.Context, first bool) (*websocket.Conn, error) {
	q := url.Values{"session_id": {"bridge"}, "once": {"1"}}
	if first {
		q.Set("fresh", "1")
	}
	ws, res, err := websocket.Dial(ctx, base+s.one()+"/channels?"+q.Encode(), &websocket.DialOptions{
		HTTPClient: s.http, Subprotocols: []string{wire.V1Name}, CompressionMode: websocket.CompressionDisabled,
	})
	if res != nil && res.StatusCode == http.StatusNotFound {
		return nil, errs.New(errs.NotFound, "the kernel has ended")
	}
	if err != nil {
		return nil, fmt.Errorf("the kernel is not reached: %w", err)
	}
	if ws.Subprotocol() != wire.V1Name {
		return nil, errors.Join(errors.New("the service does not speak "+wire.V1Name), ws.CloseNow())
	}
	ws.SetReadLimit(wire.Limit + 1<<20)
	return ws, nil
}
