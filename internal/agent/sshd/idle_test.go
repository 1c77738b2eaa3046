package sshd

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"slipway/internal/testenv"
)

// TestIdleConnections: by what goes through real connections it is told whether somebody works. An open shell or editor
// that does nothing but say that it is still there is left to the idle limit; a key that is pressed, and a file on its
// way, are not.
func TestIdleConnections(t *testing.T) {
	testenv.Need(t, testenv.OpenSSH)
	g := newGateway(t)
	last := func() time.Time { _, at := g.server.Activity(); return at }
	still := func(what string) {
		t.Helper()
		for range 5 { // what is shown of a key may be on its way
			before := last()
			if <-time.After(2500 * time.Millisecond); last() == before {
				return
			}
		}
		t.Errorf("%s is activity", what)
	}
	works := func(what string) {
		t.Helper()
		before := last()
		until(t, what+" is activity", func() bool { return last().After(before) })
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	shell := g.command(ctx, "ssh", "-tt", "-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=1000", "alice@x", "echo ready; exec cat >/dev/null")
	keys, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	readUntil(t, said, "ready")
	far := listen(t, "tcp", "127.0.0.1:0")
	defer far.Close()
	go accept(far, func(c net.Conn) { _, _ = io.Copy(io.Discard, c); _ = c.Close() })
	editor, err := g.client().Dial("tcp", far.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	murmurs := time.AfterFunc(0, func() {
		for ctx.Err() == nil {
			if _, err := editor.Write(make([]byte, 4)); err != nil {
				return
			}
			<-time.After(200 * time.Millisecond)
		}
	})
	defer murmurs.Stop()
	still("an open shell, and an editor that says that it is there,")

	_, _ = io.WriteString(keys, "x")
	works("a key that is pressed")
	still("the shell after it")
	_, _ = editor.Write(make([]byte, 2*murmur))
	works("an editor that is worked in")

	blob := filepath.Join(t.TempDir(), "blob")
	if err := os.WriteFile(blob, make([]byte, 16<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	copying := g.command(ctx, "scp", "-l", "800", blob, "alice@x:copy")
	if err := copying.Start(); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		works("a file on its way")
	}
	cancel()
	_, _ = shell.Wait(), copying.Wait()
}
