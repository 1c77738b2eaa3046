package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/local"
)

// reach has jobs of the world try addresses: see testdata/reach.
func (w *world) reach(t testing.TB) {
	t.Helper()
	program := filepath.Join(shared(), "reach")
	if _, err := os.Stat(program); err != nil {
		must(t, os.MkdirAll(shared(), 0o755))
		cmd := exec.Command("go", "build", "-trimpath", "-o", program, "./testdata/reach")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	must(t, os.Link(program, filepath.Join(w.agentDir, "reach")))
}

// tries starts a job that tries addresses, and returns what it found.
func (w *world) tries(t testing.TB, all ...string) map[string]string {
	t.Helper()
	w.script(t, "/run/slipway/bin/reach "+strings.Join(all, " ")+" > /var/tmp/part 2>&1; busybox mv /var/tmp/part /var/tmp/found; exec sleep 1000")
	j := start(t, w, w.launch(t))
	return found(j.file(t, "found"))
}

func found(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		what, how, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[what] = how
	}
	return all
}

// answering serves at an address, in the calling thread's network, what tells that it was reached.
func answering(t testing.TB, network, address, word string) string {
	t.Helper()
	if network == "udp" {
		p, err := net.ListenPacket(network, address)
		must(t, err)
		t.Cleanup(func() { _ = p.Close() })
		go func() {
			packet := make([]byte, 100)
			for {
				_, from, err := p.ReadFrom(packet)
				if err != nil {
					return
				}
				_, _ = p.WriteTo([]byte(word+"\n"), from)
			}
		}()
		return p.LocalAddr().String()
	}
	l, err := net.Listen(network, address)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(c).ReadString('\n')
			_, _ = c.Write([]byte(word + "\n"))
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// cables counts what outside has made: each has a name and addresses of its own.
var cables atomic.Int32

// outside makes another host: a network namespace with a cable to this one. It returns the address there, this host's
// at the cable, the cable's name here, and what runs a function there.
func outside(t testing.TB) (there, here, cable string, in func(func() error) error) {
	t.Helper()
	holder := exec.Command("unshare", "--net", "sleep", "1000")
	must(t, holder.Start())
	t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
	ns := fmt.Sprintf("/proc/%d/ns/net", holder.Process.Pid)
	// Not of /proc/self, which is the first thread: that stays in the other host's network when it has run a function
	// there.
	for own := mustRead(t, "/proc/thread-self/ns/net"); mustRead(t, ns) == own; runtime.Gosched() {
	}
	made := int(cables.Add(1))
	n := (os.Getpid() + made) % 250
	there, here = fmt.Sprintf("10.213.%d.2", n), fmt.Sprintf("10.213.%d.1", n)
	cable = fmt.Sprintf("slip%d-%d", os.Getpid(), made)
	run(t, "ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(holder.Process.Pid))
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", cable).Run() })
	run(t, "ip", "addr", "add", here+"/24", "dev", cable)
	run(t, "ip", "link", "set", cable, "up")
	run(t, "nsenter", "--net="+ns, "ip", "addr", "add", there+"/24", "dev", "eth0")
	run(t, "nsenter", "--net="+ns, "ip", "link", "set", "eth0", "up")
	return there, here, cable, func(act func() error) error {
		done := make(chan error, 1)
		go func() {
			runtime.LockOSThread()
			f, err := os.Open(ns)
			if err == nil {
				err = errors.Join(unix.Setns(int(f.Fd()), unix.CLONE_NEWNET), f.Close())
			}
			if err == nil {
				err = act()
			}
			done <- err
		}()
		return <-done
	}
}

func mustRead(t testing.TB, link string) string {
	t.Helper()
	s, err := os.Readlink(link)
	must(t, err)
	return s
}

func run(t testing.TB, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return string(out)
}

// TestJobsDoNotReachThisHost: a job reaches other hosts, and no service of this one at any of its addresses, by no way;
// nor does it take a port of this host's.
func TestJobsDoNotReachThisHost(t *testing.T) {
	w := newWorld(t)
	w.reach(t)
	there, here, _, in := outside(t)
	var far, farUDP string
	must(t, in(func() error {
		far, farUDP = answering(t, "tcp", there+":0", "far"), answering(t, "udp", there+":0", "far")
		return nil
	}))
	all := answering(t, "tcp", "0.0.0.0:0", "host")
	_, port, err := net.SplitHostPort(all)
	must(t, err)
	packets := answering(t, "udp", "0.0.0.0:0", "host")
	_, udpPort, err := net.SplitHostPort(packets)
	must(t, err)
	six := answering(t, "tcp", "[::1]:0", "host")
	abstract := fmt.Sprintf("@slipway-test-%d", os.Getpid())
	answering(t, "unix", abstract, "host")
	ways := []string{
		"tcp=127.0.0.1:" + port, "tcp=" + six, "tcp=" + here + ":" + port, "tcp-device=" + here + ":" + port, "udp=" + here + ":" + udpPort,
		"udp-device=" + here + ":" + udpPort, "unix=" + abstract, "tcp=169.254.169.254:80",
	}
	for _, a := range addresses(t) {
		ways = append(ways, "tcp="+net.JoinHostPort(a, port), "tcp-device="+net.JoinHostPort(a, port))
	}
	open := []string{"tcp=" + far, "udp=" + farUDP, "bind=127.0.0.1:" + port, "bind=0.0.0.0:" + port, "bind=" + six}
	got := w.tries(t, append(ways, open...)...)
	for _, way := range ways {
		if !strings.HasPrefix(got[way], "no: ") {
			t.Errorf("%s: %q", way, got[way])
		}
	}
	for i, want := range []string{"far", "far", "yes", "yes", "yes"} {
		if got[open[i]] != want {
			t.Errorf("%s: %q, want %q", open[i], got[open[i]], want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

// addresses are those of this host that other hosts could know.
func addresses(t testing.TB) (out []string) {
	t.Helper()
	all, err := net.InterfaceAddrs()
	must(t, err)
	for _, a := range all {
		if ip, _, err := net.ParseCIDR(a.String()); err == nil && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
			out = append(out, ip.String())
		}
	}
	return out
}

// TestNewAddressesAreClosedToo: an address that this host gets while a job runs.
func TestNewAddressesAreClosedToo(t *testing.T) {
	w := newWorld(t)
	w.reach(t)
	_, _, cable, _ := outside(t)
	w.script(t, `busybox touch /var/tmp/up; until [ -e /var/tmp/go ]; do busybox sleep 0.05; done
while :; do /run/slipway/bin/reach $(busybox cat /var/tmp/go) > /var/tmp/part; busybox mv /var/tmp/part /var/tmp/found; busybox sleep 0.05; done`)
	j := start(t, w, w.launch(t))
	j.file(t, "up")
	fresh := fmt.Sprintf("10.214.%d.1", os.Getpid()%250)
	_, port, err := net.SplitHostPort(answering(t, "tcp", "0.0.0.0:0", "host"))
	must(t, err)
	run(t, "ip", "addr", "add", fresh+"/32", "dev", cable)
	way := "tcp=" + fresh + ":" + port
	must(t, os.WriteFile(filepath.Join(w.cfg.Dir, string(j.ID), "scratch/var_tmp/go"), []byte(way), 0o644))
	j.await(t, func(spawner.Observation) bool { return strings.HasPrefix(found(j.file(t, "found"))[way], "no: ") })
}

func TestNoNetwork(t *testing.T) {
	w := newWorld(t)
	w.reach(t)
	w.cfg.Network = local.Isolated
	there, _, _, in := outside(t)
	var far string
	must(t, in(func() error { far = answering(t, "tcp", there+":0", "far"); return nil }))
	own := answering(t, "tcp", "127.0.0.1:0", "host")
	got := w.tries(t, "tcp="+far, "tcp="+own, "bind="+own)
	if !strings.HasPrefix(got["tcp="+far], "no: ") || !strings.HasPrefix(got["tcp="+own], "no: ") || got["bind="+own] != "yes" {
		t.Errorf("%v", got)
	}
}

func TestTheHostsNetwork(t *testing.T) {
	w := newWorld(t)
	w.reach(t)
	w.cfg.Network = local.OfHost
	own := answering(t, "tcp", "127.0.0.1:0", "host")
	if got := w.tries(t, "tcp="+own); got["tcp="+own] != "host" {
		t.Errorf("%v", got)
	}
}

// TestWithoutPasta: no job starts with less than it is to have, or with more.
func TestWithoutPasta(t *testing.T) {
	w := newWorld(t)
	w.cfg.Pasta = "pasta-that-is-not-there"
	b := w.backend(t)
	for name, err := range map[string]error{"Check": b.Check(t.Context()), "Start": b.Start(t.Context(), w.launch(t))} {
		e, ok := errors.AsType[*errs.Error](err)
		if !ok || e.Kind != errs.Missing || !strings.Contains(e.Remedy, "install passt") {
			t.Errorf("%s = %v", name, err)
		}
	}
	w.cfg.Network = local.Isolated
	must(t, w.backend(t).Check(t.Context()))
	w.cfg.Network = "elsewhere"
	if _, err := local.New(w.cfg); !errs.Is(err, errs.Invalid) {
		t.Errorf("New = %v", err)
	}
}

// TestPastaThatFails: the start fails in its words, and nothing is left.
func TestPastaThatFails(t *testing.T) {
	w := newWorld(t)
	w.cfg.Pasta = filepath.Join(shared(), "failing-pasta")
	must(t, os.WriteFile(w.cfg.Pasta, []byte("#!/bin/sh\necho 'No routable interface' >&2\nexit 1\n"), 0o755))
	b := w.backend(t)
	l := w.launch(t)
	if err := b.Start(t.Context(), l); !strings.Contains(fmt.Sprint(err), "No routable interface") {
		t.Errorf("Start = %v", err)
	}
	o, err := b.Observe(t.Context(), l.ID)
	if err != nil || o.Existence != spawner.Created || alive(t) > 0 {
		t.Errorf("%+v, %v, %d processes", o, err, alive(t))
	}
	must(t, b.Remove(context.WithoutCancel(t.Context()), l.ID))
}

// TestTheNetworkEndsWithTheJob, also when its shim was killed.
func TestTheNetworkEndsWithTheJob(t *testing.T) {
	w := newWorld(t)
	j := start(t, w, w.launch(t))
	if len(pastas(t)) == 0 {
		t.Fatal("there is no pasta")
	}
	pid := strings.TrimSpace(string(mustReadFile(t, filepath.Join(w.cfg.Dir, string(j.ID), "pid"))))
	var n int
	_, err := fmt.Sscan(pid, &n)
	must(t, err)
	must(t, syscall.Kill(n, syscall.SIGKILL))
	j.exited(t)
	if left := pastas(t); len(left) > 0 || alive(t) > 0 {
		t.Errorf("left: %q", left)
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*/slipway-test/" + w.cfg.Instance + "/net-*")
	must(t, err)
	if len(groups) > 0 {
		t.Errorf("left: %q", groups)
	}
}

func mustReadFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	must(t, err)
	return b
}

// pastas returns the processes of the jobs' user that are pasta.
func pastas(t testing.TB) (out []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, f := range files {
		info, err := os.Stat(filepath.Dir(f))
		text, _ := os.ReadFile(f)
		if err == nil && info.Sys().(*syscall.Stat_t).Uid == 54321 && strings.Contains(string(text), "--config-net") {
			out = append(out, f)
		}
	}
	return out
}

// TestNothingOpenLeaksIntoAJob: what the service has open, and was started with, no job has.
func TestNothingOpenLeaksIntoAJob(t *testing.T) {
	w := newWorld(t)
	secret := filepath.Join(w.root, "secret of the service")
	must(t, os.WriteFile(secret, nil, 0o600))
	fd, err := unix.Open(secret, unix.O_RDONLY, 0) // as a program that knows nothing of children leaves it
	must(t, err)
	defer unix.Close(fd)
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD, 100)
	must(t, err)
	defer unix.Close(high)
	w.script(t, "busybox ls -l /proc/self/fd > /var/tmp/part; busybox mv /var/tmp/part /var/tmp/found; exec sleep 1000")
	j := start(t, w, w.launch(t))
	if got := j.file(t, "found"); strings.Contains(got, "secret of the service") {
		t.Errorf("the job has:\n%s", got)
	}
	dirs, err := filepath.Glob("/proc/[0-9]*/fd/*")
	must(t, err)
	for _, f := range dirs {
		if to, err := os.Readlink(f); err == nil && to == secret && !strings.HasPrefix(f, fmt.Sprintf("/proc/%d/", os.Getpid())) {
			status, _ := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(f)), "status"))
			if strings.Contains(string(status), "\nUid:\t54321\t") {
				t.Errorf("%s leads to it", f)
			}
		}
	}
}

// TestServicesThatJobsReachAllTheSame: those at this host's loopback and at its other addresses, and nothing beside
// them.
func TestServicesThatJobsReachAllTheSame(t *testing.T) {
	w := newWorld(t)
	w.reach(t)
	_, here, _, _ := outside(t)
	named, other := answering(t, "tcp", "127.0.0.1:0", "named"), answering(t, "tcp", "127.0.0.1:0", "other")
	atCable, beside := answering(t, "tcp", here+":0", "cable"), answering(t, "tcp", here+":0", "beside")
	_, port, err := net.SplitHostPort(named)
	must(t, err)
	w.cfg.Reach = []string{"localhost:" + port, named, atCable, "name-that-is-not-there.invalid:80"}
	got := w.tries(t, "tcp="+named, "tcp=localhost:"+port, "tcp="+atCable, "tcp="+other, "tcp="+beside)
	for way, want := range map[string]string{"tcp=" + named: "named", "tcp=localhost:" + port: "named", "tcp=" + atCable: "cable"} {
		if got[way] != want {
			t.Errorf("%s: %q", way, got[way])
		}
	}
	for _, way := range []string{"tcp=" + other, "tcp=" + beside} {
		if !strings.HasPrefix(got[way], "no: ") {
			t.Errorf("%s: %q", way, got[way])
		}
	}
}

// TestDiskLimit: a job that writes more than it may ends, with the figure and what to choose; its input files are
// beside it.
func TestDiskLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		code   bool
	}{
		"/tmp":           {"busybox head -c 40000000 /dev/zero > /tmp/large; exec busybox sleep 1000", true},
		"work directory": {"busybox head -c 40000000 /dev/zero > large; exec busybox sleep 1000", true},
		"its inputs":     {"busybox head -c 25000000 /dev/zero > large; exec busybox sleep 7", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.cfg.Disk = 20_000_000
			w.script(t, tc.script)
			l := w.launch(t)
			if !tc.code {
				l.InputDir, l.Spec.Inputs = t.TempDir(), []string{"in"}
				must(t, os.WriteFile(filepath.Join(l.InputDir, "in"), make([]byte, 10_000_000), 0o600))
			}
			o := start(t, w, l).exited(t)
			if !tc.code {
				if o.ExitCode != 0 || o.Reason != "" {
					t.Errorf("%+v", o)
				}
				return
			}
			want := "disk limit of 20 MB reached (40 MB in its work directory"
			if o.ExitCode == 0 || !strings.HasPrefix(o.Reason, want) || !strings.Contains(o.Remedy, "local.max_disk") {
				t.Errorf("%+v", o)
			}
		})
	}
}
