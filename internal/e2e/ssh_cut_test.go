package e2e

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cutLink cuts the connection between the service and the agent of a session while files are on their way, and nothing
// else: service, agent and session run on.
func (s *sshSite) cutLink(t *testing.T, l *laptop, id string) {
	before := l.remote("mkdir /tmp/cut; setsid sleep 1011 </dev/null >/dev/null 2>&1 & echo $!")
	l.write("blob", string(noise(8<<20)))
	l.must("scp", "-F", l.config, "blob", l.login+":/tmp/blob")
	t.Run("amid transfers", func(t *testing.T) { s.cutAmid(l.in(t), id) })
	t.Run("at the beginning", func(t *testing.T) {
		s.cutWhen(l.in(t), id, func() bool { return len(l.arrived()) > 0 })
	})
	t.Run("at the end", func(t *testing.T) {
		whole := checksum(noise(8 << 20))
		s.cutWhen(l.in(t), id, func() bool { return slices.Contains(slices.Collect(maps.Values(l.arrived())), whole) })
	})
	if got := l.remote("rm -r /tmp/cut /tmp/blob; kill -0 " + before + " && kill " + before + " && echo lives"); got != "lives" {
		l.t.Errorf("in the session: %q", got)
	}
}

// carried is a file on its way.
type carried struct {
	*started
	name  string // of the way, and of the file that it makes
	there bool   // into the session
}

// ways are those by which files go. Each makes a file of its own name.
func (l *laptop) ways(rate int) (all []carried) {
	begin := func(name string, there bool, argv ...string) {
		all = append(all, carried{l.start(argv...), name, there})
	}
	scp := []string{"scp", "-F", l.config, "-l", strconv.Itoa(8 * rate)}
	rsync := l.rsync(fmt.Sprintf("--bwlimit=%d", rate))
	sftp := []string{"sftp", "-F", l.config, "-l", strconv.Itoa(8 * rate), "-b"}
	l.write("put", "put blob /tmp/cut/sftp-there\n")
	l.write("get", "get /tmp/blob sftp-back\n")
	at := l.login + ":/tmp/cut/"
	begin("scp-there", true, append(scp, "-s", "blob", at+"scp-there")...)
	begin("scp-O-there", true, append(scp, "-O", "blob", at+"scp-O-there")...)
	begin("sftp-there", true, append(sftp, "put", l.login)...)
	begin("rsync-there", true, append(rsync, "blob", at+"rsync-there")...)
	begin("scp-back", false, append(scp, "-s", l.login+":/tmp/blob", "scp-back")...)
	begin("scp-O-back", false, append(scp, "-O", l.login+":/tmp/blob", "scp-O-back")...)
	begin("sftp-back", false, append(sftp, "get", l.login)...)
	begin("rsync-back", false, append(rsync, l.login+":/tmp/blob", "rsync-back")...)
	slowly := fmt.Sprintf(`python3 -c "
import sys, time
for part in iter(lambda: sys.stdin.buffer.read(16384), b''):
    sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()
    time.sleep(%f)"`, 16.0/float64(rate))
	ssh := "ssh -F " + l.config + " " + l.login
	begin("stream-there", true, "bash", "-c", slowly+" <blob | "+ssh+" 'cat >/tmp/cut/stream-there'; exit ${PIPESTATUS[1]}")
	l.write("slowly", slowly+" </tmp/blob")
	begin("stream-back", false, "bash", "-c", ssh+" \"$(cat slowly)\" >stream-back")
	return all
}

// arrived returns the checksums of the files that there are, by their names.
func (l *laptop) arrived() map[string]string {
	l.t.Helper()
	sums := l.remote("cd /tmp/cut && sha256sum -- *-there .rsync-there* 2>/dev/null; true")
	sums += "\n" + l.must("bash", "-c", "sha256sum -- *-back .rsync-back* 2>/dev/null; true")
	found := map[string]string{}
	for line := range strings.Lines(sums) {
		if f := strings.Fields(line); len(f) == 2 {
			found[f[1]] = f[0]
		}
	}
	return found
}

func (l *laptop) clearCut() {
	l.t.Helper()
	l.remote("rm -rf /tmp/cut; mkdir /tmp/cut")
	l.must("bash", "-c", "rm -f -- *-back .rsync-back*")
}

// cutAmid cuts when all are under way: none says that it has ended well, and a new connection is there at once.
func (s *sshSite) cutAmid(l *laptop, id string) {
	all := l.ways(200)
	begun := []string{".rsync-back", ".rsync-there", "scp-O-back", "scp-O-there", "scp-back", "scp-there", "sftp-back", "sftp-there", "stream-back", "stream-there"}
	l.eventually("all are under way", func() bool {
		names := map[string]bool{}
		for name, sum := range l.arrived() {
			if sum != checksum(nil) {
				names[strings.Join(strings.SplitN(name, ".", 3)[:min(2, strings.Count(name, ".")+1)], ".")] = true
			}
		}
		return !slices.ContainsFunc(begun, func(name string) bool { return !names[name] })
	})
	s.cut(l, id)
	began := time.Now()
	l.remote("true")
	l.t.Logf("connected again within %s", time.Since(began).Round(time.Millisecond))
	for _, c := range all {
		if code := c.wait(); code == 0 || c.errs.String() == "" {
			l.t.Errorf("%s ends with %d and says %q", c.name, code, c.errs)
		}
	}
	for name := range l.arrived() {
		if strings.HasPrefix(name, "rsync") {
			l.t.Errorf("rsync has left a short file under its name: %s", name)
		}
	}
	l.eventually("nothing that served them is left", func() bool { return l.ssh("pgrep -x 'scp|rsync|cat'").code == 1 })
	l.clearCut()
}

// cutWhen cuts at some moment: what ends well then has brought the whole file.
func (s *sshSite) cutWhen(l *laptop, id string, moment func() bool) {
	all := l.ways(4000)
	l.eventually("the moment has come", moment)
	s.cut(l, id)
	ended := map[string]int{}
	for _, c := range all {
		ended[c.name] = c.wait()
	}
	failed, arrived, want := 0, l.arrived(), checksum([]byte(l.read("blob")))
	for name, code := range ended {
		switch {
		case code != 0:
			failed++
		case arrived[name] != want:
			l.t.Errorf("%s ends well and has brought something else", name)
		}
	}
	l.t.Logf("%d of %d have failed", failed, len(all))
	l.clearCut()
}

// cut cuts the service's end of the connection to a session's agent, as if the kernel had lost it.
func (s *sshSite) cut(l *laptop, id string) {
	l.t.Helper()
	sockets := connectedAt(l.t, id)
	own := fmt.Sprintf("/proc/%d/fd", s.process.Process.Pid)
	files, err := os.ReadDir(own)
	if err != nil {
		l.t.Fatal(err)
	}
	cut := 0
	for _, f := range files {
		to, _ := os.Readlink(filepath.Join(own, f.Name()))
		if n, _ := strconv.Atoi(f.Name()); sockets[to] {
			if err := shutDown(s.process.Process.Pid, n); err != nil {
				l.t.Fatal(err)
			}
			cut++
		}
	}
	if cut == 0 {
		l.t.Fatalf("the service has no connection to the agent of %s among %v", id, sockets)
	}
}

// connectedAt returns the connections that were made at the socket of a workload, as the links in /proc name them. They
// are listed where they were made from: in the container's network.
func connectedAt(t testing.TB, id string) map[string]bool {
	t.Helper()
	f, err := os.Open("/proc/" + containerPID(t, id) + "/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		const state, inode, path = 5, 6, 7
		fields := strings.Fields(lines.Text())
		if len(fields) > path && fields[state] == "03" && strings.Contains(fields[path], id) {
			found["socket:["+fields[inode]+"]"] = true
		}
	}
	return found
}

// shutDown shuts a socket of another process down.
func shutDown(pid, fd int) error {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(process)
	own, err := unix.PidfdGetfd(process, fd, 0)
	if err != nil {
		return fmt.Errorf("take file %d of process %d: %w", fd, pid, err)
	}
	defer unix.Close(own)
	return unix.Shutdown(own, unix.SHUT_RDWR)
}
