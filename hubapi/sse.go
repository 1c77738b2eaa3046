package hubapi

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// eventLimit bounds one event of a stream.
const eventLimit = 4 << 20

// ServerEvent is one event of a text/event-stream.
type ServerEvent struct {
	Name string // "message" when the stream names none
	ID   string // the last that the stream named
	Data string
}

// EventReader reads a text/event-stream. An event that the stream's end has cut off is never given.
type EventReader struct {
	lines *bufio.Scanner
	id    string
	first bool
}

// NewEventReader reads events from r.
func NewEventReader(r io.Reader) *EventReader {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), eventLimit)
	lines.Split(scanLine)
	return &EventReader{lines: lines, first: true}
}

// Next returns the next event, io.EOF behind the last.
func (e *EventReader) Next() (ServerEvent, error) {
	var data []string
	name, size := "message", 0
	for e.lines.Scan() {
		line := e.lines.Text()
		if e.first {
			line, e.first = strings.TrimPrefix(line, "\ufeff"), false
		}
		if line == "" {
			if data != nil {
				return ServerEvent{Name: name, ID: e.id, Data: strings.Join(data, "\n")}, nil
			}
			name = "message"
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "data":
			if size += len(value); size > eventLimit {
				return ServerEvent{}, fmt.Errorf("an event of the stream has more than %d bytes", eventLimit)
			}
			data = append(data, value)
		case "id":
			if !strings.ContainsRune(value, 0) {
				e.id = value
			}
		}
	}
	if err := e.lines.Err(); err != nil {
		return ServerEvent{}, err
	}
	return ServerEvent{}, io.EOF
}

// scanLine splits at LF, CRLF and CR, as the format has it. Without an end the rest of the stream is no line.
func scanLine(data []byte, atEOF bool) (advance int, token []byte, err error) {
	for i, b := range data {
		switch {
		case b == '\n':
			return i + 1, data[:i], nil
		case b == '\r' && i+1 < len(data) && data[i+1] == '\n':
			return i + 2, data[:i], nil
		case b == '\r' && (i+1 < len(data) || atEOF):
			return i + 1, data[:i], nil
		}
	}
	if atEOF {
		return len(data), nil, nil
	}
	return 0, nil, nil
}
