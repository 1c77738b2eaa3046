package sshtunnel

import (
	"bufio"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"slices"
	"testing"

	"golang.org/x/crypto/ssh"
)

// firstLogin is the login as the first version had it, and as every version of a session that runs on through an
// upgrade reads it.
type firstLogin struct{ ID, User, Address, Local, Key string }

// firstAgent serves a connection's stream as the first version did, which refuses the requests that it does not know.
func firstAgent(stream net.Conn) error {
	in := bufio.NewReader(stream)
	kind, size, err := readHeader(in)
	if err != nil {
		return err
	}
	var l firstLogin
	if err := readRest(in, size, &l); err != nil || kind != frameLogin || l.User != "alice" || l.Key != "SHA256:k" {
		return errors.Join(err, errors.New("not a login of the first version"))
	}
	out := pipe{to: stream}
	for err = out.send(frameAccept, nil); err == nil; err = out.send(frameReply, &replyFrame{OK: false}) {
		var r requestFrame
		if _, size, err = readHeader(in); err == nil {
			err = readRest(in, size, &r)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// TestServiceUpgraded: who comes into a session whose agent is of the first version gets in, whether or not the site
// denies networks.
func TestServiceUpgraded(t *testing.T) {
	for _, deny := range [][]string{nil, {"192.0.2.0/24"}} {
		ended := make(chan error, 1)
		dial, stop := listening(t, func(c net.Conn) { ended <- firstAgent(c) })
		c, err := Dial(t.Context(), dial, Login{ID: rand.Text(), User: "alice", Key: "SHA256:k"}, deny)
		if err != nil {
			t.Fatalf("%q: %v; the agent: %v", deny, err, <-ended)
		}
		if c.Heeds() != (deny == nil) {
			t.Errorf("%q: it heeds: %v", deny, c.Heeds())
		}
		if ok, _, err := c.Request(t.Context(), "keepalive@openssh.com", true, nil); ok || err != nil {
			t.Errorf("%q: %v, %v", deny, ok, err)
		}
		c.Close()
		if err := <-ended; err != io.EOF {
			t.Errorf("%q: the agent: %v", deny, err)
		}
		stop()
	}
}

// TestServiceRolledBack: a gateway of the first version gets into a session of this one.
func TestServiceRolledBack(t *testing.T) {
	dial, a, _ := link(t)
	stream, err := dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := pipe{to: stream}
	if err := out.send(frameLogin, &firstLogin{ID: "1", User: "alice", Address: "192.0.2.7:1"}); err != nil {
		t.Fatal(err)
	}
	if err := accepted(newStream(stream)); err != nil {
		t.Error(err)
	}
	_ = stream.Close()
	if user := <-a.left; user != "alice" {
		t.Errorf("%q has left", user)
	}
}

// TestDenied: a session is told of denied networks before anything else, and what the client says of them later changes
// nothing.
func TestDenied(t *testing.T) {
	dial, a, _ := link(t)
	networks := []string{"192.0.2.0/24", "2001:db8::/32"}
	c, err := Dial(t.Context(), dial, Login{ID: rand.Text(), User: "alice"}, networks)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !c.Heeds() {
		t.Error("it does not heed them")
	}
	for _, other := range [][]byte{ssh.Marshal(&denyFrame{[]string{"10.0.0.0/8"}}), ssh.Marshal(&denyFrame{}), nil} {
		if ok, _, err := c.Request(t.Context(), denyKind, true, other); ok || err != nil {
			t.Errorf("%q: %v, %v", other, ok, err)
		}
	}
	if ok, _, err := c.Request(t.Context(), "echo", true, nil); !ok || err != nil {
		t.Error(ok, err)
	}
	if told := (<-a.asked).Deny(); !slices.Equal(told, networks) {
		t.Errorf("%q", told)
	}
}
