package sshgate

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/crypto/ssh"
)

// TestHostKeys: a client learns the other host keys, and has them proved.
func TestHostKeys(t *testing.T) {
	h := open(t, nil)
	raw, err := net.Dial("tcp", h.address)
	if err != nil {
		t.Fatal(err)
	}
	conn, chans, reqs, err := ssh.NewClientConn(raw, h.address, h.clientConfig("alice", h.keeper.alice))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		for range chans {
			continue
		}
	}()
	announced := <-reqs
	go ssh.DiscardRequests(reqs)
	if announced.Type != "hostkeys-00@openssh.com" {
		t.Fatal(announced.Type)
	}
	ok, answer, err := conn.SendRequest("hostkeys-prove-00@openssh.com", true, announced.Payload)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, k := range []ssh.Signer{h.keeper.host, h.keeper.rsa} {
		var next struct {
			Signature []byte
			Rest      []byte `ssh:"rest"`
		}
		var signature ssh.Signature
		if err := errors.Join(ssh.Unmarshal(answer, &next), ssh.Unmarshal(next.Signature, &signature)); err != nil {
			t.Fatal(err)
		}
		data := ssh.Marshal(proof{"hostkeys-prove-00@openssh.com", conn.SessionID(), k.PublicKey().Marshal()})
		if err := k.PublicKey().Verify(data, &signature); err != nil || signature.Format == ssh.KeyAlgoRSA {
			t.Errorf("%s: %v", signature.Format, err)
		}
		answer = next.Rest
	}
	if ok, _, _ := conn.SendRequest("hostkeys-prove-00@openssh.com", true, ssh.Marshal(struct{ K []byte }{newSigner(t).PublicKey().Marshal()})); ok {
		t.Error("a key of somebody else was proved")
	}
}
