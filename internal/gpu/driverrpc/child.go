package driverrpc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// child is one helper that runs, or has run.
type child struct {
	process Process
	mute    time.Duration
	log     *slog.Logger
	began   time.Time
	lines   chan []byte   // to be written
	dead    chan struct{} // closed: it serves no more, and why is set
	gone    chan struct{} // closed: the process is gone and its goroutines have ended

	mu      sync.Mutex
	why     error
	died    time.Time
	last    uint64
	pending map[uint64]chan answer
	heard   time.Time // when it last said something, or was asked something while nothing was asked of it
}

// spawn starts a helper, and what listens to it.
func (c *Client) spawn() (*child, error) {
	process, err := c.start(c.argv, &logWriter{log: c.log})
	if err != nil {
		return nil, err
	}
	k := &child{
		process: process, mute: c.mute, log: c.log, began: time.Now(), lines: make(chan []byte, 64),
		dead: make(chan struct{}), gone: make(chan struct{}), pending: map[uint64]chan answer{},
	}
	go k.run()
	return k, nil
}

// run reads and writes until the helper ends, and returns when it is gone.
func (k *child) run() {
	defer close(k.gone)
	var writer sync.WaitGroup
	writer.Go(k.write)
	k.end(k.read())
	k.process.Kill()
	_ = k.process.In.Close()
	left := k.process.Wait()
	writer.Wait()
	_, why := k.death()
	k.log.Log(context.Background(), level(why), "the GPU helper has ended", "why", why, "exit", left)
}

// level tells the end that was asked for from others.
func level(err error) slog.Level {
	if errors.Is(err, io.ErrClosedPipe) {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// write passes lines on to the helper, so that one that does not read holds nobody up.
func (k *child) write() {
	for {
		select {
		case line := <-k.lines:
			if _, err := k.process.In.Write(line); err != nil {
				return // it has closed its input: what it said before tells why
			}
		case <-k.dead:
			_ = k.process.In.Close() // the request to end
			return
		}
	}
}

// read takes answers until there are no more, and says why.
func (k *child) read() error {
	lines := bufio.NewScanner(k.process.Out)
	lines.Buffer(nil, longestAnswer)
	for first := true; lines.Scan(); first = false {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return fmt.Errorf("the GPU helper says what is no answer: %w", err)
		}
		if first {
			if err := greet(a); err != nil {
				return err
			}
			continue
		}
		k.take(a)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("listen to the GPU helper: %w", err)
	}
	return errors.New("the GPU helper has died: its last words are in the log")
}

// greet looks at the helper's first words.
func greet(a answer) error {
	switch {
	case a.Protocol != protocol:
		return fmt.Errorf(
			"the GPU helper speaks protocol %d, not %d: install it from the same version as the service", a.Protocol,
			protocol,
		)
	case a.Fault != nil:
		return a.Fault.unpack()
	}
	return nil
}

// take hands an answer to who asked. One that nobody waits for any more is dropped.
func (k *child) take(a answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.heard = time.Now()
	if to := k.pending[a.ID]; to != nil {
		to <- a
		delete(k.pending, a.ID)
	}
}

// end says that this helper serves no more: calls under way fail at once.
func (k *child) end(why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.why == nil {
		k.why, k.died = why, time.Now()
		close(k.dead)
	}
}

// over reports whether it serves no more.
func (k *child) over() bool { return closed(k.dead) }

// left reports whether its process is gone.
func (k *child) left() bool { return closed(k.gone) }

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// death says when and why it ceased to serve.
func (k *child) death() (time.Time, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.died, k.why
}

// served says how long it has answered.
func (k *child) served() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return max(0, k.heard.Sub(k.began))
}

// ask sends one request and waits for its answer.
func (k *child) ask(ctx context.Context, r request) (answer, error) {
	if t, ok := ctx.Deadline(); ok {
		r.Left = max(1, time.Until(t).Milliseconds())
	}
	to := k.register(&r)
	defer k.forget(r.ID)
	line, err := json.Marshal(r)
	if err != nil {
		return answer{}, err
	}
	line = append(line, '\n')
	patience := time.NewTimer(k.mute)
	defer patience.Stop()
	lines := k.lines
	for {
		select {
		case lines <- line:
			lines = nil
		case a := <-to:
			return a, nil
		case <-k.dead:
			_, why := k.death()
			return answer{}, why
		case <-ctx.Done():
			k.giveUp(r.ID)
			k.suspect()
			return answer{}, ctx.Err()
		case <-patience.C:
			k.suspect()
			patience.Reset(k.mute)
		}
	}
}

// register returns a request its number, and the place for its answer.
func (k *child) register(r *request) chan answer {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.pending) == 0 {
		k.heard = time.Now()
	}
	k.last++
	r.ID = k.last
	to := make(chan answer, 1)
	k.pending[r.ID] = to
	return to
}

func (k *child) forget(id uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pending, id)
}

// giveUp tells the helper that nobody waits any more; if there is no room for that just now, it will find out.
func (k *child) giveUp(id uint64) {
	line, err := json.Marshal(request{ID: id, Method: methodCancel})
	if err != nil {
		return
	}
	select {
	case k.lines <- append(line, '\n'):
	default:
	}
}

// suspect ends a helper that has been silent for too long.
func (k *child) suspect() {
	k.mu.Lock()
	silent := time.Since(k.heard)
	k.mu.Unlock()
	if silent >= k.mute {
		k.end(fmt.Errorf(
			"the GPU helper has said nothing for %s: it hangs, or the driver does", silent.Round(time.Second),
		))
		k.process.Kill()
	}
}

// part asks the helper to end, makes it when it does not, and waits.
func (k *child) part() error {
	k.end(fmt.Errorf("the GPU helper is ended: %w", io.ErrClosedPipe))
	for _, step := range []struct {
		wait time.Duration
		then func()
	}{{partGrace, k.process.Kill}, {killGrace, func() {}}} {
		t := time.NewTimer(step.wait)
		select {
		case <-k.gone:
			t.Stop()
			return nil
		case <-t.C:
			step.then()
		}
	}
	return errors.New("the GPU helper does not end: it hangs in the driver")
}
