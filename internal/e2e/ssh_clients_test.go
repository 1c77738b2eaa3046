package e2e

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"

	"github.com/coder/websocket"
	"golang.org/x/sys/cpu"

	"slipway/internal/testenv"
)

// otherClients are clients that share no code with OpenSSH, and an editor that drives it.
var otherClients = []feature{
	{"Paramiko", paramiko},
	{"PuTTY", putty},
	{"VS Code", vsCode},
	{"ciphers", cipherChoice},
}

func paramiko(l *laptop) {
	testenv.Need(l.t, testenv.Paramiko)
	user, host, _ := strings.Cut(l.login, "@")
	program, err := filepath.Abs("testdata/paramiko_check.py")
	if err != nil {
		l.t.Fatal(err)
	}
	var keys string // it gives up at the line of the authority, which it does not know to read
	for line := range strings.Lines(l.read("known_hosts")) {
		if !strings.HasPrefix(line, "@") {
			keys += line
		}
	}
	l.write("plain_hosts", keys)
	e := l.run(nil, filepath.Join(testenv.Cache(), "paramiko/bin/python"), program, host, l.gatewayPort(), user, l.path("key"), l.path("plain_hosts"))
	if e.code != 0 || e.out != "fine\n" { // it writes to stderr what it is told of the forward that is refused
		l.t.Errorf("Paramiko: %s", e)
	}
}

func putty(l *laptop) {
	testenv.Need(l.t, testenv.PuTTY)
	l.must("puttygen", l.path("key"), "-O", "private", "-o", l.path("key.ppk"))
	flags := []string{"-batch", "-P", l.gatewayPort(), "-i", l.path("key.ppk")}
	for line := range strings.Lines(l.must("ssh-keygen", "-l", "-f", l.path("known_hosts"))) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], "SHA256:") {
			flags = append(flags, "-hostkey", fields[1])
		}
	}
	plink := append([]string{"plink", "-ssh", "-T"}, flags...)
	e := l.run(strings.NewReader(string(allBytes())), append(plink, l.login, "cat; echo err >&2; exit 5")...)
	l.expect("plink", e, ended{string(allBytes()), "err\n", 5})
	blob := noise(2 << 20)
	l.write("blob", string(blob))
	e = l.run(strings.NewReader("put blob /tmp/putty\nget /tmp/putty came\nmv /tmp/putty /tmp/putty2\nrm /tmp/putty2\nquit\n"), append(append([]string{"psftp"}, flags...), l.login)...)
	if e.code != 0 || l.read("came") != string(blob) {
		l.t.Errorf("psftp: %+v", e)
	}
	peer, port := l.peer(), l.freePort()
	l.start(append(append([]string{"plink", "-ssh", "-N", "-L", port + ":127.0.0.1:" + peer.echo}, flags...), l.login)...)
	l.listening("tcp", "127.0.0.1:"+port)
	l.echoes("tcp", "127.0.0.1:"+port)
}

// vsCodeScript is what the editor feeds to a shell: it tells what it finds, starts a server at a port of its own choice
// and says which.
const vsCodeScript = `echo "4f1a: running"
echo "4f1a==$(uname -s)==$(uname -m)=="
mkdir -p /tmp/vscode-server
cat >/tmp/vscode-server/server.py <<'END'
import asyncio, os, sys
import tornado.httpserver, tornado.netutil, tornado.web, tornado.websocket
class Echo(tornado.websocket.WebSocketHandler):
    async def on_message(self, message): await self.write_message(message, binary=isinstance(message, bytes))
class Version(tornado.web.RequestHandler):
    def get(self): self.write("commit")
async def main():
    app = tornado.web.Application([("/ws", Echo), ("/version", Version)])
    at, = tornado.netutil.bind_sockets(0, "127.0.0.1")
    server = tornado.httpserver.HTTPServer(app)
    server.add_sockets([at, tornado.netutil.bind_unix_socket("/tmp/vscode-server/socket")])
    print(at.getsockname()[1], flush=True)
    await asyncio.sleep(300)
asyncio.run(main())
END
nohup python3 /tmp/vscode-server/server.py >/tmp/vscode-server/log 2>&1 </dev/null &
echo $! >/tmp/vscode-server/pid
while ! [ -s /tmp/vscode-server/log ]; do sleep 0.05; done
echo "4f1a: start"
echo "listeningOn==$(cat /tmp/vscode-server/log)=="
echo "4f1a: end"
`

// vsCode does what the editor's Remote-SSH does: a shell without a terminal that is fed a script, SOCKS connections to
// the server that the script has started, with websockets in them; a second connection; a socket instead of the port;
// and the first one is cut.
func vsCode(l *laptop) {
	socks := l.freePort()
	first := l.start(l.sshArgs("-v", "-T", "-D", socks, "-o", "ConnectTimeout=60", "sh")...)
	if _, err := io.WriteString(first.stdin, vsCodeScript); err != nil {
		l.t.Fatal(err)
	}
	said := first.says("4f1a: end\n")
	lines := bufio.NewScanner(strings.NewReader(said))
	var port string
	for want := range strings.Lines("4f1a: running\n4f1a==Linux==\n4f1a: start\nlisteningOn==\n4f1a: end\n") {
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), strings.TrimSpace(want)) {
			l.t.Fatalf("the script's output is not clean: %q", said)
		}
		if at, ok := strings.CutPrefix(lines.Text(), "listeningOn=="); ok {
			port = strings.TrimSuffix(at, "==")
		}
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { l.webSocket("socks5://127.0.0.1:"+socks, "ws://127.0.0.1:"+port+"/ws") })
	}
	all.Wait()
	second, local := l.freePort(), l.freePort()
	l.start(l.sshArgs("-v", "-T", "-N", "-D", second, "-L", local+":/tmp/vscode-server/socket")...)
	l.listening("tcp", "127.0.0.1:"+local)
	l.webSocket("socks5://127.0.0.1:"+second, "ws://localhost:"+port+"/ws")
	l.webSocket("", "ws://127.0.0.1:"+local+"/ws")
	first.end()
	l.webSocket("socks5://127.0.0.1:"+second, "ws://127.0.0.1:"+port+"/ws") // the server outlives the connection that has started it
	l.remote("kill $(cat /tmp/vscode-server/pid); rm -r /tmp/vscode-server")
}

// webSocket sends a small and a large message and expects them back.
func (l *laptop) webSocket(proxy, address string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), testenv.Hang)
	defer cancel()
	transport := new(http.Transport)
	if proxy != "" {
		through, err := url.Parse(proxy)
		if err != nil {
			l.t.Error(err)
			return
		}
		transport.Proxy = http.ProxyURL(through)
	}
	defer transport.CloseIdleConnections()
	c, _, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		l.t.Errorf("%s by %q: %v", address, proxy, err)
		return
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(4 << 20)
	for _, message := range [][]byte{[]byte("small"), noise(1 << 20)} {
		if err := c.Write(ctx, websocket.MessageBinary, message); err != nil {
			l.t.Error(err)
			return
		}
		if _, got, err := c.Read(ctx); err != nil || checksum(got) != checksum(message) {
			l.t.Errorf("of %d bytes came %d back: %v", len(message), len(got), err)
		}
	}
}

// cipherChoice: OpenSSH comes to AES-GCM also where AES-CTR stands before it in its list, as by default before OpenSSH
// 10; who is told to take nothing else has AES-CTR.
func cipherChoice(l *laptop) {
	for flags, want := range map[string]string{
		"": "aes128-gcm@openssh.com", "-oCiphers=aes256-ctr,aes256-gcm@openssh.com": "aes256-gcm@openssh.com", "-caes256-ctr": "aes256-ctr",
	} {
		if want != "aes256-ctr" && !cpu.X86.HasAES && !cpu.ARM64.HasAES {
			continue
		}
		var e ended
		for range 10 { // a machine under load may be late with its lists, and is not waited for
			if e = l.ssh(append([]string{"-v"}, append(strings.Fields(flags), "true")...)...); strings.Contains(e.errs, "server->client cipher: "+want+" ") {
				break
			}
		}
		if e.code != 0 || !strings.Contains(e.errs, "client->server cipher: "+want+" ") {
			l.t.Errorf("%q does not come to %s: %s", flags, want, e)
		}
	}
}
