package web

import (
	"context"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"slipway/kernels"
	"slipway/spawner"
)

// lines are the connections of a listener. Where there are too many, the one goes that has waited longest for a
// request.
type connLimit struct {
	most int

	mu   sync.Mutex
	idle map[net.Conn]time.Time // since when
	busy int
}

func newConnLimit(most int) *connLimit { return &connLimit{most: most, idle: map[net.Conn]time.Time{}} }

// note follows a connection, as http.Server.ConnState.
func (l *connLimit) note(c net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, idle := l.idle[c]
	delete(l.idle, c)
	switch {
	case state == http.StateNew:
		l.roomLocked()
		l.idle[c] = time.Now()
		if l.busy+len(l.idle) > l.most {
			_ = c.Close()
		}
	case state == http.StateActive && idle:
		l.busy++
	case state == http.StateIdle:
		if !idle {
			l.busy--
		}
		l.idle[c] = time.Now()
	case !idle && state != http.StateActive:
		l.busy--
	}
}

// roomLocked closes the connection that has been idle for longest, if there is no room for one more.
func (l *connLimit) roomLocked() {
	if l.busy+len(l.idle) < l.most {
		return
	}
	var oldest net.Conn
	for c, since := range l.idle {
		if oldest == nil || since.Before(l.idle[oldest]) {
			oldest = c
		}
	}
	if oldest != nil {
		_ = oldest.Close()
	}
}

func (s *Core) HTTPServer(base context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 128 << 10,
		BaseContext: func(net.Listener) context.Context { return base },
		ConnContext: ConnContext, ConnState: newConnLimit(connections).note,
		ErrorLog: log.New(errorLog{s.outside}, "", 0),
	}
}

// errorLog writes what net/http has to say of connections into the log, all under one message: strangers cause most of
// it, by handshakes that fail.
type errorLog struct{ log *slog.Logger }

// Write logs one line.
func (l errorLog) Write(line []byte) (int, error) {
	l.log.Debug("http connection", "error", strings.TrimSpace(string(line)))
	return len(line), nil
}

type workloadKey struct{}

// ConnContext keeps when a connection was made, and the workload's id of one that came through an agent, for
// http.Server.ConnContext.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	ctx = kernels.Accepted(ctx)
	if w, ok := c.(interface{ WorkloadID() string }); ok {
		return context.WithValue(ctx, workloadKey{}, spawner.ID(w.WorkloadID()))
	}
	return ctx
}

// workloadOf returns the workload through whose agent a request came.
func workloadOf(ctx context.Context) spawner.ID {
	id, _ := ctx.Value(workloadKey{}).(spawner.ID)
	return id
}
