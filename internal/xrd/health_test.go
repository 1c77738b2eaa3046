package xrd_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"slipway/internal/xrd"
	"slipway/internal/xrd/xrdtest"
)

// run looks at the caches of elements until the test ends.
func run(t *testing.T, elements ...xrd.Element) *xrd.Storage {
	s := xrd.New(xrd.Config{Elements: elements, Every: 50 * time.Millisecond, Patience: 2 * time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

// leads waits until a reader of name is sent to a server.
func leads(t *testing.T, s *xrd.Storage, name, server string) {
	t.Helper()
	xrdtest.Eventually(t, name+" is at "+server, func() error {
		p, err := s.URL(name, xrd.Use{})
		if err == nil && !strings.HasPrefix(p.URL, server+"/") {
			err = errors.New(p.URL + ": " + p.Why)
		}
		return err
	})
}

func TestReadersGoWhereTheDataAnswers(t *testing.T) {
	origin := xrdtest.Origin(t)
	cache := xrdtest.Cache(t, origin)
	s := run(t, xrd.Element{Name: "eos", Origin: origin.URL, Path: "/data", Cache: cache.URL, Write: true})
	leads(t, s, "eos:a", cache.URL)
	cache.Kill()
	leads(t, s, "eos:a", origin.URL)
	cache.Start()
	leads(t, s, "eos:a", cache.URL)
	cache.Freeze() // it takes connections, and says nothing
	leads(t, s, "eos:a", origin.URL)
	cache.Thaw()
	leads(t, s, "eos:a", cache.URL)
	if p, err := s.URL("eos:a", xrd.Use{Write: true}); err != nil || p.Cached {
		t.Errorf("a writer is sent to %+v, %v", p, err)
	}
}

func TestWhatSpeaksAnotherProtocolIsNoCache(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("SSH-2.0-something else\r\n"))
			_ = c.Close()
		}
	}()
	err = xrd.New(xrd.Config{}).Ping(t.Context(), "root://"+l.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "no XRootD server") && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
}
