// Package bridge is a program that stands in for a Jupyter kernel in a session: for its clients it is a kernel of that machine, with sockets
// and a connection file, and what they say and are told it carries to a kernel that the service runs on a slice, and back.
//
// Promises: a slice is leased while the kernel lives and no longer; a restart by Jupyter keeps it; while the service is away nothing is lost and
// nothing runs twice; what keeps the kernel from running is said in the notebook, with what to do, and not by a process that dies again
// and again.
// The package must not know how a kernel is started, nor who may have one.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/kernels/wire"
)

// Config is what a bridge needs.
type Config struct {
	File     string // the connection file that Jupyter has written
	Spec     string // the kernelspec's name at the service
	Language string // its language
	Socket   string // by which the service is reached
	Dir      string // where the kernel is to run, if it is there
	// Gone is closed when whoever started the bridge is no more. Nil: it may outlive them.
	Gone      <-chan struct{}
	Interrupt <-chan os.Signal // each one interrupts the kernel
	Logger    *slog.Logger
}

const (
	lookEvery  = time.Second      // at a kernel that is not up yet
	answerTime = 30 * time.Second // after that clients that ask what kernel it is are answered, though it is not there
	endingTime = time.Minute      // for a kernel before to be gone
	crossTime  = 300 * time.Millisecond
	endTime    = 4 * time.Second // for the last words with the service: Jupyter kills what takes longer
)

// Run is the bridge. It returns when its clients have shut the kernel down, when whoever started it is gone, or when ctx ends.
func Run(ctx context.Context, cfg Config) error {
	conn, err := readConnection(cfg.File)
	if err != nil {
		return err
	}
	id, err := kernelID(cfg.File, conn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &bridge{cfg: cfg, service: newService(cfg.Socket, id), mark: filepath.Join(filepath.Dir(cfg.Socket), "restart-"+id), born: time.Now(), ended: make(chan bool, 1), up: make(chan struct{}, 1)}
	b.clients = &clients{key: wire.NewKey([]byte(conn.Key)), kernel: id, log: cfg.Logger, take: b.take, peers: map[wire.Channel]map[string]*peer{}}
	b.ctx = ctx
	defer b.clients.work.Wait()
	defer cancel()
	if err := b.listen(ctx, conn); err != nil {
		return err
	}
	b.clients.work.Go(func() { b.serve(ctx) })
	b.clients.work.Go(func() { b.heed(ctx) })
	return b.end(b.await(ctx))
}

// bridge is one kernel as its clients see it.
type bridge struct {
	cfg     Config
	service *service
	clients *clients
	mark    string // a file that says to the next process that Jupyter wants the kernel to begin anew
	born    time.Time
	ctx     context.Context

	ended chan bool     // the clients have shut it down; true: to start it again
	up    chan struct{} // holds one thing while there may be something to send

	mu      sync.Mutex
	asked   requests // of the clients
	running bool     // the kernel is there
	over    string   // why there is none, and will not be; empty: there is or may be
	said    string   // of the progress
	shows   *request // where that was said; nil: nowhere
	told    *request // where something was told that is to be taken away again
	late    bool     // clients have waited long
}

func (b *bridge) listen(ctx context.Context, c connection) error {
	open := func(what string, port int, serve func(context.Context, net.Conn)) error {
		l, err := c.listen(ctx, port)
		if err != nil {
			return fmt.Errorf("listen on the kernel's port %s: %w", what, err)
		}
		b.clients.work.Go(func() { b.clients.accept(ctx, l, serve) })
		return nil
	}
	err := open("hb", c.Heartbeat, b.clients.echo)
	for _, channel := range []wire.Channel{wire.Shell, wire.Control, wire.Stdin, wire.IOPub} {
		b.clients.peers[channel] = map[string]*peer{}
		err = errors.Join(err, open(string(channel), c.port(channel), b.clients.serve(channel)))
	}
	return err
}

// await waits for the end, and says whether the kernel is to be started again.
func (b *bridge) await(ctx context.Context) (again bool) {
	select {
	case again = <-b.ended:
	case <-b.cfg.Gone:
	case <-ctx.Done():
	}
	return again
}

// end leaves the kernel to the next process, or ends it.
func (b *bridge) end(again bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), endTime)
	defer cancel()
	if again {
		return os.WriteFile(b.mark, nil, 0o600)
	}
	b.mu.Lock()
	running := b.running
	b.mu.Unlock()
	err := b.service.remove(ctx)
	if err == nil && !running && pause(ctx, crossTime) {
		err = b.service.remove(ctx) // the wish for it may have come behind that for its end
	}
	if err != nil {
		b.cfg.Logger.Warn("the kernel could not be ended; the service ends it when nobody has come for it in some minutes", "error", err)
	}
	return nil
}

// heed passes signals on.
func (b *bridge) heed(ctx context.Context) {
	for {
		select {
		case <-b.cfg.Interrupt:
			_ = b.interrupt(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// serve gets a kernel and carries messages until it has ended, or ctx has.
func (b *bridge) serve(ctx context.Context) {
	b.publish(nil, "status", map[string]string{"execution_state": "starting"})
	late := time.AfterFunc(answerTime, b.introduce)
	defer late.Stop()
	err := b.obtain(ctx)
	if err == nil {
		err = b.carry(ctx)
	}
	if ctx.Err() == nil {
		b.cfg.Logger.Info("there is no kernel any more", "error", err)
		b.fail(errs.Brief(err))
	}
}

// obtain finds the kernel of an earlier process, or starts one, and waits until it is there.
func (b *bridge) obtain(ctx context.Context) error {
	_, no := os.Stat(b.mark)
	anew := no == nil
	_ = os.Remove(b.mark)
	now, err := b.found(ctx)
	if err != nil && !errs.Is(err, errs.NotFound) {
		return err
	}
	if err != nil {
		now, err = b.begin(ctx)
	} else if anew && now.State != "starting" {
		now, err = b.anew(ctx)
	}
	for err == nil && now.State == "starting" {
		b.progress(now.Progress)
		if !pause(ctx, lookEvery) {
			return ctx.Err()
		}
		now, err = insist(ctx, b.service.look)
	}
	switch {
	case errs.Is(err, errs.NotFound):
		return errs.New(errs.NotFound, "the kernel was shut down before it was there")
	case err == nil && now.over():
		return errors.New(now.Reason)
	}
	return err
}

// found gives the kernel that an earlier process has left, alive; NotFound: there is none.
func (b *bridge) found(ctx context.Context) (state, error) {
	now, err := insist(ctx, b.service.look)
	if err != nil || !now.over() {
		return now, err
	}
	if _, err := insist(ctx, func(ctx context.Context) (state, error) { return state{}, b.service.remove(ctx) }); err != nil {
		return now, err
	}
	return now, errs.New(errs.NotFound, "the kernel before has ended")
}

// begin starts the kernel, and says meanwhile how it goes on. One that has just been removed may still be on its way out.
func (b *bridge) begin(ctx context.Context) (state, error) {
	watching, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	work.Go(func() { b.watch(watching) })
	dir := b.cfg.Dir
	if strings.ContainsAny(dir, "$`\n\r\x00") { // the gateway takes no such values
		dir = ""
	}
	for patience := time.After(endingTime); ; {
		now, err := insist(ctx, func(ctx context.Context) (state, error) { return b.service.start(ctx, b.cfg.Spec, dir) })
		if !errs.Is(err, errs.Conflict) {
			return now, err
		}
		select {
		case <-patience:
			return now, err
		case <-ctx.Done():
			return now, ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}

func (b *bridge) watch(ctx context.Context) {
	for pause(ctx, lookEvery) {
		if now, err := b.service.look(ctx); err == nil && now.State == "starting" {
			b.progress(now.Progress)
		}
	}
}

// anew has the kernel of an earlier process begin anew.
func (b *bridge) anew(ctx context.Context) (state, error) {
	now, err := insist(ctx, b.service.restart)
	if errs.Is(err, errs.Conflict) { // it has ended meanwhile, or is not up yet
		return b.service.look(ctx)
	}
	return now, err
}

// insist repeats what fails because the service is not reached.
func insist(ctx context.Context, do func(context.Context) (state, error)) (state, error) {
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		v, err := do(ctx)
		if err == nil || errs.KindOf(err) != errs.Internal || !pause(ctx, wait) {
			return v, err
		}
	}
}

// pause reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
