// Program idle says what websockets to idle kernels cost the service: its HTTP server, engine, store, gateway and links
// to agents are the real ones, over a backend that is played. The kernels, their agents and the clients are played by
// another process, whose ends of the links and of the websockets are real. It prints one line of JSON. What it must not
// do: run anything of the agents or of the clients in the process that is measured, or leave anything behind.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"syscall"
	"time"
)

// far is the argument of the process that plays agents and clients.
const far = "far"

// options are the command line.
type options struct {
	dir, heap string
	kernels   int
	rest      time.Duration
}

// result is what is printed. A megabyte is 1e6 bytes.
type result struct {
	Connections int     `json:"connections"`
	Start       float64 `json:"start_mb"`  // of the service alone
	Before      float64 `json:"before_mb"` // with the kernels, and the links to their agents
	After       float64 `json:"after_mb"`  // with a websocket to each, each of which had an answer
	Stacks      float64 `json:"stacks_mb"` // of that, goroutines' stacks
	Heap        float64 `json:"heap_mb"`   // and what Go keeps for its heap
	Goroutines  float64 `json:"goroutines_each"`
}

func main() {
	o := options{}
	flag.StringVar(&o.dir, "dir", "", "an empty directory with a short name, or none. Required")
	flag.StringVar(&o.heap, "heapprofile", "", "write there what the memory is in use for")
	flag.IntVar(&o.kernels, "kernels", 1000, "and websockets; a user may have 1024")
	flag.DurationVar(&o.rest, "rest", 35*time.Second, "how long they do nothing: longer than from one ping to the next")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case flag.Arg(0) == far:
		err = runFar(ctx)
	case o.dir == "":
		err = errors.New("-dir is required")
	default:
		err = measure(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "idle:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, o options) (err error) {
	s, err := newService(ctx, o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	r := result{Connections: o.kernels, Start: resident()}
	if err := s.startKernels(ctx, o.kernels); err != nil {
		return err
	}
	p, err := s.play(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	r.Before = resident()
	routines := runtime.NumGoroutine()
	if err := p.connect(); err != nil {
		return err
	}
	select {
	case <-time.After(o.rest):
	case <-ctx.Done():
		return ctx.Err()
	}
	r.After, r.Goroutines = resident(), float64(runtime.NumGoroutine()-routines)/float64(o.kernels)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r.Stacks, r.Heap = float64(m.StackSys)/1e6, float64(m.HeapSys-m.HeapReleased)/1e6
	if err := profile(o.heap); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// resident returns the megabytes of this process.
func resident() float64 {
	text, _ := os.ReadFile("/proc/self/statm")
	var size, pages int
	_, _ = fmt.Sscan(string(text), &size, &pages)
	return float64(pages*os.Getpagesize()) / 1e6
}

func profile(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	runtime.GC()
	return errors.Join(pprof.Lookup("heap").WriteTo(f, 0), f.Close())
}
