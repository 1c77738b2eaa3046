package kernels

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
)

// How much a websocket reads and writes at once. It has these buffers for as long as it lasts, and most do nothing.
const (
	readAhead   = 1 << 10
	writtenOnce = 2 << 10
)

// slim gives a connection with smaller buffers than net/http does.
type slim struct {
	http.ResponseWriter
	conn net.Conn // once it is taken over
}

// Unwrap gives http.ResponseController the way to the rest.
func (s *slim) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Hijack takes the connection over.
func (s *slim) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, both, err := http.NewResponseController(s.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	s.conn = conn
	conn = promptly(conn)
	ahead, _ := both.Reader.Peek(both.Reader.Buffered()) // it is there
	in := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(ahead)), conn), max(readAhead, len(ahead)))
	_, _ = in.Peek(len(ahead)) // what the websocket keeps of it is what is buffered
	return conn, bufio.NewReadWriter(in, bufio.NewWriterSize(conn, writtenOnce)), nil
}
