package sshtunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Channel is one channel, seen from either side. Reading gives the other side's data, writing sends one's own.
type Channel struct {
	stream net.Conn
	out    pipe
	data   *queue
	stderr *queue

	requests chan *Request
	asking   sync.Mutex // one question at a time
	replies  chan bool

	patience time.Duration // of Close

	closing sync.Once
	leaving sync.Once
	left    chan struct{} // closed when this side has ended it
	gone    func()        // tells the other side that this one has cut it; nil: only the stream's end does
	done    chan struct{} // closed when the other side, or the stream, has ended it
	err     error         // of done: nil when the other side ended it

	came, went atomic.Int64
}

// Request is one that the other side makes. Those that want a reply get theirs in the order in which they came.
type Request struct {
	Kind    string
	Want    bool
	Payload []byte

	from *pipe
}

// Reply answers. Where no reply is wanted it does nothing.
func (r *Request) Reply(ok bool) error {
	if !r.Want {
		return nil
	}
	return r.from.send(frameReply, &replyFrame{OK: ok})
}

const requestsWaiting = 16

func newChannel(stream net.Conn) *Channel {
	return &Channel{
		stream: stream, out: pipe{to: stream}, data: newQueue(), stderr: newQueue(), patience: closeTime,
		requests: make(chan *Request, requestsWaiting), replies: make(chan bool, 1), left: make(chan struct{}),
		done: make(chan struct{}),
	}
}

// run takes what the other side sends, until it or the stream ends.
func (c *Channel) run() {
	err := c.receive()
	end := io.EOF
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrCut, err)
		end = err
	}
	c.err = err
	c.data.end(end)
	c.stderr.end(end)
	close(c.done)
	close(c.requests)
	_ = c.stream.Close()
}

// receive returns nil when the other side has closed the channel.
func (c *Channel) receive() error {
	for {
		kind, size, err := readHeader(c.stream)
		if err != nil {
			return err
		}
		if kind == frameClose {
			return readRest(c.stream, size, nil)
		}
		if err := c.frame(kind, size); err != nil {
			return err
		}
	}
}

func (c *Channel) frame(kind byte, size int) error {
	switch kind {
	case frameData:
		c.came.Add(int64(size))
		return c.data.put(c.stream, size)
	case frameStderr:
		c.came.Add(int64(size))
		return c.stderr.put(c.stream, size)
	case frameEOF:
		c.data.end(io.EOF)
		c.stderr.end(io.EOF)
		return readRest(c.stream, size, nil)
	case frameRequest:
		var r requestFrame
		if err := readRest(c.stream, size, &r); err != nil {
			return err
		}
		select {
		case c.requests <- &Request{Kind: r.Kind, Want: r.Want, Payload: r.Payload, from: &c.out}:
			return nil
		case <-c.left:
			return net.ErrClosed
		}
	case frameReply:
		var r replyFrame
		if err := readRest(c.stream, size, &r); err != nil {
			return err
		}
		select {
		case c.replies <- r.OK:
			return nil
		default:
			return errors.New("an answer that nobody has asked for")
		}
	}
	return fmt.Errorf("a frame %q", kind)
}

// Read reads data. After the other side's last it gives io.EOF; where the stream was cut, an error that is ErrCut.
func (c *Channel) Read(p []byte) (int, error) { return c.data.Read(p) }

// WriteTo writes all data to w, until the other side's last.
func (c *Channel) WriteTo(w io.Writer) (int64, error) { return c.data.WriteTo(w) }

// Eager is a writer that can be tried.
type Eager interface {
	io.Writer
	// Try writes what can be written without waiting, and gives how much that was. What is wrong the next Write tells.
	Try(p []byte) int
}

// Feed writes all data to w, until the other side's last. What w takes at once who takes the stream writes, and nobody
// is woken for it; what comes behind the rest does not wait for that.
func (c *Channel) Feed(w Eager) error { return c.data.feed(w) }

// Pass writes all data to w, and what is for stderr to stderr, until the other side's last. It is for who need not hear
// of what comes behind data before that is written: who takes the stream writes, and nobody is woken for it. Both must
// be writable at once.
func (c *Channel) Pass(w, stderr io.Writer) error {
	second := make(chan error, 1)
	go func() { second <- c.stderr.pass(stderr) }()
	err := c.data.pass(w)
	return errors.Join(err, <-second)
}

// Write sends data.
func (c *Channel) Write(p []byte) (int, error) { return c.write(frameData, p) }

// ReadFrom sends all that r gives, as it comes.
func (c *Channel) ReadFrom(r io.Reader) (int64, error) { return c.readFrom(frameData, r) }

func (c *Channel) write(kind byte, p []byte) (n int, err error) {
	b := buffers.get()
	defer buffers.put(b)
	for len(p) > 0 {
		part := copy(b[headerSize:], p)
		if err := c.emit(kind, b[:headerSize+part]); err != nil {
			return n, err
		}
		n, p = n+part, p[part:]
	}
	return n, nil
}

func (c *Channel) readFrom(kind byte, r io.Reader) (total int64, err error) {
	b := buffers.get()
	defer buffers.put(b)
	for {
		n, err := r.Read(b[headerSize:])
		if n > 0 {
			if err := c.emit(kind, b[:headerSize+n]); err != nil {
				return total, err
			}
			total += int64(n)
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

func (c *Channel) emit(kind byte, frame []byte) error {
	select {
	case <-c.done:
		return c.over()
	default:
	}
	c.went.Add(int64(len(frame) - headerSize))
	return c.out.write(kind, frame)
}

// over is the error of who would write to a channel that has ended.
func (c *Channel) over() error {
	if c.err != nil {
		return c.err
	}
	return io.EOF
}

// Stderr is the second stream of data. Its end is the channel's own.
func (c *Channel) Stderr() io.ReadWriter { return second{c} }

type second struct{ c *Channel }

func (s second) Read(p []byte) (int, error)              { return s.c.stderr.Read(p) }
func (s second) WriteTo(w io.Writer) (int64, error)      { return s.c.stderr.WriteTo(w) }
func (s second) Write(p []byte) (int, error)             { return s.c.write(frameStderr, p) }
func (s second) ReadFrom(r io.Reader) (n int64, e error) { return s.c.readFrom(frameStderr, r) }

// CloseWrite says that no more data comes from here. Requests may.
func (c *Channel) CloseWrite() error { return c.out.send(frameEOF, nil) }

// Close ends the channel; what has been sent before arrives, unless the other side has not taken it in time: then the
// channel is cut. What has come and was not read is lost. Closing twice is success.
func (c *Channel) Close() error {
	var err error
	c.closing.Do(func() {
		defer time.AfterFunc(c.patience, c.Cut).Stop()
		if err = c.out.send(frameClose, nil); err == nil {
			c.leave(nil)
		}
	})
	c.Cut()
	return err
}

// Cut ends the channel as a lost link does: the other side does not take it for a clean end. It waits for nothing.
func (c *Channel) Cut() {
	c.leave(c.gone)
	c.data.drop()
	c.stderr.drop()
	_ = c.stream.Close()
}

// leave notes, once, that this side has ended the channel, and tells so.
func (c *Channel) leave(tell func()) {
	c.leaving.Do(func() {
		close(c.left)
		if tell != nil {
			tell()
		}
	})
}

// Done is closed when the other side has ended the channel, or its stream is cut.
func (c *Channel) Done() <-chan struct{} { return c.done }

// Err says, after Done, how it ended: nil when the other side ended it.
func (c *Channel) Err() error { return c.err }

// Moved returns how many bytes of data have come and gone so far.
func (c *Channel) Moved() (came, went int64) { return c.came.Load(), c.went.Load() }

// Requests returns the other side's, until the channel ends. They must be taken: what comes behind them waits.
func (c *Channel) Requests() <-chan *Request { return c.requests }

// Send makes a request. With want it waits for the answer.
func (c *Channel) Send(ctx context.Context, kind string, want bool, payload []byte) (bool, error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	if err := c.out.send(frameRequest, &requestFrame{kind, want, payload}); err != nil || !want {
		return false, err
	}
	select {
	case ok := <-c.replies:
		return ok, nil
	case <-c.done:
		select {
		case ok := <-c.replies: // which came before the end
			return ok, nil
		default:
			return false, c.over()
		}
	case <-ctx.Done():
		c.Cut() // the answer would be taken for the next question's
		return false, ctx.Err()
	}
}
