package xrd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"time"

	"slipway/internal/errs"
)

// Run looks at the caches until ctx ends, each by itself: one that hangs delays nobody.
func (s *Storage) Run(ctx context.Context) error {
	seen, done := map[string]bool{}, make(chan struct{})
	for _, e := range s.cfg.Elements {
		if e.Cache != "" && !seen[e.Cache] {
			seen[e.Cache] = true
			go func() { defer func() { done <- struct{}{} }(); s.attend(ctx, e.Cache) }()
		}
	}
	for range seen {
		<-done
	}
	<-ctx.Done()
	return ctx.Err()
}

// attend looks at one cache. It is given up when it has not answered twice in a row: a machine may just be busy.
func (s *Storage) attend(ctx context.Context, cache string) {
	for ctx.Err() == nil {
		err := s.Ping(ctx, cache)
		if err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
			err = s.Ping(ctx, cache)
		}
		if ctx.Err() != nil {
			return
		}
		s.note(cache, err)
		select {
		case <-ctx.Done():
		case <-time.After(s.cfg.Every):
		}
	}
}

func (s *Storage) note(cache string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.states[cache]
	now := State{Up: err == nil, Since: was.Since}
	if err != nil {
		now.Trouble = errs.Brief(err)
	}
	if now.Up != was.Up || !known {
		now.Since = time.Now()
		if now.Up {
			s.cfg.Logger.Info("a storage cache answers", "cache", cache)
		} else {
			s.cfg.Logger.Warn("a storage cache does not answer: reads go to the origin", "cache", cache, "err", err)
		}
	}
	s.states[cache] = now
}

// Ping says whether an XRootD server answers in time: the first words of the protocol, before any login.
func (s *Storage) Ping(ctx context.Context, server string) error {
	u, err := url.Parse(server)
	if err != nil {
		return errs.New(errs.Invalid, "%s: %w", server, err)
	}
	port := u.Port()
	if port == "" {
		port = "1094"
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Patience)
	defer cancel()
	if err := s.handshake(ctx, net.JoinHostPort(u.Hostname(), port)); err != nil {
		return errs.New(errs.Unavailable, "%s: %w", u.Host, plainer(err)).
			With("see that xrootd runs there and this host may reach its port")
	}
	return nil
}

func (s *Storage) handshake(ctx context.Context, address string) error {
	c, err := s.cfg.Dial(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	// XRootD protocol specification, "Initial Client-Server Handshake"
	hello := binary.BigEndian.AppendUint32(make([]byte, 12), 4)
	if _, err := c.Write(binary.BigEndian.AppendUint32(hello, 2012)); err != nil {
		return err
	}
	var answer [16]byte // streamid, status, length 8; protocol version, kind of server
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return err
	}
	if !bytes.Equal(answer[:8], []byte{0, 0, 0, 0, 0, 0, 0, 8}) {
		return errors.New("what answers is no XRootD server")
	}
	return nil
}

// plainer says what a network error means.
func plainer(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("it has not answered in time")
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens there: %w", syscall.ECONNREFUSED)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it has hung up before it answered")
	default:
		return err
	}
}
