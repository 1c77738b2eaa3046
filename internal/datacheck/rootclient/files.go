package rootclient

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Entry is what a directory has.
type Entry struct {
	Name    string
	Dir     bool
	Offline bool // on tape alone: who reads it has it called back
	Size    int64
}

// Options of opening and listing.
const (
	openRead  = 0x10
	openNew   = 0x08
	openWrite = 0x20
	openWhole = 0x1000 // the server removes it unless it is closed
	withStat  = 0x02
	isDir     = 0x02
	isOffline = 0x08
	chunk     = 1 << 20
)

func target(path, opaque string) []byte {
	if opaque != "" {
		path += "?" + opaque
	}
	return []byte(path)
}

// List returns what is in a directory; as much as is taken of one that is very long, with ErrMore.
func (c Client) List(ctx context.Context, server, path string) (list []Entry, err error) {
	err = c.at(ctx, server, func(s *conn, opaque string) error {
		var params [16]byte
		params[15] = withStat
		said, err := s.ask(ctx, reqList, params, target(path, opaque))
		if errors.Is(err, errLong) {
			said, err = said[:bytes.LastIndexByte(said, '\n')+1], ErrMore
		}
		list = entries(string(said))
		return err
	})
	return list, err
}

// entries reads a listing: with what is known of each, a line of its own behind each name, when the first two lines say
// nothing.
func entries(text string) (list []Entry) {
	lines := strings.Split(strings.Trim(text, "\n\x00"), "\n")
	detailed := len(lines) >= 2 && lines[0] == "." && lines[1] == "0 0 0 0"
	if !detailed {
		for _, name := range lines {
			if name != "" {
				list = append(list, Entry{Name: name, Size: -1})
			}
		}
		return list
	}
	for i := 2; i+1 < len(lines); i += 2 {
		e := Entry{Name: lines[i], Size: -1}
		if f := strings.Fields(lines[i+1]); len(f) >= 3 {
			e.Size, _ = strconv.ParseInt(f[1], 10, 64)
			flags, _ := strconv.Atoi(f[2])
			e.Dir, e.Offline = flags&isDir != 0, flags&isOffline != 0
		}
		list = append(list, e)
	}
	return list
}

// open opens a file and gives its handle in the place where requests have it.
func open(ctx context.Context, s *conn, path []byte, mode, options uint16) (handle [16]byte, err error) {
	var params [16]byte
	binary.BigEndian.PutUint16(params[:], mode)
	binary.BigEndian.PutUint16(params[2:], options)
	said, err := s.ask(ctx, reqOpen, params, path)
	if err == nil && len(said) < 4 {
		err = errStrange
	}
	copy(handle[:4], said)
	return handle, err
}

// Read reads a file from its beginning, at most so many bytes, and gives how many there were.
func (c Client) Read(ctx context.Context, server, path string, limit int) (n int, err error) {
	err = c.at(ctx, server, func(s *conn, opaque string) error {
		n = 0
		file, err := open(ctx, s, target(path, opaque), 0, openRead)
		if err != nil {
			return err
		}
		for n < limit {
			params := file
			binary.BigEndian.PutUint64(params[4:], uint64(n))
			binary.BigEndian.PutUint32(params[12:], uint32(min(chunk, limit-n)))
			said, err := s.ask(ctx, reqRead, params, nil)
			if err != nil {
				return err
			}
			if n += len(said); len(said) == 0 {
				break
			}
		}
		_, err = s.ask(ctx, reqClose, file, nil)
		return err
	})
	return n, err
}

// Write makes a new file of at most a mebibyte. Where there is one of that name it fails. A server that can removes one
// that is not finished; where it could not be, and may be there, the error is an ErrHalf.
func (c Client) Write(ctx context.Context, server, path string, data []byte) error {
	made := false
	err := c.at(ctx, server, func(s *conn, opaque string) error {
		file, err := open(ctx, s, target(path, opaque), 0o600, openNew|openWrite|openWhole)
		if made = !declined(err); err != nil {
			return err
		}
		if _, err := s.ask(ctx, reqWrite, file, data); err != nil {
			return err
		}
		_, err = s.ask(ctx, reqClose, file, nil)
		return err
	})
	if err != nil && made {
		return fmt.Errorf("%w: %w", ErrHalf, err)
	}
	return err
}

// declined reports whether a server has said that it does not do what it was asked for.
func declined(err error) bool {
	_, refused := errors.AsType[*Refused](err)
	_, sent := errors.AsType[*elsewhere](err)
	return refused || sent
}

// Remove removes a file.
func (c Client) Remove(ctx context.Context, server, path string) error {
	return c.at(ctx, server, func(s *conn, opaque string) error {
		_, err := s.ask(ctx, reqRemove, [16]byte{}, target(path, opaque))
		return err
	})
}
