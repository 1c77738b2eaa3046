package e2e

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/testenv"
)

// sshdImage names the notebook image with OpenSSH's server in it, which deploy/bench/ssh makes.
const sshdImage = "SLIPWAY_BENCH_SSHD_IMAGE"

// sshBench is one session that is reached through the gateway and, in turns, through OpenSSH's sshd in the same
// container.
type sshBench struct {
	*sshSite
	gate, sshd *laptop
	rows       []string
}

// BenchmarkSSH prints how the gateway compares with OpenSSH's sshd in the session's own container. deploy/bench/ssh
// runs it.
func BenchmarkSSH(b *testing.B) {
	if os.Getenv(sshdImage) == "" {
		b.Skipf("%s names no image: deploy/bench/ssh makes one", sshdImage)
	}
	testenv.Need(b, testenv.OpenSSH, testenv.Rsync)
	s := newSSHBench(b)
	rounds, _ := strconv.Atoi(cmp.Or(os.Getenv("SLIPWAY_BENCH_ROUNDS"), "5"))
	s.bulk(rounds)
	s.tree(rounds)
	s.times(rounds)
	fmt.Printf("\n| median (least to most) | gateway | sshd | **gateway / sshd**, pair by pair |\n|---|---|---|---|\n%s\n", strings.Join(s.rows, "\n"))
	s.idle()
}

func newSSHBench(b *testing.B) *sshBench {
	b.Helper()
	s := newSSHSite(b, "max_connections_per_user: 2000")
	s.kill()
	path := filepath.Join(s.dir, "slipway.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	s.write("slipway.yaml", strings.ReplaceAll(string(text), testenv.NotebookImage, os.Getenv(sshdImage)))
	s.serve()
	id := s.startRoomy("alice", "one")
	gate := s.laptop(b, "alice")
	return &sshBench{sshSite: s, gate: gate, sshd: openSSHD(b, gate, "slipway-"+id)}
}

// openSSHD starts OpenSSH's server as the session's user in her container, and gives a laptop that knows the way there.
func openSSHD(b *testing.B, gate *laptop, container string) *laptop {
	b.Helper()
	host := strings.TrimSpace(gate.must("docker", "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", container))
	gate.must("scp", "-q", "-F", gate.config, "key.pub", gate.login+":/tmp/authorized")
	gate.remote(`ssh-keygen -q -t ed25519 -N "" -f /tmp/hostkey && cat >/tmp/sshd_config <<END
Port 2222
AddressFamily inet
HostKey /tmp/hostkey
AuthorizedKeysFile /tmp/authorized
StrictModes no
UsePAM no
PidFile none
Subsystem sftp /usr/lib/openssh/sftp-server
END
setsid /usr/sbin/sshd -D -f /tmp/sshd_config </dev/null >/tmp/sshd.log 2>&1 & true`)
	gate.listening("tcp", host+":2222")
	key := strings.Fields(gate.remote("cat /tmp/hostkey.pub"))
	l := newLaptop(b, gateway{host, 2222, []string{fmt.Sprintf("[%s]:2222 %s %s", host, key[0], key[1])}}, "alice")
	for _, name := range []string{"key", "key.pub"} {
		l.write(name, gate.read(name))
	}
	l.remote("true")
	return l
}

// compare times the same by both ways, in turns, and keeps a row of the table. A first turn is not kept.
func (s *sshBench) compare(what string, rounds int, unit func(time.Duration) float64, form string, do func(l *laptop) time.Duration) {
	var times [2][]float64
	var ratios []float64
	for round := range rounds + 1 {
		var now [2]float64
		for turn := range 2 {
			way := (round + turn) % 2
			now[way] = unit(do([]*laptop{s.gate, s.sshd}[way]))
		}
		if round == 0 {
			continue
		}
		for way, value := range now {
			times[way] = append(times[way], value)
		}
		ratios = append(ratios, now[0]/now[1])
	}
	s.rows = append(s.rows, fmt.Sprintf("| %s | %s | %s | **%s** |", what, medianOf(times[0], form), medianOf(times[1], form), medianOf(ratios, "%.2f")))
	fmt.Fprintln(os.Stderr, s.rows[len(s.rows)-1])
}

func medianOf(values []float64, form string) string {
	slices.Sort(values)
	return fmt.Sprintf(form+" ("+form+" to "+form+")", values[len(values)/2], values[0], values[len(values)-1])
}

// timed runs a program that may not fail.
func (l *laptop) timed(argv ...string) time.Duration {
	l.t.Helper()
	began := time.Now()
	l.must(argv...)
	return time.Since(began)
}

const (
	bulkSize  = 1_000_000_000
	treeFiles = 10_000
)

func (s *sshBench) bulk(rounds int) {
	rate := func(d time.Duration) float64 { return bulkSize / 1e6 / d.Seconds() }
	for _, l := range []*laptop{s.gate, s.sshd} {
		l.write("blob", string(noise(bulkSize)))
	}
	s.gate.must("scp", "-q", "-F", s.gate.config, "blob", s.gate.login+":/tmp/blob")
	scp := func(l *laptop, argv ...string) time.Duration {
		return l.timed(append([]string{"scp", "-q", "-F", l.config}, argv...)...)
	}
	s.compare("scp there, 1 GB, MB/s", rounds, rate, "%.0f", func(l *laptop) time.Duration { return scp(l, "blob", l.login+":/tmp/came") })
	s.compare("scp back", rounds, rate, "%.0f", func(l *laptop) time.Duration { return scp(l, l.login+":/tmp/blob", "came") })
	s.compare("scp -O there", rounds, rate, "%.0f", func(l *laptop) time.Duration { return scp(l, "-O", "blob", l.login+":/tmp/came") })
	s.compare("scp -O back", rounds, rate, "%.0f", func(l *laptop) time.Duration { return scp(l, "-O", l.login+":/tmp/blob", "came") })
	s.compare("rsync there", rounds, rate, "%.0f", func(l *laptop) time.Duration {
		l.remote("rm -f /tmp/came")
		return l.timed(append(l.rsync("--whole-file"), "blob", l.login+":/tmp/came")...)
	})
	s.compare("rsync back", rounds, rate, "%.0f", func(l *laptop) time.Duration {
		_ = os.Remove(l.path("came"))
		return l.timed(append(l.rsync("--whole-file"), l.login+":/tmp/blob", "came")...)
	})
	s.gate.remote("rm /tmp/blob /tmp/came")
}

// tree moves 10,000 files of 2 KB in 100 directories.
func (s *sshBench) tree(rounds int) {
	for _, l := range []*laptop{s.gate, s.sshd} {
		for i := range treeFiles {
			dir := l.path(fmt.Sprintf("tree/%02d", i/100))
			if err := os.MkdirAll(dir, 0o755); err != nil {
				l.t.Fatal(err)
			}
			l.write(fmt.Sprintf("tree/%02d/%04d", i/100, i), strings.Repeat("x", 2048))
		}
	}
	rate := func(d time.Duration) float64 { return treeFiles / d.Seconds() }
	s.compare("scp -r there, 10,000 files, files/s", rounds, rate, "%.0f", func(l *laptop) time.Duration {
		l.remote("rm -rf /tmp/tree")
		return l.timed("scp", "-q", "-r", "-F", l.config, "tree", l.login+":/tmp/")
	})
	s.compare("scp -r back", rounds, rate, "%.0f", func(l *laptop) time.Duration {
		_ = os.RemoveAll(l.path("back"))
		return l.timed("scp", "-q", "-r", "-F", l.config, l.login+":/tmp/tree", "back")
	})
	s.compare("rsync -a there", rounds, rate, "%.0f", func(l *laptop) time.Duration {
		l.remote("rm -rf /tmp/tree")
		return l.timed(append(l.rsync("-a"), "tree", l.login+":/tmp/")...)
	})
	s.compare("rsync -a back", rounds, rate, "%.0f", func(l *laptop) time.Duration {
		_ = os.RemoveAll(l.path("back"))
		return l.timed(append(l.rsync("-a"), l.login+":/tmp/tree", "back")...)
	})
}

// times are of what is small.
func (s *sshBench) times(rounds int) {
	milliseconds := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	s.compare("`ssh true`, ms", 4*rounds, milliseconds, "%.1f", func(l *laptop) time.Duration { return l.timed(l.sshArgs("true")...) })
	gate, sshd := s.gate.keyboard(), s.sshd.keyboard()
	s.compare("keystroke and echo, ms", 400*rounds, milliseconds, "%.3f", func(l *laptop) time.Duration {
		if l == s.gate {
			return gate()
		}
		return sshd()
	})
}

// keyboard opens a terminal that echoes, and gives what types a key and waits for it to come back.
func (l *laptop) keyboard() func() time.Duration {
	l.t.Helper()
	session, err := l.client().NewSession()
	if err != nil {
		l.t.Fatal(err)
	}
	in, err := session.StdinPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	out, err := session.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := session.RequestPty("vt220", 24, 80, ssh.TerminalModes{ssh.ECHO: 1}); err != nil {
		l.t.Fatal(err)
	}
	if err := session.Start("printf '!'; exec cat >/dev/null"); err != nil {
		l.t.Fatal(err)
	}
	b := make([]byte, 1)
	read := func() {
		if _, err := io.ReadFull(out, b); err != nil {
			l.t.Fatal(err)
		}
	}
	read()
	return func() time.Duration {
		began := time.Now()
		_, _ = in.Write([]byte("k"))
		read()
		return time.Since(began)
	}
}

// idle opens connections that do nothing.
func (s *sshBench) idle() {
	const connections = 500
	before := s.memory()
	for range connections {
		s.gate.client()
	}
	<-time.After(3 * time.Second)
	empty := s.memory()
	fmt.Printf("\n%d idle connections: the service has %.1f MB before and %.1f MB with them: **%.0f kB for each** (target: under 200).\n",
		connections, before/1e6, empty/1e6, (empty-before)/connections/1e3)
}

// memory returns the resident memory of the service, in bytes.
func (s *sshBench) memory() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kB, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return kB * 1024
}
