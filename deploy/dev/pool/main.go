// Pool runs an HTCondor pool in containers on this machine, the one that the tests have, for `deploy/demo --htcondor`:
// an access point and two workers that nobody can call, one of them with simulated GPUs.
//
//	go run ./deploy/dev/pool --dir DIR --service URL [--share DIR] [--user NAME:UID]
//
// Before the service it stands as a site's web server does, with TLS: the workers reach the service there and at
// nothing else of this machine. When all is ready there are in DIR: bin, with the pool's commands; ca.pem, the
// authority of the certificate; and url, the service's address for the workers. It runs in the checkout, for the image
// has the name of its recipe there, until SIGTERM. Then, and also when it is killed, nothing of the pool is left.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"slipway/spawner/htcondor/condortest"
)

// given is what the command line says.
type given struct {
	dir, service, share, user string
}

func main() {
	var g given
	flag.StringVar(&g.dir, "dir", "", "a directory for what is told of the pool")
	flag.StringVar(&g.service, "service", "", "the service, such as http://127.0.0.1:8090")
	flag.StringVar(&g.share, "share", "", "the service's data: the access point sees it")
	flag.StringVar(&g.user, "user", "", "an account on all machines, as NAME:UID")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, g); err != nil {
		fmt.Fprintln(os.Stderr, "pool:", err)
		os.Exit(1)
	}
}

// run has a pool until ctx ends.
func run(ctx context.Context, g given) error {
	options, err := g.options()
	if err != nil {
		return err
	}
	pool, err := condortest.New(options)
	if err == nil {
		err = serve(ctx, g, pool)
	}
	return errors.Join(err, pool.Close())
}

// memoryFile has a worker in a container see to it that nobody uses more memory than she has asked for.
const memoryFile = "deploy/htcondor/32-memory-worker.conf"

func (g given) options() (condortest.Options, error) {
	memory, err := os.ReadFile(memoryFile)
	if err != nil {
		return condortest.Options{}, err
	}
	o := condortest.Options{CPUs: -1, Outward: true, Workers: []condortest.Worker{
		{Name: "node1", Config: string(memory)}, {Name: "node2", Config: string(memory) + condortest.SimulatedGPUs},
	}}
	if g.share != "" {
		o.Share = []string{g.share}
	}
	if name, number, ok := strings.Cut(g.user, ":"); ok {
		uid, err := strconv.Atoi(number)
		if err != nil {
			return o, fmt.Errorf("--user %s: want NAME:UID", g.user)
		}
		o.Users = map[string]int{name: uid}
	}
	return o, nil
}

// serve stands before the service, and tells where. The address comes last: who sees it finds the rest.
func serve(ctx context.Context, g given, pool *condortest.Pool) error {
	front, err := newFront(pool.Address, g.service)
	if err != nil {
		return err
	}
	defer front.listener.Close()
	bin := filepath.Join(g.dir, "bin")
	if err := os.Remove(bin); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	err = errors.Join(os.Symlink(pool.Bin, bin), os.WriteFile(filepath.Join(g.dir, "ca.pem"), front.authority, 0o644))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(g.dir, "url"), []byte("https://"+front.listener.Addr().String()+"\n"), 0o644); err != nil {
		return err
	}
	return front.serve(ctx)
}
