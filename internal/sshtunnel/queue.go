package sshtunnel

import (
	"io"
	"sync"
)

// queueLimit is how many buffers may wait for who reads them: 1 MiB. On top comes what the link holds: the stream's
// window, or on the same host the kernel's buffer of its socket.
const queueLimit = 16

// chunk is data of one frame that has not been read yet.
type chunk struct {
	buf  *[frameSize]byte
	rest []byte // in buf
}

// queue holds data between the stream and who reads it, so that what comes behind the data need not wait for it. Once
// it has a sink it holds nothing: who takes the stream writes the data there. Who can be tried is, before anything is
// held for it.
type queue struct {
	mu     sync.Mutex
	change sync.Cond
	chunks []chunk
	err    error // what comes behind the data; nil: more may
	unread bool  // nobody reads any more
	taken  bool  // a chunk is with who reads
	eager  Eager // who reads; nil: it cannot be tried
	sink   io.Writer
	failed error // of the sink
}

func newQueue() *queue {
	q := &queue{}
	q.change.L = &q.mu
	return q
}

// put takes n bytes from r, and waits for room before.
func (q *queue) put(r io.Reader, n int) error {
	for n > 0 {
		q.waitForRoom()
		buf := buffers.get()
		part := buf[:min(n, len(buf))]
		if _, err := io.ReadFull(r, part); err != nil {
			buffers.put(buf)
			return err
		}
		if sink := q.add(chunk{buf, part}); sink != nil {
			_, err := sink.Write(part)
			buffers.put(buf)
			if err != nil {
				q.fail(err)
			}
		}
		n -= len(part)
	}
	return nil
}

func (q *queue) waitForRoom() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.chunks) >= queueLimit && !q.unread && q.err == nil {
		q.change.Wait()
	}
}

// add keeps a chunk, or gives the sink to which its owner writes it.
func (q *queue) add(c chunk) (sink io.Writer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.unread || q.err != nil {
		buffers.put(c.buf)
		return nil
	}
	if q.sink != nil {
		return q.sink
	}
	if q.eager != nil && !q.taken && len(q.chunks) == 0 {
		c.rest = c.rest[q.eager.Try(c.rest):]
	}
	if len(c.rest) == 0 {
		buffers.put(c.buf)
		return nil
	}
	if q.fits(c) {
		last := &q.chunks[len(q.chunks)-1]
		last.rest = append(last.rest, c.rest...)
		buffers.put(c.buf)
	} else {
		q.chunks = append(q.chunks, c)
	}
	q.change.Broadcast()
	return nil
}

// fail notes that the sink takes nothing any more.
func (q *queue) fail(err error) {
	q.mu.Lock()
	q.failed = err
	q.mu.Unlock()
	q.drop()
}

// pass makes w the sink, once what is there has been written to it, and waits for the end.
func (q *queue) pass(w io.Writer) error {
	for q.waits(w) {
		c, err := q.take()
		if err != nil {
			return err
		}
		_, err = w.Write(c.rest)
		buffers.put(c.buf)
		if err != nil {
			return err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.err == nil && !q.unread {
		q.change.Wait()
	}
	switch {
	case q.failed != nil:
		return q.failed
	case q.err == io.EOF:
		return nil
	case q.err != nil:
		return q.err
	}
	return io.ErrClosedPipe
}

// waits reports whether chunks wait; if not, w is the sink from now on.
func (q *queue) waits(w io.Writer) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.chunks) == 0 {
		q.sink = w
	}
	return len(q.chunks) > 0
}

// fits reports whether the last buffer has room for a chunk: else a program that writes a byte at a time would fill one
// with each.
func (q *queue) fits(c chunk) bool {
	if len(q.chunks) == 0 {
		return false
	}
	last := q.chunks[len(q.chunks)-1].rest
	return len(c.rest) <= cap(last)-len(last)
}

// end lets readers have what is there, and then err. The first end counts.
func (q *queue) end(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
	q.change.Broadcast()
}

// drop throws away what is there and what may still come.
func (q *queue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unread = true
	for _, c := range q.chunks {
		buffers.put(c.buf)
	}
	q.chunks = nil
	q.change.Broadcast()
}

// take waits for the next chunk, which is the caller's then.
func (q *queue) take() (chunk, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = false
	for len(q.chunks) == 0 && q.err == nil && !q.unread {
		q.change.Wait()
	}
	if len(q.chunks) == 0 {
		if q.err != nil {
			return chunk{}, q.err
		}
		return chunk{}, io.ErrClosedPipe
	}
	c := q.chunks[0]
	q.chunks[0] = chunk{}
	q.chunks = q.chunks[1:]
	q.taken = true
	q.change.Broadcast()
	return c, nil
}

// Read reads what has come. Only one may read at a time.
func (q *queue) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c, err := q.take()
	if err != nil {
		return 0, err
	}
	n := copy(p, c.rest)
	if c.rest = c.rest[n:]; len(c.rest) == 0 {
		buffers.put(c.buf)
		return n, nil
	}
	q.giveBack(c)
	return n, nil
}

// giveBack puts what is left of a chunk before the others.
func (q *queue) giveBack(c chunk) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.unread {
		buffers.put(c.buf)
		return
	}
	q.chunks = append([]chunk{c}, q.chunks...)
}

// WriteTo writes all that comes to w, without a copy in between.
func (q *queue) WriteTo(w io.Writer) (total int64, err error) {
	for {
		c, err := q.take()
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		n, err := w.Write(c.rest)
		buffers.put(c.buf)
		if total += int64(n); err != nil {
			return total, err
		}
	}
}

// feed is WriteTo for who can be tried.
func (q *queue) feed(w Eager) error {
	q.try(w)
	defer q.try(nil)
	_, err := q.WriteTo(w)
	return err
}

func (q *queue) try(w Eager) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.eager = w
}
