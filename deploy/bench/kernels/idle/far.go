package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/coder/websocket"

	"slipway/internal/tunnel"
	"slipway/kernels/wire"
)

// orders are what the other process is told, on its standard input; when that ends it ends.
type orders struct {
	URL     string            // of the kernels
	Sockets map[string]string // of the agents' links, by workload
	Kernels []string          // for the clients
}

const patience = time.Minute

// players are the other process.
type players struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// play begins the other process, and waits until all agents have their links.
func (s *service) play(ctx context.Context) (*players, error) {
	p := &players{cmd: exec.Command("/proc/self/exe", far)}
	p.cmd.Stderr = os.Stderr
	in, ierr := p.cmd.StdinPipe()
	out, oerr := p.cmd.StdoutPipe()
	if err := errors.Join(ierr, oerr); err != nil {
		return nil, err
	}
	p.in, p.out = in, bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	err := json.NewEncoder(in).Encode(orders{s.url, s.sockets, s.kernels})
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for id := range s.sockets {
		if err == nil {
			err = s.links.Wait(ctx, id)
		}
	}
	if err != nil {
		p.close()
	}
	return p, err
}

// connect has it open the websockets.
func (p *players) connect() error {
	if _, err := fmt.Fprintln(p.in); err != nil {
		return err
	}
	_, err := p.out.ReadString('\n')
	return err
}

func (p *players) close() {
	_ = p.in.Close()
	_ = p.cmd.Wait()
}

// runFar plays the agents, and then the clients.
func runFar(ctx context.Context) error {
	in := bufio.NewReader(os.Stdin)
	text, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var o orders
	if err := json.Unmarshal(text, &o); err != nil {
		return err
	}
	for _, socket := range o.Sockets {
		u := tunnel.NewUplink(tunnel.UplinkConfig{
			Dial:   func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "unix", socket) },
			Doors:  map[tunnel.Door]func(context.Context, net.Conn){tunnel.DoorKernel: kernel},
			Logger: slog.New(slog.DiscardHandler),
		})
		go func() { _ = u.Run(ctx) }()
	}
	if _, err := in.ReadBytes('\n'); err != nil {
		return err
	}
	for _, id := range o.Kernels {
		ws, err := client(ctx, o.URL+"/api/kernels/"+id+"/channels?session_id="+id)
		if err != nil {
			return err
		}
		defer ws.CloseNow()
	}
	fmt.Println("connected")
	_, err = io.Copy(io.Discard, in)
	return err
}

// kernel answers each request of a client as a kernel does that has nothing to do.
func kernel(_ context.Context, c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	if _, err := wire.ReadHello(r); err != nil || wire.WriteWelcome(c, wire.Welcome{State: "idle"}) != nil {
		return
	}
	for seq := uint64(0); ; {
		up, err := wire.ReadUp(r)
		if err != nil {
			return
		}
		m, err := wire.DecodeV1(up.Message)
		if err != nil {
			continue // an acknowledgement
		}
		for _, say := range []struct{ channel, kind, content string }{
			{"iopub", "status", `{"execution_state":"busy"}`}, {"shell", "kernel_info_reply", `{"status":"ok"}`},
			{"iopub", "status", `{"execution_state":"idle"}`},
		} {
			answer, err := wire.New(wire.Channel(say.channel), say.kind, m.Header, json.RawMessage(say.content))
			if seq++; err != nil || wire.WriteDown(c, seq, wire.EncodeV1(answer)) != nil {
				return
			}
		}
	}
}

const question = `{"channel":"shell","header":{"msg_id":"1","msg_type":"kernel_info_request","session":"s","username":"","version":"5.3",` +
	`"date":"2026-01-01T00:00:00Z"},"parent_header":{},"metadata":{},"content":{},"buffers":[]}`

// client opens a websocket and takes the answers to one question. Then it answers pings.
func client(ctx context.Context, url string) (*websocket.Conn, error) {
	open, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ws, _, err := websocket.Dial(
		open, url, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"token " + token}}},
	)
	if err != nil {
		return nil, err
	}
	if err := ws.Write(open, websocket.MessageText, []byte(question)); err != nil {
		return nil, err
	}
	for range 3 {
		if _, _, err := ws.Read(open); err != nil {
			return nil, err
		}
	}
	ws.CloseRead(ctx)
	return ws, nil
}
