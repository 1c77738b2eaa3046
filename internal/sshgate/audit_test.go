package sshgate

import (
	"context"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"slipway/hubapi"
)

// line finds the log's line that begins with a message, or waits for it.
func (h *hall) line(message string) string {
	h.t.Helper()
	found := ""
	eventually(h.t, message+" is logged", func() bool {
		for l := range strings.Lines(h.log.String()) {
			if strings.Contains(l, "msg="+message) {
				found = l
			}
		}
		return found != ""
	})
	return found
}

// TestRefusedLine: who looks for attackers, or for why somebody does not get in, finds the name, the keys and the
// address.
func TestRefusedLine(t *testing.T) {
	h := open(t, nil)
	var keys []ssh.Signer
	for range mostKeys + 1 {
		keys = append(keys, newSigner(t))
	}
	name := "mallory\n" + strings.Repeat("x", 300)
	cfg := h.clientConfig(name, nil)
	cfg.Auth = []ssh.AuthMethod{ssh.PublicKeys(keys...)}
	if _, err := ssh.Dial("tcp", h.address, cfg); err == nil {
		t.Fatal("mallory is in")
	}
	line := h.line(`"ssh refused"`)
	for i, k := range keys {
		if strings.Contains(line, ssh.FingerprintSHA256(k.PublicKey())) != (i < mostKeys) {
			t.Errorf("the %dth key: %s", i, line)
		}
	}
	for _, want := range []string{`login="mallory\nxxx`, `xxx..."`, "tried=6", "address=127.0.0.1:"} {
		if !strings.Contains(line, want) {
			t.Errorf("no %s in %s", want, line)
		}
	}
	if len(line) > 700 {
		t.Errorf("%d bytes: %s", len(line), line)
	}
}

func TestFingerprint(t *testing.T) {
	key := newSigner(t).PublicKey()
	for _, k := range []ssh.PublicKey{key, &ssh.Certificate{Key: key}} {
		if got := fingerprint(k); got != ssh.FingerprintSHA256(key) {
			t.Errorf("%T: %s", k, got)
		}
	}
}

// TestWhatRan: a session's channel says what has run in it, and not what was asked for in vain; a command is not told.
func TestWhatRan(t *testing.T) {
	for want, requests := range map[string][]ssh.Request{
		"what=exec":               {{Type: "exec", WantReply: true, Payload: ssh.Marshal(struct{ C string }{"true"})}},
		"what=shell":              {{Type: "subsystem", WantReply: true, Payload: ssh.Marshal(struct{ N string }{"unknown"})}, {Type: "shell"}},
		`what="subsystem sftp"`:   {{Type: "subsystem", WantReply: true, Payload: ssh.Marshal(struct{ N string }{"sftp"})}},
		`what="subsystem xxxxxx`:  {{Type: "subsystem", Payload: ssh.Marshal(struct{ N string }{strings.Repeat("x", 500)})}},
		`kind=session to_client=`: nil,
	} {
		t.Run(want, func(t *testing.T) {
			h := open(t, nil)
			c := h.alice("alice")
			h.line(`"ssh login"`)
			ch, reqs, err := c.OpenChannel(kindSession, nil)
			if err != nil {
				t.Fatal(err)
			}
			go ssh.DiscardRequests(reqs)
			for _, r := range requests {
				if _, err := ch.SendRequest(r.Type, r.WantReply, r.Payload); err != nil {
					t.Fatal(err)
				}
			}
			_ = ch.CloseWrite()
			if requests == nil {
				_ = ch.Close()
			}
			line := h.line(`"ssh channel"`)
			if !strings.Contains(line, want) || strings.Contains(line, "true") || len(line) > 500 {
				t.Error(line)
			}
		})
	}
}

// TestWhatRanEarly: a command that was given before its session ran is named as well.
func TestWhatRanEarly(t *testing.T) {
	h := open(t, func(_ *Config, h *hall) {
		h.engine.begin = func(context.Context, hubapi.ServerRequest, func(hubapi.Progress)) error { return nil }
	})
	if _, _, err := run(t, h.alice("alice+gpu10"), "true", ""); err == nil {
		t.Error("no exit status")
	}
	if line := h.line(`"ssh channel"`); !strings.Contains(line, "what=exec") {
		t.Error(line)
	}
}

// TestForwardLines: also a forward that comes to nothing has its line, and the listening of -R.
func TestForwardLines(t *testing.T) {
	h := open(t, nil)
	c := h.alice("alice")
	if _, err := c.Dial("tcp", "nobody:80"); err == nil || !strings.Contains(err.Error(), "Connection refused") {
		t.Error(err)
	}
	type address struct {
		Host string
		Port uint32
	}
	for _, want := range []bool{true, false} { // the log tells what came of it also where the client does not ask
		if _, _, err := c.SendRequest("tcpip-forward", want, ssh.Marshal(address{"localhost", 8080})); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := c.SendRequest("streamlocal-forward@openssh.com", true, ssh.Marshal(struct{ P string }{"/tmp/s"})); err != nil {
		t.Fatal(err)
	}
	for message, want := range map[string]string{
		`"ssh forward failed"`:   `kind=direct-tcpip to=nobody:80 reason="Connection refused"`,
		`"ssh listening"`:        "kind=tcpip-forward at=localhost:8080",
		`"ssh listening failed"`: "kind=streamlocal-forward@openssh.com at=/tmp/s",
	} {
		if line := h.line(message); !strings.Contains(line, want) || !strings.Contains(line, "user=alice") || !strings.Contains(line, "session=s-1") {
			t.Error(line)
		}
	}
	if n := strings.Count(h.log.String(), `msg="ssh listening"`); n != 2 {
		t.Errorf("%d lines of listening", n)
	}
	h.stop()
	for _, tt := range []struct {
		r      ssh.Request
		answer []byte
		want   string
	}{
		{ssh.Request{Type: "tcpip-forward", Payload: ssh.Marshal(address{"", 0})}, []byte{0, 0, 0x1f, 0x90}, ":8080"},
		{ssh.Request{Type: "tcpip-forward", Payload: ssh.Marshal(address{"::1", 22})}, nil, "[::1]:22"},
		{ssh.Request{Type: "tcpip-forward", Payload: []byte("x")}, nil, ""},
		{ssh.Request{Type: "streamlocal-forward@openssh.com", Payload: []byte("x")}, nil, ""},
	} {
		if got := listenAddress(&tt.r, tt.answer); got != tt.want {
			t.Errorf("%+v: %q", tt.r, got)
		}
	}
}
