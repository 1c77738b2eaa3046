package driverrpc

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"slipway/internal/gpu"
)

const (
	// atOnce is how many requests about one GPU are worked on at the same time: with one that hangs they would pile up
	// without end. The others are served on.
	atOnce = 64
	// farewell is how long requests under way may take once the input has ended: what is half done should not stay so.
	farewell = 10 * time.Second
)

// Serve answers requests from in until it ends or ctx does, and returns once all are answered or a while has passed.
// The caller closes the driver. An error means that in is no stream of requests, or out takes no answers.
func Serve(ctx context.Context, d gpu.Driver, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{driver: d, out: out, under: map[uint64]job{}}
	s.say(answer{Protocol: protocol})
	ended := make(chan error, 1)
	go func() { ended <- s.listen(ctx, in) }() // a read cannot be interrupted: the process ends with it
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	return firstOf(err, s.finish(cancel))
}

// Refuse says why there is no driver to serve.
func Refuse(out io.Writer, why error) error {
	s := &server{out: out}
	s.say(answer{Protocol: protocol, Fault: pack(why)})
	return s.fault()
}

// server is one conversation.
type server struct {
	driver gpu.Driver
	busy   sync.WaitGroup

	mu     sync.Mutex
	out    io.Writer
	broken error // out takes no more
	under  map[uint64]job
	over   bool
}

// job is a request that is worked on.
type job struct {
	uuid   string
	cancel context.CancelFunc
}

// listen reads requests and starts each.
func (s *server) listen(ctx context.Context, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, longestRequest)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		if r.Method == methodCancel {
			s.cancel(r.ID)
			continue
		}
		s.start(ctx, r)
	}
	return lines.Err()
}

func (s *server) start(ctx context.Context, r request) {
	ctx, cancel := within(ctx, r.Left)
	if !s.enter(r.ID, job{r.UUID, cancel}) {
		cancel()
		s.say(
			answer{ID: r.ID, Fault: &fault{Text: fmt.Sprintf("%d calls have not come back: the driver hangs", atOnce)}},
		)
		return
	}
	go func() {
		defer s.leave(r.ID, cancel)
		result, err := s.call(ctx, r)
		s.say(reply(r.ID, result, err))
	}()
}

// within bounds ctx to so many milliseconds, if any.
func within(ctx context.Context, left int64) (context.Context, context.CancelFunc) {
	if left <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(left)*time.Millisecond)
}

// enter takes a request in, unless there are too many or it is over.
func (s *server) enter(id uint64, j job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	same := 0
	for _, other := range s.under {
		if other.uuid == j.uuid {
			same++
		}
	}
	if _, met := s.under[id]; met || s.over || same >= atOnce {
		return false
	}
	s.under[id] = j
	s.busy.Add(1)
	return true
}

func (s *server) leave(id uint64, cancel context.CancelFunc) {
	cancel()
	s.mu.Lock()
	delete(s.under, id)
	s.mu.Unlock()
	s.busy.Done()
}

func (s *server) cancel(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j, ok := s.under[id]; ok {
		j.cancel()
	}
}

// finish waits for what is under way, and gives up on what hangs.
func (s *server) finish(cancel context.CancelFunc) error {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.busy.Wait()
		close(done)
	}()
	cancel() // the driver's calls themselves run on; waiting ones end
	t := time.NewTimer(farewell)
	defer t.Stop()
	select {
	case <-done:
		return s.fault()
	case <-t.C:
		s.shut()
		return fmt.Errorf("the driver does not come back: %w", context.DeadlineExceeded)
	}
}

// shut keeps late answers back.
func (s *server) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = firstOf(s.broken, io.ErrClosedPipe)
}

// say writes one line.
func (s *server) say(a answer) {
	line, err := json.Marshal(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.broken == nil {
		_, err = s.out.Write(append(line, '\n'))
	}
	s.broken = firstOf(s.broken, err)
}

func (s *server) fault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// reply makes an answer of a result.
func reply(id uint64, result any, err error) answer {
	if err != nil {
		return answer{ID: id, Fault: pack(err)}
	}
	text, err := json.Marshal(result)
	if err != nil {
		return answer{ID: id, Fault: pack(fmt.Errorf("write the answer: %w", err))}
	}
	return answer{ID: id, Result: text}
}

// call asks the driver.
func (s *server) call(ctx context.Context, r request) (any, error) {
	switch d := s.driver; r.Method {
	case methodSystem:
		return d.System(ctx)
	case methodDevices:
		return d.Devices(ctx)
	case methodInstances:
		return d.Instances(ctx, r.UUID)
	case methodCreate:
		return d.CreateInstance(ctx, r.UUID, r.Profile, r.Placement)
	case methodDestroy:
		return nil, d.DestroyInstance(ctx, r.UUID, r.GI)
	case methodMIG:
		return nil, d.SetMIG(ctx, r.UUID, r.On)
	case methodExclusive:
		return nil, d.SetExclusive(ctx, r.UUID, r.On)
	case methodHealth:
		return d.Health(ctx, r.UUID)
	case methodRead:
		return d.Read(ctx, r.UUID)
	case methodLimit:
		return nil, d.LimitMemory(ctx, r.UUID, r.Cgroup, r.Bytes)
	}
	return nil, fmt.Errorf("the GPU helper knows no %q: it is not of the same version as the service", r.Method)
}

func firstOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}
