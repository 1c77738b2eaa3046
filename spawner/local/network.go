package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/local/cgroup"
)

// Network says what a job reaches.
type Network string

// The networks of jobs.
const (
	Outward  Network = "outward" // other hosts, and nothing of this one
	Isolated Network = "none"    // only itself
	OfHost   Network = "host"    // all that this host reaches, its own services included: unsafe
)

// With Outward a job has a network namespace of its own. pasta joins it to the host's network, as an ordinary process
// of the job's owner: what leaves the namespace, pasta sends from a socket of its own. So it could be sent to the
// host's own addresses too, and a firewall in the namespace (see fence) refuses these. The namespace belongs to a user
// namespace of root's: the job cannot change the firewall, and pasta, which can, has rights in that user namespace
// alone.
//
// Routes that refuse the addresses would not do: a socket that is bound to an interface (SO_BINDTODEVICE, IP_PKTINFO)
// evades them.

// HasNetwork says why jobs cannot have the configured network; nil when they can.
func (b *Backend) HasNetwork() error {
	_, err := b.networkPrograms()
	return err
}

// Reaches says what jobs reach, for people.
func (b *Backend) Reaches() string {
	switch {
	case b.cfg.Network == Isolated:
		return "jobs reach only themselves"
	case b.cfg.Network == OfHost:
		return "jobs share this host's network"
	case len(b.cfg.Reach) == 0:
		return "jobs reach other hosts, and of this one its name servers alone"
	default:
		return "jobs reach other hosts, and of this one its name servers and " + strings.Join(b.cfg.Reach, ", ")
	}
}

// programs are what makes the network of a job.
type programs struct {
	Pasta string `json:"pasta,omitempty"`
	Nft   string `json:"nft,omitempty"`
}

// networkPrograms finds what the configured network needs.
func (b *Backend) networkPrograms() (programs, error) {
	if b.cfg.Network != Outward {
		return programs{}, nil
	}
	found := programs{}
	for _, p := range []struct {
		into                *string
		name, does, install string
	}{
		{
			&found.Pasta, b.cfg.Pasta, "gives each job a network of its own",
			"apt-get install passt, or dnf install passt",
		},
		{
			&found.Nft, "nft", "keeps jobs from this host's services",
			"apt-get install nftables, or dnf install nftables",
		},
	} {
		path, err := exec.LookPath(p.name)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return programs{}, errs.New(errs.Missing, "%s, which %s, is not installed on this host", p.name, p.does).
				With(p.install + "; or set local.network to none, for jobs that need no network")
		}
		*p.into = path
	}
	return found, b.host.hasTun()
}

// hasTun looks for the device by which pasta reaches a namespace.
func (h host) hasTun() error {
	if _, err := os.Stat(filepath.Join(h.root, tun)); err != nil {
		return errs.New(errs.Missing, "this host has no %s, by which jobs get a network of their own", tun).
			With("modprobe tun; or set local.network to none, for jobs that need no network")
	}
	return nil
}

// tun is the device by which pasta reaches a namespace.
const tun = "/dev/net/tun"

// networkResources bound what a job's pasta takes. It is counted apart from the job.
var networkResources = spawner.Resources{Memory: 256 << 20, Pids: 16}

// networkGroup is the control group of a job's pasta.
func networkGroup(t cgroup.Tree, id string) cgroup.Group { return t.Group("net-" + id) }

// network is the network of a job that reaches outward. Nil is that of a job without.
type network struct {
	plan    plan
	group   cgroup.Group
	space   *os.File // the network namespace
	users   *os.File // the user namespace that it belongs to
	pid     int      // of the pasta that is starting
	said    *os.File // what that says
	fenced  string   // the firewall as it was last set
	doors   []door
	watcher *os.File // tells when the host's addresses change
}

// openNetwork makes a job's network, and starts pasta in it: see ready. What it made it ends itself when it fails.
func openNetwork(d dir, p plan) (_ *network, err error) {
	if p.Network != Outward || p.isTrial() {
		return nil, nil
	}
	n := &network{plan: p, group: networkGroup(cgroup.New(cgroup.Root, p.Cgroups), p.ID)}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("make the job's network: %w", err), n.end(context.Background()))
		}
	}()
	limit := func() error { return n.group.Limit(networkResources) }
	for _, act := range []func() error{n.group.Create, limit, n.makeSpace, n.watchHost} {
		if err := act(); err != nil {
			return n, err
		}
	}
	_, own, err := hostAddresses("/sys/class/net")
	if err != nil {
		return n, err
	}
	doors, err := p.wanted(context.Background(), own)
	if err != nil {
		return n, err
	}
	err = inSpace(n.space, func() error {
		if err := loopbackUp(); err != nil {
			return err
		}
		return n.openDoors(doors)
	})
	if err == nil {
		err = n.fence(true)
	}
	if err == nil {
		err = n.startPasta(d)
	}
	return n, err
}

// makeSpace makes the namespaces. They live as long as somebody has them open or is in them.
func (n *network) makeSpace() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	holder := exec.Command("cat") // until its input ends
	holder.Stdin = r
	a := n.plan.Account
	holder.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: a.UID, HostID: a.UID, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: a.GID, HostID: a.GID, Size: 1}},
	}
	if err := holder.Start(); err != nil {
		return errors.Join(err, w.Close())
	}
	at := filepath.Join("/proc", strconv.Itoa(holder.Process.Pid), "ns")
	n.space, err = os.Open(filepath.Join(at, "net"))
	if err == nil {
		n.users, err = os.Open(filepath.Join(at, "user"))
	}
	return errors.Join(err, w.Close(), holder.Wait())
}

// inSpace does something in a network namespace, on a thread that is given up after it.
func inSpace(space *os.File, act func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := unix.Setns(int(space.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = act()
		}
		done <- err
	}()
	return <-done
}

// loopbackUp makes 127.0.0.1 and ::1 usable in the calling thread's network namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request := struct { // ifreq
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{name: [unix.IFNAMSIZ]byte{'l', 'o'}, flags: unix.IFF_UP | unix.IFF_RUNNING}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return fmt.Errorf("bring up the loopback interface: %w", errno)
	}
	return nil
}

// startPasta starts the program that becomes pasta.
func (n *network) startPasta(d dir) error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	said, into, err := os.Pipe()
	if err != nil {
		return err
	}
	defer into.Close()
	n.said = said
	n.pid, err = syscall.ForkExec("/proc/self/exe", []string{"slipway", "local-network", string(d)}, &syscall.ProcAttr{
		Dir: "/", Env: []string{}, Files: []uintptr{null.Fd(), into.Fd(), into.Fd(), n.space.Fd(), n.users.Fd()},
		Sys: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Setsid: true, Pdeathsig: kill},
	})
	return err
}

// startsWithin is how long pasta may take to start.
const startsWithin = 30 * time.Second

// ready waits until pasta joins the namespace to the network: then it goes into the background.
func (n *network) ready() error {
	if n == nil {
		return nil
	}
	defer time.AfterFunc(startsWithin, func() { _ = n.group.Kill(context.Background()) }).Stop()
	words, err := io.ReadAll(io.LimitReader(n.said, 64<<10))
	var s syscall.WaitStatus
	if _, werr := syscall.Wait4(n.pid, &s, 0, nil); werr != nil || err != nil {
		return errors.Join(err, werr, n.said.Close())
	}
	if s.ExitStatus() == 0 {
		return n.said.Close()
	}
	return errors.Join(n.said.Close(), errs.New(errs.Unavailable, "the job's network cannot be made: pasta: %s: "+
		"the administrator looks whether this host has a default route; jobs that need none run with local.network: none", said(words)))
}

// said returns the words of pasta that say something.
func said(words []byte) string {
	var all []string
	for line := range strings.Lines(string(words)) {
		if line = strings.TrimSpace(line); line != "" && !strings.Contains(line, "to syslog") {
			all = append(all, line)
		}
	}
	if len(all) == 0 {
		return "it ended without a word"
	}
	return strings.Join(all, "; ")
}

// serve keeps the network up to date until ctx ends: the firewall follows the host's addresses.
func (n *network) serve(ctx context.Context) {
	if n == nil {
		return
	}
	defer context.AfterFunc(ctx, func() { _ = n.watcher.SetReadDeadline(time.Unix(1, 0)) })()
	var doors sync.WaitGroup
	defer doors.Wait()
	for _, d := range n.doors {
		doors.Go(func() { d.serve(ctx) })
		defer context.AfterFunc(ctx, d.close)()
	}
	news := make([]byte, 64<<10)
	for {
		// ENOBUFS: there was more news than the kernel keeps.
		if _, err := n.watcher.Read(news); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return
		}
		_ = n.fence(false) // what has failed is tried again with the next news
	}
}

// watchHost asks the kernel for news of the host's addresses.
func (n *network) watchHost() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	n.watcher = os.NewFile(uintptr(fd), "netlink")
	const news = unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR
	return unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: news})
}

// fence sets the firewall if it is not what the host's addresses want. Once the job runs, another part of the shim
// collects what ends, so only what nft says tells whether it has failed.
func (n *network) fence(first bool) error {
	rules, err := n.rules()
	if err != nil || rules == n.fenced {
		return err
	}
	err = inSpace(n.space, func() error {
		cmd := exec.Command(n.plan.Nft, "-f", "-")
		cmd.Stdin = strings.NewReader(rules)
		out, err := cmd.CombinedOutput()
		if !first && errors.Is(err, syscall.ECHILD) {
			err = nil
		}
		if out = bytes.TrimSpace(out); err == nil && len(out) > 0 {
			err = errors.New("it complains")
		}
		if err != nil {
			return fmt.Errorf("set the firewall of the job's network: nft: %w: %s", err, out)
		}
		return nil
	})
	if err == nil {
		n.fenced = rules
	}
	return err
}

func (n *network) rules() (string, error) {
	closed, _, err := hostAddresses("/sys/class/net")
	if err != nil {
		return "", fmt.Errorf("look at this host's addresses: %w", err)
	}
	return fenceRules(closed, n.doors), nil
}

// end ends pasta and gives the namespaces up. It is called again without harm.
func (n *network) end(ctx context.Context) error {
	if n == nil {
		return nil
	}
	err := n.group.Kill(ctx)
	for _, d := range n.doors {
		d.close()
	}
	for _, f := range []*os.File{n.space, n.users, n.watcher} {
		if f != nil {
			_ = f.Close()
		}
	}
	return errors.Join(err, n.group.Remove())
}

// hostAddresses returns what jobs are not to reach: this host's own addresses, and the networks of its bridges for
// containers and virtual machines, which have no network card. own are the addresses alone. sys is /sys/class/net.
func hostAddresses(sys string) (closed []netip.Prefix, own map[netip.Addr]bool, err error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, nil, err
	}
	own = map[netip.Addr]bool{}
	for _, i := range all {
		addresses, err := i.Addrs()
		if err != nil {
			continue // it has gone meanwhile
		}
		for _, a := range addresses {
			p, err := netip.ParsePrefix(a.String())
			if err != nil || p.Addr().IsLoopback() {
				continue
			}
			own[p.Addr()] = true
			if !inner(sys, i.Name) {
				p = netip.PrefixFrom(p.Addr(), p.Addr().BitLen())
			}
			closed = append(closed, p.Masked())
		}
	}
	return closed, own, nil
}

// inner reports whether an interface is a bridge without a network card.
func inner(sys, name string) bool {
	if _, err := os.Stat(filepath.Join(sys, name, "bridge")); err != nil {
		return false
	}
	ports, err := os.ReadDir(filepath.Join(sys, name, "brif"))
	if err != nil {
		return false
	}
	for _, p := range ports {
		if outer(sys, p.Name(), 8) {
			return false
		}
	}
	return true
}

// outer reports whether an interface has a network card, or stands on one as bonds and VLANs do.
func outer(sys, name string, depth int) bool {
	if _, err := os.Stat(filepath.Join(sys, name, "device")); err == nil {
		return true
	}
	lower, _ := filepath.Glob(filepath.Join(sys, name, "lower_*"))
	for _, l := range lower {
		if depth > 0 && outer(sys, strings.TrimPrefix(filepath.Base(l), "lower_"), depth-1) {
			return true
		}
	}
	return false
}
