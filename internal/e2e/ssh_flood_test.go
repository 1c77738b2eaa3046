package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"

	"slipway/internal/testenv"
)

// dial logs alice in by Go's client, which sends what it is told to.
func (p *persona) dial() (*ssh.Client, error) {
	key, err := ssh.ParsePrivateKey([]byte(p.alice.read("key")))
	if err != nil {
		return nil, err
	}
	return p.alice.dialAs(ssh.PublicKeys(key))
}

// bytesOf reads what a script writes with \r, \n and \xNN in it, and has it repeated to a length.
func bytesOf(ts *testscript.TestScript, text string, length ...string) []byte {
	text, err := strconv.Unquote(`"` + text + `"`)
	ts.Check(err)
	if len(length) == 0 {
		return []byte(text)
	}
	n, err := strconv.Atoi(length[0])
	ts.Check(err)
	return bytes.Repeat([]byte(text), n/len(text)+1)[:n]
}

// knock sends bytes in place of ssh, and expects that the connection does not stay: `knock 'SSH-2.0-x\r\n\xff'`, with a
// length to repeat.
func knock(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 || len(args) > 2 {
		ts.Fatalf("usage: knock BYTES [LENGTH]")
	}
	p := personaOf(ts)
	c, err := p.site.tryConnect(p.from)
	ts.Check(err)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(testenv.Hang))
	_, _ = c.Write(bytesOf(ts, args[0], args[1:]...)) // it may be closed before all is sent
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		ts.Fatalf("it keeps its connection")
	}
}

// half opens connections that say something, and holds them to the script's end: `half 40 'SSH-2.0-x\r\n'`.
func half(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: half NUMBER BYTES")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	p, text := personaOf(ts), bytesOf(ts, args[1])
	for range n {
		c, err := p.site.tryConnect(p.from)
		ts.Check(err)
		_, _ = c.Write(text)
		p.held = append(p.held, c)
	}
}

// letsIn runs a program until it succeeds: `lets-in ssh -F alice alice@$GATE true`.
func letsIn(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: lets-in COMMAND ARGS...")
	}
	if !testenv.Within(testenv.Hang, func() bool { return ts.Exec(args[0], args[1:]...) == nil }) {
		ts.Fatalf("%q does not succeed", args)
	}
}

// endedAll expects that the service has ended of the connections that are held all but those that an address may have:
// `ended`.
func endedAll(ts *testscript.TestScript, _ bool, _ []string) {
	const ofAddress = 32
	p := personaOf(ts)
	left := 0
	if !testenv.Within(testenv.Hang, func() bool {
		left = 0
		for _, c := range p.held {
			_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				left++
			}
		}
		return left <= ofAddress
	}) {
		ts.Fatalf("%d of %d are open", left, len(p.held))
	}
}

// crowd opens connections of which none logs in, from several addresses. Meanwhile alice gets in, and the service stays
// within bounds.
func crowd(ts *testscript.TestScript, neg bool, args []string) {
	const addresses, most, mostFiles = 16, 128 << 20, 800 // 512 may be in, and 128 on their way in or out
	all, err := strconv.Atoi(strings.Join(args, ""))
	if neg || err != nil {
		ts.Fatalf("usage: crowd NUMBER")
	}
	p := personaOf(ts)
	before, files, began := p.site.used(ts), p.site.files(ts), time.Now()
	var left, opened atomic.Int64
	left.Store(int64(all))
	var workers sync.WaitGroup
	for i := range addresses {
		workers.Go(func() { p.site.pester(fmt.Sprintf("127.0.1.%d", i+1), &left, &opened) })
	}
	highest, widest, served := before, files, 0
	for left.Load() > 0 {
		if e := p.alice.ssh("echo in"); e.code != 0 {
			ts.Logf("in the crowd: %s", e)
			served = -1
			break
		}
		served++
		highest, widest = max(highest, p.site.used(ts)), max(widest, p.site.files(ts))
	}
	workers.Wait()
	ts.Logf("%d of %d connections were accepted, within %s; alice was let in %d times; the service had %d MB and %d files, and at most %d MB and %d files",
		opened.Load(), all, time.Since(began).Round(time.Millisecond), served, before>>20, files, highest>>20, widest)
	if served < 1 || opened.Load() < int64(all)*9/10 || highest-before > most || widest-files > mostFiles {
		ts.Fatalf("that is too few, or too much")
	}
}

// pester opens connections from an address while there are any left to open, and keeps the latest open.
func (s *sshSite) pester(from string, left, opened *atomic.Int64) {
	greetings := []string{"", "SSH-2.0-half", "SSH-2.0-OpenSSH_9.2\r\n", "SSH-2.0-x\r\n\x00\x00\x05\x00\x04\x14", "nonsense\r\n\r\n"}
	var held []net.Conn
	for n := left.Add(-1); n >= 0; n = left.Add(-1) {
		c, err := s.tryConnect(from)
		if err != nil {
			continue
		}
		opened.Add(1)
		_, _ = io.WriteString(c, greetings[n%int64(len(greetings))])
		if held = append(held, c); len(held) > 200 {
			held[0].Close()
			held = held[1:]
		}
	}
	for _, c := range held {
		c.Close()
	}
}

// used returns how much memory the service has.
func (s *sshSite) used(ts *testscript.TestScript) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Process.Pid))
	ts.Check(err)
	found := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(text)
	if found == nil {
		ts.Fatalf("the service is gone")
	}
	kB, err := strconv.ParseInt(string(found[1]), 10, 64)
	ts.Check(err)
	return kB << 10
}

// files returns how many files the service has open.
func (s *sshSite) files(ts *testscript.TestScript) int {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.process.Process.Pid))
	ts.Check(err)
	return len(list)
}

// payloads sends, after a login, what no client does: all kinds of channels and requests with nothing, little and far
// too much in them.
func payloads(ts *testscript.TestScript, _ bool, _ []string) {
	giant := bytes.Repeat([]byte{0xff}, 200<<10)
	for _, payload := range [][]byte{nil, {0}, {0xff, 0xff, 0xff, 0xff}, giant} {
		c, err := personaOf(ts).dial()
		ts.Check(err)
		for _, kind := range []string{"session", "direct-tcpip", "direct-streamlocal@openssh.com", "x11", "auth-agent@openssh.com", "forwarded-tcpip", "no-such-kind", string(giant[:1000])} {
			if ch, _, err := c.OpenChannel(kind, payload); err == nil {
				for _, request := range []string{"pty-req", "env", "exec", "subsystem", "x11-req", "window-change", "signal", "auth-agent-req@openssh.com", "exit-status", "no-such-request"} {
					_, _ = ch.SendRequest(request, request != "window-change", payload)
				}
				ch.Close()
			}
		}
		for _, request := range []string{"tcpip-forward", "cancel-tcpip-forward", "streamlocal-forward@openssh.com", "hostkeys-prove-00@openssh.com", "no-such-request"} {
			_, _, _ = c.SendRequest(request, true, payload)
		}
		c.Close()
	}
}

// environments sends variables that are none, and far too many: the command that comes behind them runs, and has none
// of the first.
func environments(ts *testscript.TestScript, _ bool, _ []string) {
	c, err := personaOf(ts).dial()
	ts.Check(err)
	defer c.Close()
	s, err := c.NewSession()
	ts.Check(err)
	for _, odd := range [][2]string{{"", "x"}, {"LC_A=LC_INJECTED", "x"}, {"LC_B", "x\x00LC_INJECTED=x"}, {"LC_C\x00LC_INJECTED", "x"}, {"LC_D", strings.Repeat("x", 200<<10)}} {
		_ = s.Setenv(odd[0], odd[1]) // what comes while the session is looked for is not answered by it
	}
	for i := range 1000 {
		_ = s.Setenv(fmt.Sprintf("LC_%d", i), strings.Repeat("x", 100))
	}
	out, err := s.Output("env | grep -c '^LC_INJECTED'; env | wc -l")
	ts.Check(err)
	if f := strings.Fields(string(out)); len(f) != 2 || f[0] != "0" || len(f[1]) > 3 {
		ts.Fatalf("the program has %q", out)
	}
}
