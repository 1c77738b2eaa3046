package rootclient

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"time"
	"unicode"
)

// Requests, by the protocol's numbers.
const (
	reqAuth     = 3000
	reqClose    = 3003
	reqList     = 3004
	reqProtocol = 3006
	reqLogin    = 3007
	reqOpen     = 3010
	reqRead     = 3013
	reqRemove   = 3014
	reqWrite    = 3019
)

// Kinds of answers.
const (
	saysOK       = 0
	saysMore     = 4000
	saysUnasked  = 4001
	saysProve    = 4002
	saysError    = 4003
	saysRedirect = 4004
	saysWait     = 4005
	saysLater    = 4006
)

// later is the number of what is said unasked when it is the answer to an earlier request.
const later = 5008

var errStrange = errors.New("what answers does not speak XRootD")

// frame makes a request.
func frame(request uint16, params [16]byte, body []byte) []byte {
	out := binary.BigEndian.AppendUint16([]byte{0, 1}, request)
	out = append(out, params[:]...)
	out = binary.BigEndian.AppendUint32(out, uint32(len(body)))
	return append(out, body...)
}

// ask sends a request and gives the whole answer. A server that says when to ask again is asked again then.
func (s *conn) ask(ctx context.Context, request uint16, params [16]byte, body []byte) ([]byte, error) {
	for {
		if _, err := s.Write(frame(request, params, body)); err != nil {
			return nil, err
		}
		said, err := s.answer(ctx)
		again, waits := errors.AsType[*wait](err)
		if !waits {
			return said, err
		}
		select {
		case <-time.After(again.time):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// wait is a server's word to ask again later.
type wait struct{ time time.Duration }

func (w *wait) Error() string { return "it asks to wait " + w.time.String() }

// errLong comes with as much of an answer as is taken.
var errLong = errors.New("its answer is too long")

// answer reads an answer to its end.
func (s *conn) answer(ctx context.Context) ([]byte, error) {
	var all []byte
	for {
		kind, body, err := s.part()
		if err != nil {
			return nil, err
		}
		if kind == saysUnasked {
			if len(body) < 16 || binary.BigEndian.Uint32(body) != later {
				continue
			}
			kind, body = binary.BigEndian.Uint16(body[10:]), body[16:]
		}
		if all = append(all, body...); len(all) > most {
			return all[:most], errLong
		}
		switch kind {
		case saysOK:
			return all, nil
		case saysMore, saysLater:
			if kind == saysLater {
				all = nil
			}
		default:
			return nil, verdict(kind, body)
		}
	}
}

// verdict is the error of an answer that is none.
func verdict(kind uint16, body []byte) error {
	switch {
	case kind == saysRedirect:
		return redirect(body)
	case kind == saysWait && len(body) >= 4:
		return &wait{time.Duration(binary.BigEndian.Uint32(body)) * time.Second}
	case kind == saysProve:
		return errors.New("it asks for more proof than a token")
	case kind == saysError && len(body) >= 4:
		return &Refused{int(binary.BigEndian.Uint32(body)), words(body[4:])}
	}
	return errStrange
}

// part reads one part of an answer.
func (s *conn) part() (kind uint16, body []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(s, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[4:])
	if size > most {
		return 0, nil, errStrange
	}
	body = make([]byte, size)
	_, err = io.ReadFull(s, body)
	return binary.BigEndian.Uint16(head[2:]), body, err
}

// words makes one short line of what a server says.
func words(b []byte) string {
	text := strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(b), ""))
	return text[:min(len(text), 300)]
}
