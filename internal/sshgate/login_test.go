package sshgate

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"slipway/internal/errs"
)

// TestManyKeys: agents offer all that they have.
func TestManyKeys(t *testing.T) {
	h := open(t, nil)
	for n, lets := range map[int]bool{mostTries - 1: true, mostTries: false} {
		var keys []ssh.Signer
		for range n {
			keys = append(keys, newSigner(t))
		}
		cfg := h.clientConfig("alice", nil)
		cfg.Auth = []ssh.AuthMethod{ssh.PublicKeys(append(keys, h.keeper.alice)...)}
		c, err := ssh.Dial("tcp", h.address, cfg)
		if (err == nil) != lets {
			t.Errorf("behind %d others: %v", n, err)
		}
		if err == nil {
			_ = c.Close()
		}
	}
}

// banner collects what is said before a login.
func banner(cfg *ssh.ClientConfig) *strings.Builder {
	var said strings.Builder
	cfg.BannerCallback = func(m string) error {
		said.WriteString(m)
		return nil
	}
	return &said
}

// TestAdmission: who has proved herself is told why she may not come in.
func TestAdmission(t *testing.T) {
	from := func(groups []string, network string) []Network {
		return []Network{{Groups: groups, From: []netip.Prefix{netip.MustParsePrefix(network)}}}
	}
	for name, tt := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"from anywhere":        {func(*Config) {}, ""},
		"from her group's":     {func(c *Config) { c.Networks = from([]string{"higgs"}, "127.0.0.0/8") }, ""},
		"from everybody's":     {func(c *Config) { c.Networks = from([]string{"*"}, "127.0.0.0/8") }, ""},
		"from another group's": {func(c *Config) { c.Networks = from([]string{"top"}, "127.0.0.0/8") }, "you may not come from 127.0.0.1"},
		"from another network": {func(c *Config) { c.Networks = from([]string{"*", "higgs"}, "192.0.2.0/24") }, "you may not come from 127.0.0.1"},
		"unknown at the Hub":   {func(c *Config) { c.Known = func(context.Context, Owner) (bool, error) { return false, nil } }, "does not know you"},
		"the Hub does not answer": {func(c *Config) {
			c.Known = func(context.Context, Owner) (bool, error) { return false, errs.New(errs.Unavailable, "down") }
		}, ""},
		"has too many": {func(c *Config) { c.AtOnce = 0 }, "0 connections open"},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, func(c *Config, _ *hall) { tt.change(c) })
			cfg := h.clientConfig("alice", h.keeper.alice)
			said := banner(cfg)
			c, err := ssh.Dial("tcp", h.address, cfg)
			if (err == nil) != (tt.says == "") || !strings.Contains(said.String(), tt.says) {
				t.Errorf("%v, %q", err, said)
			}
			if err == nil {
				_ = c.Close()
			}
		})
	}
}

// TestBarredOnce: who may not come in is told once, however many ways in she tries.
func TestBarredOnce(t *testing.T) {
	h := open(t, func(c *Config, h *hall) {
		c.Networks = []Network{{Groups: []string{"top"}, From: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
		c.Browser = true
		h.keeper.browser = func(string) (Prompt, error) { t.Error("the browser is tried"); return Prompt{}, errRefused }
	})
	cfg := h.clientConfig("alice", nil)
	cfg.Auth = []ssh.AuthMethod{
		ssh.RetryableAuthMethod(ssh.PublicKeys(h.keeper.alice), 3),
		ssh.KeyboardInteractive(func(string, string, []string, []bool) ([]string, error) { return nil, nil }),
	}
	said := banner(cfg)
	if _, err := ssh.Dial("tcp", h.address, cfg); err == nil || strings.Count(said.String(), "you may not come from") != 1 {
		t.Errorf("%v, %q", err, said)
	}
}

// TestAtOnce: a user has no more than her connections, and gets back those that she closes.
func TestAtOnce(t *testing.T) {
	h := open(t, func(c *Config, _ *hall) { c.AtOnce = 2 })
	first := h.alice("alice")
	h.alice("alice")
	if _, err := h.client("alice", h.keeper.alice); err == nil {
		t.Error("one too many")
	}
	_ = first.Close()
	eventually(t, "there is room again", func() bool {
		c, err := h.client("alice", h.keeper.alice)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

func TestKnown(t *testing.T) {
	asked, answer := 0, error(nil)
	k := newKnown(func(context.Context, Owner) (bool, error) { asked++; return answer == nil, answer })
	for range 3 {
		if !k.is(t.Context(), Owner{Hub: "main", User: "alice"}) {
			t.Error("unknown")
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	if !newKnown(nil).is(t.Context(), Owner{}) {
		t.Error("nobody is asked, and she is unknown")
	}
}
