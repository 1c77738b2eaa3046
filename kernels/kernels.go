// Package kernels is a gateway to Jupyter kernels: any Jupyter Server that is started with --gateway-url, and any other
// client of the REST API and the websockets of Jupyter's kernels, has its kernels run as sessions of this service, each
// with what its kernelspec leases.
//
// Promises: each user reaches her own kernels alone, for the engine's methods take the caller; what a client says is
// bounded and refused with the reason, and comes to the kernel once when the way there breaks, or the client is told;
// what the service has read of a client is in its journal before it is sent, and is sent by the next process if this
// one is killed; each cell of a kernel that has ended is answered; a clean end of the service ends every websocket.
// What it cannot promise: what a client sends in the moment when the service is killed, and the service has not read,
// is lost with the connection. Only clients that send again by themselves, as package bridge does, lose nothing of
// that. The package must not keep messages longer than until the kernel's agent has them: all else that a conversation
// needs lies there, so that a restart of the service loses nothing. It must not know how a session is started.
package kernels

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"golang.org/x/sync/semaphore"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
)

// Engine is what the gateway needs of engine.Manager, which has the contract of each method.
type Engine interface {
	StartKernel(ctx context.Context, c spawner.Caller, r spawner.KernelRequest) (spawner.Workload, error)
	Kernels(c spawner.Caller) []spawner.Workload
	Bind(ctx context.Context, c spawner.Caller, id spawner.ID, n spawner.Notebook) (spawner.Workload, error)
	Remove(ctx context.Context, c spawner.Caller, id spawner.ID) error
	Await(ctx context.Context, c spawner.Caller, id spawner.ID, done func(spawner.Workload) bool) (spawner.Workload, error)
	Visit(id spawner.ID, acted bool)
	HowFar(c spawner.Caller, id spawner.ID) string
}

// Agent is what the gateway asks a kernel's agent. control.Client does.
type Agent interface {
	Kernel(ctx context.Context) (control.KernelStatus, error)
	InterruptKernel(ctx context.Context) error
	RestartKernel(ctx context.Context) error
}

// Spec is a kernelspec, and what a kernel of it is started with.
type Spec struct {
	Name        string // letters, digits, dots, hyphens and underscores
	DisplayName string
	Language    string
	Session     spawner.Spec
	Backend     string
	Metadata    map[string]any // what clients are told beside
	Logos       []Logo
	Entry       string // of the site, as spawner.KernelRequest.Entry
	Warm        int    // how many may stand by, as spawner.KernelRequest.Warm
	Refused     error  // why it cannot be started just now, though it is shown; nil: it can be asked for
}

// Config is what a gateway needs. All fields without a stated default are required.
type Config struct {
	Engine Engine
	// Specs returns what a user may start; the first is the default.
	Specs func(c spawner.Caller) []Spec
	// Identify says who is calling, by the request's header Authorization or by its connection.
	Identify func(r *http.Request) (spawner.Caller, error)
	// Tell notes for the site's log what a request of this context does, as soon as something of it is known. Nil:
	// nobody wants it.
	Tell func(ctx context.Context, d Deed)
	// Agent returns the agent of a kernel, and Dial opens a stream to it for one client's messages, as package
	// kernels/wire has them.
	Agent  func(id spawner.ID) Agent
	Dial   func(ctx context.Context, id spawner.ID) (net.Conn, error)
	Logger *slog.Logger

	// Journal keeps what clients have sent, if the service is killed before their kernels have taken it. Nil: nothing
	// does.
	Journal *Journal
	// Lines serve the websockets. They must run.
	Lines   *Lines
	Traffic *Traffic // counts what goes by. Nil: nobody asks

	Patience time.Duration // how long an answer waits for a kernel's start; clients give up after 40 s. Zero: 35 s
	Ping     time.Duration // between two looks whether a websocket's client is there. Zero: 30 s
	Message  int64         // most bytes of one message of a client's. Zero: 64 MiB
	Sockets  int           // most websockets of one user. Zero: 1024
	// NoTickets has every websocket need a token: that of Jupyter's own client, which nbclient and papermill use,
	// brings none.
	NoTickets bool
}

// Deed is what is known of what a request does. What is zero is not known, or was told before.
type Deed struct {
	Kernel spawner.ID
	Ended  spawner.ID     // a kernel that ends by it, beside
	Err    error          // why it is not done
	By     spawner.Caller // who was let in by a ticket, with a websocket that lasts
}

const (
	messageLimit = 64 << 20
	userSockets  = 1024
)

type gateway struct {
	Config
	guests     guests
	tickets    tickets
	places     places
	converting *semaphore.Weighted
	began      time.Time
}

// New makes the handler of all paths below the gateway's address.
func New(cfg Config) http.Handler {
	cfg.Patience, cfg.Ping = cmp.Or(cfg.Patience, 35*time.Second), cmp.Or(cfg.Ping, 30*time.Second)
	cfg.Message, cfg.Sockets = cmp.Or(cfg.Message, messageLimit), cmp.Or(cfg.Sockets, userSockets)
	cfg.Traffic = cmp.Or(cfg.Traffic, &Traffic{})
	g := &gateway{
		Config: cfg, guests: guests{of: map[person]*guest{}}, tickets: tickets{of: map[string]ticket{}},
		places: newPlaces(), converting: semaphore.NewWeighted(convertedAtOnce), began: time.Now(),
	}
	return g.routes()
}

func (g *gateway) routes() chi.Router {
	r := chi.NewRouter()
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		g.refuse(w, errs.New(errs.NotFound, "there is no such path below the address of the kernels"))
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		writeFault(w, http.StatusMethodNotAllowed, "this path does not know the method "+r.Method)
	})
	r.Get("/api", g.version)
	r.Get("/api/swagger.json", describe(r, "application/json"))
	r.Get("/api/swagger.yaml", describe(r, "application/yaml"))
	r.Get("/api/me", g.by(g.me))
	r.Get("/api/status", g.by(g.status))
	r.Get("/api/kernelspecs", g.by(g.specs))
	r.Get("/api/kernelspecs/{name}", g.by(g.spec))
	r.Get("/api/kernels", g.by(g.list))
	r.Post("/api/kernels", g.by(g.start))
	r.Get("/api/kernels/{id}", g.by(g.kernel))
	r.Delete("/api/kernels/{id}", g.by(g.shutdown))
	r.Post("/api/kernels/{id}/interrupt", g.by(g.interrupt))
	r.Post("/api/kernels/{id}/restart", g.by(g.restart))
	r.Get("/api/kernels/{id}/channels", g.byTicket(g.channels))
	r.Get("/api/sessions", g.by(g.sessions))
	r.Post("/api/sessions", g.by(g.openSession))
	r.Get("/api/sessions/{id}", g.by(g.session))
	r.Patch("/api/sessions/{id}", g.by(g.changeSession))
	r.Delete("/api/sessions/{id}", g.by(g.closeSession))
	r.Get("/kernelspecs/{name}/{file}", g.by(g.logo))
	return r
}

// by makes a handler of one that needs to know who is calling. It returns an error only if it has answered nothing.
func (g *gateway) by(do func(w http.ResponseWriter, r *http.Request, c spawner.Caller) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := g.Identify(withToken(r))
		if err == nil {
			err = do(w, r, c)
		}
		if err != nil {
			g.told(r, Deed{Err: err})
			g.refuse(w, err)
		}
	}
}

// withToken puts a token of the query where Identify looks for one: clients in browsers cannot send a header with a
// websocket.
func withToken(r *http.Request) *http.Request {
	token := r.URL.Query().Get("token")
	if token == "" || r.Header.Get("Authorization") != "" {
		return r
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "token "+token)
	return r
}

func (g *gateway) told(r *http.Request, d Deed) {
	if g.Tell != nil {
		g.Tell(r.Context(), d)
	}
}

// noted tells of which kernel a request is.
func (g *gateway) noted(r *http.Request, k spawner.Workload) spawner.Workload {
	g.told(r, Deed{Kernel: k.ID})
	return k
}

// find returns a kernel of the caller's by the id that its clients know.
func (g *gateway) find(r *http.Request, c spawner.Caller) (spawner.Workload, error) {
	k, err := g.byID(c, chi.URLParam(r, "id"))
	return g.noted(r, k), err
}

func (g *gateway) byID(c spawner.Caller, id string) (spawner.Workload, error) {
	for _, w := range g.Engine.Kernels(c) {
		if w.Kernel == id && id != "" {
			return w, nil
		}
	}
	return spawner.Workload{}, errs.New(errs.NotFound, "there is no such kernel of yours").With("start another")
}
