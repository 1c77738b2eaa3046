package sshd

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"slipway/internal/testenv"
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
	for target, path := range map[string]string{"data": "link", "../x/./y": "odd", "/abs": "abs"} {
		if err := c.Symlink(target, path); err != nil {
			t.Error(err)
		}
		if got, err := os.Readlink(filepath.Join(g.home, path)); got != target || err != nil {
			t.Errorf("%s leads to %q, %v", path, got, err)
		}
	}
	if err := c.Symlink("x", "no/such"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a link where there is no directory: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// Whatever comes, packets that are answered here are taken, those that open files may get a mode, and all others pass
// as they are.
func FuzzRequests(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x05\x01\x00\x00\x00\x03\x00\x00\x00\x01\x14\x00\x00\x00\x02\x05x"))
	f.Add([]byte("\x00\x00\x00\x0e\x03\x00\x00\x00\x01\x00\x00\x00\x01x\x00\x00\x00\x1a\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x00\x00\x1b\xc8\x00\x00\x00\x01\x00\x00\x00\x12limits@openssh.com"))
	f.Add([]byte("\xff\xff\xff\xff\x14"))
	f.Add([]byte("\x00\x00\x00\x00\x14"))
	f.Fuzz(func(t *testing.T, b []byte) {
		taken := 0
		r := &requests{from: bufio.NewReader(bytes.NewReader(b)), answer: func(_ byte, p []byte) error {
			taken += sftpHead + len(p)
			return nil
		}}
		passed, err := io.ReadAll(r)
		grown := 4 * bytes.Count(b, []byte{sftpOpen})
		if n := taken + len(passed); n > len(b)+grown || err == nil && taken+grown == 0 && !bytes.HasPrefix(b, passed) {
			t.Errorf("%q, %d taken, of %q", passed, taken, b)
		}
	})
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

// While the session's changes are read, nothing is written.
func TestHold(t *testing.T) {
	g := newGateway(t)
	client := g.client()
	c, err := sftp.NewClient(client)
	if err != nil {
		t.Fatal(err)
	}
	release := g.server.Hold()
	made := make(chan error, 1)
	go func() { made <- c.Mkdir("dir") }()
	for range 100 { // the server answers meanwhile
		if _, _, err := client.SendRequest("keepalive@openssh.com", true, nil); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-made:
		t.Error("made, while it was held:", err)
	default:
	}
	release()
	release() // a second time is nothing
	if err := testenv.Receive(t, "made", made); err != nil {
		t.Error(err)
	}
}

// A packet leaves whole, in however many parts it was written.
func TestPackets(t *testing.T) {
	var seen []string
	p := &packets{to: felt{Writer: io.Discard, moved: func(n int) { seen = append(seen, fmt.Sprint(n)) }}}
	for _, part := range []string{"\x00\x00\x00\x02ab", "\x00\x00\x00\x05a", "bcde", "\x00\x00\x00\x01a", "\x00\x00\x00\x02", "ab"} {
		if n, err := io.WriteString(p, part); n != len(part) || err != nil {
			t.Errorf("%q: %d, %v", part, n, err)
		}
	}
	if diff := cmp.Diff([]string{"6", "9", "5", "6"}, seen); diff != "" {
		t.Error(diff)
	}
}

// What is made has the mode that the client names, or that a program of the session would make it with.
func TestModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o002))
	g := newGateway(t)
	c, err := sftp.NewClient(g.client())
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.Create("file")
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Mkdir("dir"); err != nil {
		t.Error(err)
	}
	if err := c.Mkdir("no/such"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory where there is none: %v", err)
	}
	for name, want := range map[string]os.FileMode{"file": 0o664, "dir": 0o775} {
		if st, err := os.Stat(filepath.Join(g.home, name)); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
	if mode := modeIn(7, []byte("sizesizeuseruser\x00\x00\x41\xc0")); mode != 0o700 {
		t.Errorf("among other attributes: %o", mode)
	}
}

// Clients learn what the file server can take, and may ask for as much.
func TestLimits(t *testing.T) {
	g := newGateway(t)
	c, err := sftp.NewClient(g.client(), sftp.MaxPacketUnchecked(maxPart), sftp.UseConcurrentWrites(true))
	if err != nil {
		t.Fatal(err)
	}
	if version, ok := c.HasExtension(limits); version != "1" || !ok {
		t.Errorf("%q, %v", version, ok)
	}
	want := make([]byte, 3*maxPart+1)
	_, _ = rand.Read(want)
	f, err := c.Create("file")
	if err == nil {
		_, err = f.ReadFrom(bytes.NewReader(want))
	}
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := f.ReadAt(got, 0); !bytes.Equal(got, want) || err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	p := &packets{to: &out}
	if err := p.answer("/", sftpExtended, []byte("\x00\x00\x00\x07\x00\x00\x00\x12"+limits)); err != nil || !strings.HasPrefix(out.String(), "\x00\x00\x00\x25\xc9\x00\x00\x00\x07") {
		t.Errorf("%q, %v", out.String(), err)
	}
}
