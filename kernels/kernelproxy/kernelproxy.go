// Package kernelproxy is a program that stands in for a Jupyter kernel in a session: for its clients it is a kernel of
// that machine, with sockets and a connection file, and what they say and are told it carries to a kernel that the
// service runs on a slice, and back.
//
// Promises: a slice is leased while the kernel lives and no longer; a restart by Jupyter keeps it; while the service is
// away nothing is lost and nothing runs twice; what keeps the kernel from running is said in the notebook, with what to
// do, and not by a process that dies again and again. The package must not know how a kernel is started, nor who may
// have one.
package kernelproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"slipway/internal/clock"
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
	// Parent returns whoever is the bridge's parent now: it ends once that is another. Nil: it may outlive who has
	// started it.
	Parent    func() int
	Interrupt <-chan os.Signal // each one interrupts the kernel
	Logger    *slog.Logger
	// Has reports whether the session has a module of Python, and in which version where that is known. Nil: nobody is
	// told of modules.
	Has func(ctx context.Context, module string) (version string, has bool)

	// Patience is how long a client may take nothing of what is printed before its connection is ended: libzmq then
	// connects again. Zero: 30 s.
	Patience time.Duration
}

const (
	answerTime  = 5 * time.Second // after that clients that ask what kernel it is are answered, though it is not there
	crossTime   = 300 * time.Millisecond
	endTime     = 4 * time.Second // for the last words with the service: Jupyter kills what takes longer
	parentEvery = time.Second     // a look whether the parent is there
	patience    = 30 * time.Second
)

// Run is the bridge. It returns when its clients have shut the kernel down, when whoever started it is gone, or when
// ctx ends.
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
	service, err := newService(cfg.Socket, id, cfg.Logger)
	if err != nil {
		return err
	}
	b := &bridge{
		cfg: cfg, service: service, mark: filepath.Join(filepath.Dir(cfg.Socket), "restart-"+id), born: time.Now(),
		ended: make(chan bool, 1), up: make(chan struct{}, 1),
	}
	b.clients = &clients{
		key: wire.NewKey([]byte(conn.Key)), kernel: id, log: cfg.Logger, patience: cmp.Or(cfg.Patience, patience),
		take: b.take, peers: map[wire.Channel]map[string]*peer{},
	}
	b.out = newOutbox()
	defer b.clients.work.Wait()
	defer cancel()
	if err := b.listen(ctx, conn); err != nil {
		return err
	}
	b.clients.work.Go(func() { b.out.run(ctx, b.clients.say) })
	b.clients.work.Go(func() { b.serve(ctx) })
	b.clients.work.Go(func() { b.heed(ctx) })
	b.clients.work.Go(func() { b.follow(ctx) })
	return b.end(ctx, b.await(ctx))
}

// bridge is one kernel as its clients see it.
type bridge struct {
	cfg     Config
	service *service
	clients *clients
	mark    string // a file that says to the next process that Jupyter wants the kernel to begin anew
	born    time.Time
	out     *outbox

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

	moving   *request // the cell that has the kernel started anew from the session; nil: none
	again    bool     // the kernel is being ended, and another is to take its place
	replaced bool     // that other is being started
}

func (b *bridge) listen(ctx context.Context, c wire.Connection) error {
	open := func(what string, port int, serve func(context.Context, net.Conn)) error {
		l, err := listen(ctx, c, port)
		if err != nil {
			return fmt.Errorf("listen on the kernel's port %s: %w", what, err)
		}
		b.clients.work.Go(func() { b.clients.accept(ctx, l, serve) })
		return nil
	}
	channels := []wire.Channel{wire.Shell, wire.Control, wire.Stdin, wire.IOPub}
	for _, channel := range channels { // before the first client comes
		b.clients.peers[channel] = map[string]*peer{}
	}
	err := open("hb", c.Heartbeat, b.clients.echo)
	for _, channel := range channels {
		err = errors.Join(err, open(string(channel), c.Port(channel), b.clients.serve(channel)))
	}
	return err
}

// await waits for the end, and says whether the kernel is to be started again.
func (b *bridge) await(ctx context.Context) (again bool) {
	select {
	case again = <-b.ended:
	case <-ctx.Done():
	}
	return again
}

// end leaves the kernel to the next process, or ends it.
func (b *bridge) end(ctx context.Context, again bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if again {
		return os.WriteFile(b.mark, nil, 0o600)
	}
	b.mu.Lock()
	running := b.running
	b.mu.Unlock()
	err := b.service.remove(ctx)
	if err == nil && !running && clock.Sleep(ctx, crossTime) {
		err = b.service.remove(ctx) // the wish for it may have come behind that for its end
	}
	if err != nil {
		b.cfg.Logger.Warn(
			"the kernel could not be ended; the service ends it when nobody has come for it in some minutes", "error",
			err,
		)
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

// follow ends the bridge with whoever has started it.
func (b *bridge) follow(ctx context.Context) {
	if b.cfg.Parent == nil {
		return
	}
	for parent := b.cfg.Parent(); clock.Sleep(ctx, parentEvery); {
		if b.cfg.Parent() != parent {
			b.finish(false)
			return
		}
	}
}

// finish has the bridge end; again: for the kernel to be started again.
func (b *bridge) finish(again bool) {
	select {
	case b.ended <- again:
	default:
	}
}

// serve gets a kernel and carries messages until it has ended, or ctx has.
func (b *bridge) serve(ctx context.Context) {
	b.publish(nil, "status", map[string]string{"execution_state": "starting"})
	late := time.AfterFunc(answerTime, b.introduce)
	defer late.Stop()
	err := b.obtainAndCarry(ctx)
	for ctx.Err() == nil && b.restarts() {
		err = b.obtainAndCarry(ctx)
	}
	if ctx.Err() == nil {
		b.cfg.Logger.Info("there is no kernel any more", "error", err)
		b.fail(errs.Brief(err))
	}
}

func (b *bridge) obtainAndCarry(ctx context.Context) error {
	err := b.obtain(ctx)
	if err == nil {
		err = b.carry(ctx)
	}
	return err
}
