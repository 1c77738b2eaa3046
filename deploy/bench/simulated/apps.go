package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"

	"slipway/spawner"
)

// apps are the apps of all sessions: one HTTP server, reached without a network. An app knows only the path that it is asked for.
type apps struct {
	version string // of JupyterHub, as its single-user servers tell it
	dialled chan net.Conn
	ended   context.Context
}

func newApps(ctx context.Context, version string) *apps {
	return &apps{version: version, dialled: make(chan net.Conn), ended: ctx}
}

// dial opens a connection to a session's app: server.Config.Dial.
func (a *apps) dial(ctx context.Context, _ spawner.ID) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case a.dialled <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-a.ended.Done():
		return nil, net.ErrClosed
	}
}

// Accept gives the next connection to any app.
func (a *apps) Accept() (net.Conn, error) {
	select {
	case c := <-a.dialled:
		return c, nil
	case <-a.ended.Done():
		return nil, net.ErrClosed
	}
}

// Close does nothing: the apps end with their context.
func (a *apps) Close() error { return nil }

// Addr names no address.
func (a *apps) Addr() net.Addr { return &net.UnixAddr{Name: "simulated", Net: "pipe"} }

// ServeHTTP answers what a Hub asks a new server for, and says to all else that there is no app.
func (a *apps) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-JupyterHub-Version", a.version)
	if strings.HasSuffix(r.URL.Path, "/api") {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintln(w, `{"version": "simulated"}`)
		return
	}
	fmt.Fprintln(w, "This session is simulated: nothing runs in it.")
}
