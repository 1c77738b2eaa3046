package kernelproxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/coder/websocket"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/kernels/wire"
)

const askTime = 10 * time.Second

// service is the gateway to kernels, as this session's agent has it.
type service struct {
	api  *hubapi.Client
	http *http.Client // for the websocket
	id   string       // of the kernel
	log  *slog.Logger
}

func newService(socket, id string, log *slog.Logger) (*service, error) {
	api, err := hubapi.NewClient(hubapi.ClientConfig{Socket: socket})
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return &service{api: api, http: &http.Client{Transport: &http.Transport{DialContext: dial}}, id: id, log: log}, err
}

func (s *service) look(ctx context.Context) (hubapi.Kernel, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return s.api.Kernel(ctx, s.id)
}

// start starts the kernel. It waits for a while; asking once more is harmless.
func (s *service) start(ctx context.Context, spec, dir string) (hubapi.Kernel, error) {
	env := map[string]string{wire.IDVariable: s.id}
	// what a session's user has said of them holds for the kernels that it starts
	s.add(env, wire.HintsVariable, os.Getenv(wire.HintsVariable))
	s.add(env, wire.DirVariable, dir)
	return s.api.StartKernel(ctx, hubapi.KernelRequest{Name: spec, Env: env, Tied: true})
}

// add has the kernel know a variable, if the gateway takes it: what it does not would have it refuse the kernel.
func (s *service) add(env map[string]string, name, value string) {
	switch {
	case value == "":
	case wire.PlainValue(value):
		env[name] = value
	default:
		s.log.Warn("the kernel is not told what this variable says: it has a dollar sign, a backtick or a line end, or is too long", "name", name)
	}
}

func (s *service) interrupt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return s.api.InterruptKernel(ctx, s.id)
}

func (s *service) restart(ctx context.Context) (hubapi.Kernel, error) {
	return s.api.RestartKernel(ctx, s.id)
}

// remove ends the kernel. That there is none is as good.
func (s *service) remove(ctx context.Context) error {
	if err := s.api.StopKernel(ctx, s.id); !errs.Is(err, errs.NotFound) || hubapi.NotReached(err) {
		return err
	}
	return nil
}

// dial opens the websocket. The first time what is kept of an earlier process is not asked for; after that, all that
// was missed is.
func (s *service) dial(ctx context.Context, first bool) (*websocket.Conn, error) {
	q := url.Values{"session_id": {"bridge"}, "once": {"1"}}
	if first {
		q.Set("fresh", "1")
	}
	ws, res, err := websocket.Dial(ctx, "http://slipway"+hubapi.GatewayBase+"/kernels/"+s.id+"/channels?"+
		q.Encode(), &websocket.DialOptions{
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
