package sshgate

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/errs"
	"slipway/internal/sshauth"
	"slipway/internal/testenv"
)

// TestBrowser: who has no key logs in by her browser, and only as herself.
func TestBrowser(t *testing.T) {
	for user, lets := range map[string]bool{"alice": true, "bob": false, "": false} {
		h := open(t, func(c *Config, h *hall) { c.Browser = true })
		h.keeper.browser = func(login string) (Prompt, error) {
			return Prompt{Words: "open https://hub/login and type BCDF-GHJK", Until: time.Now().Add(time.Minute), Await: func(context.Context) (Pass, error) {
				if user == "" {
					return Pass{}, errs.New(errs.Forbidden, "refused")
				}
				return Pass{Owner: Owner{Hub: "main", User: user}, Session: sshauth.AnySession}, nil
			}}, nil
		}
		cfg, said := h.clientConfig("alice", nil), ""
		cfg.Auth = []ssh.AuthMethod{ssh.KeyboardInteractive(func(_, words string, questions []string, _ []bool) ([]string, error) {
			said += words // as a client without a terminal does, which shows no question
			return make([]string, len(questions)), nil
		})}
		c, err := ssh.Dial("tcp", h.address, cfg)
		if (err == nil) != lets || strings.Count(said, "BCDF-GHJK") != 1 {
			t.Errorf("%q: %v, %q", user, err, said)
		}
		if err == nil {
			_ = c.Close()
		}
	}
}

// TestShow: a person reads the words once, in the question or where no question was shown.
func TestShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for took, want := range map[time.Duration]string{0: "Qwords\nThen press Enter here: Iwords\n", 2 * time.Second: "Qwords\nThen press Enter here: "} {
			said := ""
			err := show(func(_, words string, questions []string, _ []bool) ([]string, error) {
				if len(questions) == 0 {
					said += "I" + words
					return nil, nil
				}
				said += "Q" + questions[0]
				time.Sleep(took)
				return []string{""}, nil
			}, "words\n")
			if err != nil || said != want {
				t.Errorf("after %s: %q, %v", took, said, err)
			}
		}
		if err := show(func(string, string, []string, []bool) ([]string, error) { return nil, errLeft }, ""); !errors.Is(err, errLeft) {
			t.Error(err)
		}
	})
}

// TestBrowserLeft: who leaves while she is waited for is not waited for.
func TestBrowserLeft(t *testing.T) {
	h := open(t, func(c *Config, h *hall) { c.Browser = true })
	waiting, over := make(chan struct{}), make(chan struct{})
	h.keeper.browser = func(string) (Prompt, error) {
		return Prompt{Words: "x", Until: time.Now().Add(time.Minute), Await: func(ctx context.Context) (Pass, error) {
			close(waiting)
			<-ctx.Done()
			close(over)
			return Pass{}, ctx.Err()
		}}, nil
	}
	raw, err := net.Dial("tcp", h.address)
	if err != nil {
		t.Fatal(err)
	}
	cfg := h.clientConfig("alice", nil)
	cfg.Auth = []ssh.AuthMethod{ssh.KeyboardInteractive(func(_, _ string, q []string, _ []bool) ([]string, error) { return make([]string, len(q)), nil })}
	go func() { _, _, _, _ = ssh.NewClientConn(raw, h.address, cfg) }()
	testenv.Receive(t, "she is waited for", waiting)
	_ = raw.Close()
	testenv.Receive(t, "nobody waits for her any more", over)
}
