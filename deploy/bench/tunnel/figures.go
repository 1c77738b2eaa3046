package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway/deploy/bench/figures"
	"slipway/internal/tunnel"
)

// dial opens a connection to the app at the far end.
type dial func(ctx context.Context) (net.Conn, error)

// figure is one thing that is measured on both paths.
type figure struct {
	name, form string
	measure    func(ctx context.Context, d dial) (float64, error)
}

// paths compares the two, figure by figure, in turns.
func paths(ctx context.Context, o options) error {
	s, err := newService(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	a, err := s.start(ctx, 1, 0)
	if err != nil {
		return err
	}
	defer a.close()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.cert)
	direct := func(ctx context.Context) (net.Conn, error) {
		return (&tls.Dialer{Config: &tls.Config{RootCAs: roots}}).DialContext(ctx, "tcp", a.at)
	}
	link := func(ctx context.Context) (net.Conn, error) { return s.links.Load().Dial(ctx, a.ids[0], tunnel.DoorApp) }
	fmt.Println(
		"| median (min to max) | bare connection with TLS | link | link / bare, pair by pair |\n|---|---|---|---|",
	)
	for _, f := range figuresOf(o, a.pid) {
		var bare, through, ratio []float64
		for range o.rounds {
			x, err := f.measure(ctx, direct)
			if err != nil {
				return fmt.Errorf("%s, bare: %w", f.name, err)
			}
			y, err := f.measure(ctx, link)
			if err != nil {
				return fmt.Errorf("%s, link: %w", f.name, err)
			}
			bare, through, ratio = append(bare, x), append(through, y), append(ratio, y/x)
		}
		fmt.Printf(
			"| %s | %s | %s | %s |\n", f.name, figures.Spread(bare, f.form), figures.Spread(through, f.form),
			figures.Spread(ratio, "%.2f"),
		)
	}
	fmt.Println()
	return nil
}

func figuresOf(o options, pid int) []figure {
	rate := func(what byte) func(context.Context, dial) (float64, error) {
		return func(ctx context.Context, d dial) (float64, error) {
			took, err := move(ctx, d, what, o.bytes)
			return float64(o.bytes) / 1e6 / took.Seconds(), err
		}
	}
	spent := func(what byte) func(context.Context, dial) (float64, error) {
		return func(ctx context.Context, d dial) (float64, error) {
			before := cpu(os.Getpid()) + cpu(pid)
			_, err := move(ctx, d, what, o.bytes)
			return (cpu(os.Getpid()) + cpu(pid) - before) / (float64(o.bytes) / 1e9), err
		}
	}
	return []figure{
		{"from the agent, MB/s", "%.0f", rate(down)},
		{"to the agent, MB/s", "%.0f", rate(up)},
		{"from the agent, CPU seconds of both ends for 1 GB", "%.2f", spent(down)},
		{"to the agent, CPU seconds of both ends for 1 GB", "%.2f", spent(up)},
		{"a byte there and back, µs", "%.0f", roundTrip},
		{"a new connection with a byte there and back, µs", "%.0f", opening},
	}
}

// order opens a connection and says what the app is to do with it.
func order(ctx context.Context, d dial, what byte, n int64) (net.Conn, error) {
	c, err := d(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(binary.BigEndian.AppendUint64([]byte{what}, uint64(n))); err != nil {
		return nil, err
	}
	return c, nil
}

// move moves n bytes.
func move(ctx context.Context, d dial, what byte, n int64) (time.Duration, error) {
	began := time.Now()
	c, err := order(ctx, d, what, n)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if what == down {
		err = take(c, n)
	} else if err = send(c, n); err == nil {
		_, err = io.ReadFull(c, make([]byte, 1))
	}
	return time.Since(began), err
}

// roundTrip is the median of many.
func roundTrip(ctx context.Context, d dial) (float64, error) {
	c, err := order(ctx, d, echo, 0)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return median(2000, func() error { return pingPong(c) })
}

// opening is the median of many.
func opening(ctx context.Context, d dial) (float64, error) {
	return median(200, func() error {
		c, err := order(ctx, d, echo, 0)
		if err != nil {
			return err
		}
		defer c.Close()
		return pingPong(c)
	})
}

func pingPong(c net.Conn) error {
	b := []byte{1}
	if _, err := c.Write(b); err != nil {
		return err
	}
	_, err := io.ReadFull(c, b)
	return err
}

func median(n int, f func() error) (float64, error) {
	var all []float64
	for range n {
		began := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		all = append(all, float64(time.Since(began).Nanoseconds())/1e3)
	}
	slices.Sort(all)
	return all[n/2], nil
}

// cpu returns the seconds that a process has used.
func cpu(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

// memory says what connections cost the service that do nothing.
func memory(ctx context.Context, o options) error {
	fmt.Printf("| KiB of the service for each of %d | Go's heap and stacks | resident |\n|---|---|---|\n", o.links)
	for _, kind := range []struct {
		name         string
		links, plain int
		used         int64 // bytes that each has moved before, both ways
	}{
		{"bare connections with TLS", 0, o.links, 0},
		{"links that have moved nothing", o.links, 0, 0},
		{"links that have moved 8 MiB each way", o.links, 0, 8 << 20},
	} {
		inUse, resident, err := cost(ctx, kind.links, kind.plain, kind.used)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		fmt.Printf("| %s | %.0f | %.0f |\n", kind.name, inUse/float64(o.links), resident/float64(o.links))
	}
	return nil
}

func cost(ctx context.Context, links, plain int, used int64) (inUse, resident float64, err error) {
	s, err := newService(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer s.close()
	inUse, resident = settled()
	a, err := s.start(ctx, links, plain)
	if err != nil {
		return 0, 0, err
	}
	defer a.close()
	for _, id := range a.ids {
		if used == 0 {
			break
		}
		d := func(ctx context.Context) (net.Conn, error) { return s.links.Load().Dial(ctx, id, tunnel.DoorApp) }
		for _, what := range []byte{down, up} {
			if _, err := move(ctx, d, what, used); err != nil {
				return 0, 0, err
			}
		}
	}
	after, now := settled()
	return after - inUse, now - resident, nil
}

// restarts says how long links are away when the service's side of all of them ends and begins anew.
func restarts(ctx context.Context, o options) error {
	s, err := newService(ctx)
	if err != nil {
		return err
	}
	defer func() { s.close() }()
	a, err := s.start(ctx, o.links, 0)
	if err != nil {
		return err
	}
	defer a.close()
	var took []float64
	for range o.rounds {
		s.stop()
		began := time.Now()
		s.serve(ctx)
		if err := s.expect(ctx, a.ids); err != nil {
			return err
		}
		took = append(took, time.Since(began).Seconds())
	}
	fmt.Printf("\n%d links after a restart, until the last is back: %s s\n", o.links, figures.Spread(took, "%.2f"))
	return nil
}

// settled returns the KiB that are in use once what is not needed has been given back.
func settled() (inUse, resident float64) {
	for range 2 { // what a pool holds goes at the second time
		debug.FreeOSMemory()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	statm, _ := os.ReadFile("/proc/self/statm")
	if fields := strings.Fields(string(statm)); len(fields) > 1 {
		pages, _ := strconv.ParseFloat(fields[1], 64)
		resident = pages * float64(os.Getpagesize()) / 1024
	}
	return float64(m.HeapInuse+m.StackInuse) / 1024, resident
}
