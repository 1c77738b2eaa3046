package sshd

import (
	"bytes"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

func TestFiles(t *testing.T) {
	g := newGateway(t)
	c, err := sftp.NewClient(g.client())
	if err != nil {
		t.Fatal(err)
	}
	if wd, err := c.Getwd(); wd != g.home || err != nil {
		t.Errorf("it begins at %q, %v", wd, err)
	}
	want := make([]byte, 5<<20+3)
	_, _ = rand.Read(want)
	f, err := c.Create("data")
	if err == nil {
		_, err = io.Copy(f, bytes.NewReader(want))
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(g.home, "data")); !bytes.Equal(b, want) || err != nil {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if f, err = c.Open("data"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(f); !bytes.Equal(b, want) || err != nil {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// At the end of input the file server ends with success: clients take anything else for a failed copy.
func TestFilesEnd(t *testing.T) {
	ch, requests, err := newGateway(t).client().OpenChannel("session", nil)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := ch.SendRequest("subsystem", true, ssh.Marshal(struct{ Name string }{"sftp"})); !ok || err != nil {
		t.Fatal(ok, err)
	}
	_ = ch.CloseWrite()
	if r := <-requests; r == nil || r.Type != "exit-status" || !bytes.Equal(r.Payload, make([]byte, 4)) {
		t.Errorf("%+v", r)
	}
	if err := newGateway(t).session().RequestSubsystem("netconf"); err == nil {
		t.Error("another subsystem was started")
	}
}
