// Package mps runs NVIDIA's MPS control daemons, one a GPU, so that several workloads use a GPU at once with a share
// each of its processors and its memory.
//
// It promises that a share's limits are set at the daemon, where the workload cannot lift them, and read back before
// the share is given; that a share is refused rather than given with less; and that a daemon outlives the service,
// which finds it again by its control pipe and its process. What it knows of a daemon is on disk before the daemon is
// asked for anything, so the service may end at any point. All that one daemon does goes through this package, one
// thing at a time.
//
// It must not kill what others use: a daemon with holders is never ended, and no process of a workload is. It never
// goes near /tmp/nvidia-mps, which NVIDIA's tools mount into every container.
//
// What MPS cannot do: limits are for each process by itself, not for a workload; a program that sets its own limit for
// a GPU that it does not see sheds its memory limit; and a fatal fault of one program ends the programs of all on that
// GPU. So it is for users who mean each other no harm: where it matters, a limit of the control group comes on top.
package mps

import (
	"context"
	"log/slog"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/internal/gpu"
)

// Config says where the daemons are and how they are run.
type Config struct {
	// Control is NVIDIA's control program: a path, or a name on PATH. Empty: nvidia-cuda-mps-control.
	Control string
	// Dir has one directory a GPU below it: its pipes, its log, and what is known of its daemon. Empty:
	// /run/slipway/mps.
	Dir string
	Shm string // one directory a GPU below it: the daemon's /dev/shm. Empty: /dev/shm/slipway-mps
	// Enclose is a program and its first words that run Enclose with the words that follow: the daemon gets a /dev/shm
	// of its own by it, which is all that its clients see of the host's. It needs root.
	Enclose []string
	// Exclusive lets one process only use the GPU, which is then the daemon: a client that misses it gets an error, not
	// the whole GPU.
	Exclusive func(ctx context.Context, uuid string, on bool) error
	Logger    *slog.Logger

	Proc     string        // empty: /proc
	Deadline time.Duration // of one command to a daemon; 0: 10 s
	LogLimit int64         // bytes of one log file of a daemon; 0: 1 MiB
}

// Share is what a workload needs to be a client of a daemon.
type Share struct {
	PipeDir string            // of the client, inside and outside
	Env     map[string]string // paths are those inside
	Mounts  []gpu.Mount
}

// Daemons are the MPS control daemons of this host.
type Daemons struct {
	cfg Config
	uid int // of the service

	mu      sync.Mutex
	turns   map[string]chan struct{} // by GPU: whoever holds its token may act on the daemon
	ability *Ability
	step    func(name string) // a test ends the service here
}

// New makes them. It starts nothing.
func New(cfg Config) *Daemons {
	if cfg.Control == "" {
		cfg.Control = "nvidia-cuda-mps-control"
	}
	if cfg.Dir == "" {
		cfg.Dir = "/run/slipway/mps"
	}
	if cfg.Shm == "" {
		cfg.Shm = "/dev/shm/slipway-mps"
	}
	if cfg.Proc == "" {
		cfg.Proc = "/proc"
	}
	if cfg.Deadline == 0 {
		cfg.Deadline = 10 * time.Second
	}
	if cfg.LogLimit == 0 {
		cfg.LogLimit = 1 << 20
	}
	return &Daemons{cfg: cfg, uid: effectiveUID(), turns: map[string]chan struct{}{}, step: func(string) {}}
}

// daemon is the place of one GPU's daemon.
type daemon struct {
	uuid string
	dir  string // pipes, log and record are in it
	shm  string
}

func (g daemon) pipe() string   { return filepath.Join(g.dir, "pipe") }
func (g daemon) log() string    { return filepath.Join(g.dir, "log") }
func (g daemon) record() string { return filepath.Join(g.dir, "record.json") }

var safeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,63}$`)

// at returns the place of a GPU's daemon.
func (d *Daemons) at(uuid string) (daemon, error) {
	if !safeName.MatchString(uuid) {
		return daemon{}, errs.Bad("uuid", uuid, "the UUID of a GPU, such as GPU-5368a050-64ef-4b0b-8d12-6a53f1f6a1b2")
	}
	return daemon{uuid: uuid, dir: filepath.Join(d.cfg.Dir, uuid), shm: filepath.Join(d.cfg.Shm, uuid)}, nil
}

// take waits for the turn to act on a GPU's daemon. The caller calls done.
func (d *Daemons) take(ctx context.Context, uuid string) (g daemon, done func(), err error) {
	if g, err = d.at(uuid); err != nil {
		return g, nil, err
	}
	d.mu.Lock()
	turn := d.turns[uuid]
	if turn == nil {
		turn = make(chan struct{}, 1)
		d.turns[uuid] = turn
	}
	d.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return g, func() { <-turn }, nil
	case <-ctx.Done():
		return g, nil, ctx.Err()
	}
}
