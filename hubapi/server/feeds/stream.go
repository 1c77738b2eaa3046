package feeds

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// keepAlive is how often a stream says that it lives: proxies cut what is silent for long.
const keepAlive = 8 * time.Second

// Stream is a text/event-stream. Its methods are safe for concurrent use.
type Stream struct {
	cancel context.CancelFunc
	beat   sync.WaitGroup

	mu sync.Mutex // guards w
	w  http.ResponseWriter
	c  *http.ResponseController
}

// StartStream begins the answer and keeps it alive until ctx or end.
func StartStream(ctx context.Context, w http.ResponseWriter) *Stream {
	ctx, cancel := context.WithCancel(ctx)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	s := &Stream{cancel: cancel, w: w, c: http.NewResponseController(w)}
	s.write([]byte(": events\n\n"))
	s.beat.Go(func() { s.keepAlive(ctx) })
	return s
}

func (s *Stream) keepAlive(ctx context.Context) {
	t := time.NewTicker(keepAlive)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.write([]byte(": alive\n\n"))
		}
	}
}

// End stops the keep-alives. Nothing may be sent after it.
func (s *Stream) End() {
	s.cancel()
	s.beat.Wait()
	_ = s.c.SetWriteDeadline(time.Time{}) // the connection may serve others
}

// Send sends one event; without a name or with a number of 0 these are left out.
func (s *Stream) Send(name string, id int64, data any) {
	text := ""
	if id != 0 {
		text = strconv.FormatInt(id, 10)
	}
	s.write(frame(name, text, data))
}

// frame is one event as the stream has it.
func frame(name, id string, data any) []byte {
	body, err := json.Marshal(data)
	if err != nil {
		return nil // the wire types always have a JSON form
	}
	var b bytes.Buffer
	b.Grow(len(body) + len(name) + 48)
	if name != "" {
		b.WriteString("event: " + name + "\n")
	}
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	b.WriteString("data: ")
	b.Write(body)
	b.WriteString("\n\n")
	return b.Bytes()
}

// readerTime is how long a reader may take nothing: then she is cut off, and may come back.
const readerTime = time.Minute

// write reports whether it could. A reader who has gone ends the request's context, which ends whoever sends; one who
// takes nothing does not.
func (s *Stream) write(b []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.c.SetWriteDeadline(time.Now().Add(readerTime)) // not all connections have one
	_, err := s.w.Write(b)
	return errors.Join(err, s.c.Flush()) == nil
}
