package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"slipway/internal/testenv"
)

// shellFeatures are shells and commands.
var shellFeatures = []feature{
	{"exit code 0", func(l *laptop) { l.expect("true", l.ssh("true"), ended{"", "", 0}) }},
	{"exit code 3", func(l *laptop) { l.expect("exit 3", l.ssh("exit 3"), ended{"", "", 3}) }},
	{"exit code 255", func(l *laptop) { l.expect("exit 255", l.ssh("exit 255"), ended{"", "", 255}) }},
	{"no such program", func(l *laptop) {
		if e := l.ssh("no-such-program"); e.code != 127 || e.out != "" || !strings.Contains(e.errs, "no-such-program") {
			l.t.Errorf("%+v", e)
		}
	}},
	{"killed by a signal", func(l *laptop) {
		if e := l.ssh("kill -KILL $$"); e.code != 255 || e.out != "" {
			l.t.Errorf("%+v", e)
		}
	}},
	{"stdout and stderr apart", func(l *laptop) {
		l.expect("both", l.ssh("printf out; printf err >&2; printf more; exit 7"), ended{"outmore", "err", 7})
	}},
	{"every byte as it is", everyByte},
	{"a large stream", func(l *laptop) {
		blob := noise(32 << 20)
		e := l.run(bytes.NewReader(blob), l.sshArgs("tee /dev/stderr | sha256sum; cat >&2")...)
		if e.code != 0 || !strings.HasPrefix(e.out, checksum(blob)) || checksum([]byte(e.errs)) != checksum(blob) {
			l.t.Errorf("exit code %d, %s, %d bytes came back", e.code, e.out, len(e.errs))
		}
	}},
	{"output after the input's end", func(l *laptop) {
		l.expect("cat", l.run(strings.NewReader("in"), l.sshArgs("cat; sleep 0.3; printf late")...), ended{"inlate", "", 0})
	}},
	{"input that nobody reads", func(l *laptop) {
		l.expect("head", l.run(bytes.NewReader(noise(8<<20)), l.sshArgs("head -c 4 >/dev/null; echo done")...), ended{"done\n", "", 0})
	}},
	{"-n", func(l *laptop) {
		l.expect("-n", l.run(strings.NewReader("x"), l.sshArgs("-n", "cat; echo end")...), ended{"end\n", "", 0})
	}},
	{"-T with a script on stdin", func(l *laptop) {
		l.expect("-T", l.run(strings.NewReader("echo one\necho two >&2\nexit 4\n"), l.sshArgs("-T")...), ended{"one\n", "two\n", 4})
	}},
	{"a login shell", func(l *laptop) {
		e := l.run(strings.NewReader("shopt login_shell; echo $0; pwd; id -un; umask; test -t 0; echo $?\n"), l.sshArgs()...)
		l.expect("a shell", e, ended{"login_shell    \ton\n-bash\n/home/alice\nalice\n0022\n1\n", "", 0})
	}},
	{"environment", environment},
	{"programs of the image and ours", func(l *laptop) {
		if got := l.remote("command -v python3 slipway"); got != "/opt/env/bin/python3\n/run/slipway/bin/slipway" {
			l.t.Error(got)
		}
		if got := l.remote("slipway sessions"); !strings.Contains(got, "running") {
			l.t.Errorf("slipway without a token: %s", got)
		}
	}},
	{"a long command", func(l *laptop) {
		long := strings.Repeat("x", 60000)
		l.expect("echo", l.ssh("echo "+long), ended{long + "\n", "", 0})
	}},
	{"quotes and lines", func(l *laptop) {
		l.expect("echo", l.ssh(`printf '%s\n' "a  'b'" $((1+1)) "\$HOME"`+"\necho é"), ended{"a  'b'\n2\n$HOME\né\n", "", 0})
	}},
	{"the command's children end with the connection", orphans},
	{"terminal: size, changes, type", terminalSize},
	{"terminal: Ctrl-C", func(l *laptop) {
		p := l.terminal(l.sshArgs("-tt", `bash --norc --noprofile`)...)
		p.types("PS1=; sh -c 'echo up-$((1+1)); exec sleep 1000'\n") // what says it is in the foreground then, as the shell's next program need not be
		p.says("up-2")
		p.types("\x03")
		p.types("echo still-$((1+1)); exit 9\n")
		p.says("still-2")
		if code := p.wait(); code != 9 {
			l.t.Errorf("exit code %d", code)
		}
	}},
	{"terminal: the escape", func(l *laptop) {
		p := l.terminal(l.sshArgs("-tt", "echo up; exec sleep 1000")...)
		p.says("up")
		p.types("\r~.")
		if code := p.wait(); code != 255 {
			l.t.Errorf("exit code %d", code)
		}
	}},
	{"terminal: Ctrl-D", func(l *laptop) {
		p := l.terminal(l.sshArgs()...)
		p.types("PS1='at-$((1+1)) $(tty) $SSH_TTY>'\n")
		p.says("at-2 /dev/pts/") // the prompt: before it the shell does not read keys one by one, and this one would be lost
		p.types("\x04")
		if code := p.wait(); code != 0 {
			l.t.Errorf("exit code %d", code)
		}
	}},
	{"ServerAlive", func(l *laptop) { // each is answered; how soon is the machine's pace
		e := l.ssh("-o", "LogLevel=DEBUG3", "-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=40", "sleep 3; echo alive")
		answers := strings.Count(e.errs, "receive packet: type 81") + strings.Count(e.errs, "receive packet: type 82")
		if e.code != 0 || e.out != "alive\n" || answers == 0 {
			l.t.Errorf("%d answers, %s", answers, e)
		}
	}},
}

func everyByte(l *laptop) {
	blob := allBytes()
	e := l.run(bytes.NewReader(blob), l.sshArgs("tee /dev/stderr")...)
	l.expect("tee", e, ended{string(blob), string(blob), 0})
}

func environment(l *laptop) {
	c := l.command(l.sshArgs("-o", "SendEnv=LC_SENT", "-o", "SetEnv=LC_SET=set", `echo $LC_SENT $LC_SET $USER $LOGNAME $HOME $SHELL; echo $SSH_CONNECTION; echo $SSH_TTY; env | grep -c TOKEN`)...)
	c.Env = append(c.Env, "LC_SENT=sent")
	lines := strings.Split(l.finish(c, nil).out, "\n")
	if lines[0] != "sent set alice alice /home/alice /bin/bash" || len(strings.Fields(lines[1])) != 4 || lines[2] != "" || lines[3] != "0" {
		l.t.Errorf("%q", lines)
	}
}

// orphans drops a connection: its command ends. What was made to stay stays.
func orphans(l *laptop) {
	p := l.start(l.sshArgs("echo $$; setsid sleep 1007 </dev/null >/dev/null 2>&1 & exec cat")...)
	pid := strings.TrimSpace(p.says("\n"))
	p.end()
	l.eventually("the command has ended", func() bool { return l.ssh("kill -0 "+pid).code != 0 })
	if e := l.ssh("pkill -f '[s]leep 1007'"); e.code != 0 {
		l.t.Errorf("what was made to outlive the connection has ended with it: %+v", e)
	}
}

func terminalSize(l *laptop) {
	p := l.terminal(l.sshArgs("-tt", `trap 'stty size; exit 5' WINCH; stty size; echo $TERM $SSH_TTY; while :; do sleep 0.05; done`)...)
	p.says("vt220 /dev/pts/")
	if got := p.says("\n"); !strings.HasPrefix(got, "40 100\r\n") {
		l.t.Errorf("the terminal begins as %q", got)
	}
	p.resize(50, 132)
	p.says("50 132\r\n")
	if code := p.wait(); code != 5 {
		l.t.Errorf("exit code %d", code)
	}
}

// terminal is a program at a terminal of the laptop, of 40 lines and 100 columns.
type terminal struct {
	*started
	master *os.File
}

func (l *laptop) terminal(argv ...string) *terminal {
	l.t.Helper()
	master, slave, err := openTerminal()
	if err != nil {
		l.t.Fatal(err)
	}
	p := &terminal{started: &started{l: l, c: l.command(argv...), out: newWatched(), errs: newWatched()}, master: master}
	p.resize(40, 100)
	p.c.Env = append(p.c.Env, "TERM=vt220")
	p.c.Stdin, p.c.Stdout, p.c.Stderr = slave, slave, slave
	p.c.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.c.Start(); err != nil {
		l.t.Fatal(err)
	}
	slave.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(p.out, master) // ends with an error when the program has
	}()
	l.t.Cleanup(func() {
		p.end()
		<-read
		master.Close()
	})
	return p
}

func openTerminal() (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0); err != nil {
		return nil, nil, err
	}
	fd := int(master.Fd())
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, err
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	return master, slave, err
}

func (p *terminal) types(text string) {
	p.l.t.Helper()
	if _, err := p.master.WriteString(text); err != nil {
		p.l.t.Fatal(err)
	}
}

func (p *terminal) resize(rows, columns uint16) {
	p.l.t.Helper()
	if err := unix.IoctlSetWinsize(int(p.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		p.l.t.Fatal(err)
	}
}

func (l *laptop) eventually(what string, ok func() bool) {
	l.t.Helper()
	testenv.Until(l.t, what, testenv.Hang, ok)
}
