package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"slipway/internal/errs"
	"slipway/internal/testenv"
	"slipway/spawner"
)

func TestIsolated(t *testing.T) {
	bridge := func(icc string, ipv6 bool) network.Network {
		return network.Network{Name: "n", Driver: "bridge", EnableIPv6: ipv6, Options: map[string]string{optionICC: icc}}
	}
	for name, test := range map[string]struct {
		net  network.Network
		says string // empty: all is well
	}{
		"ours":          {bridge("false", false), ""},
		"none":          {network.Network{Name: "none", Driver: "null"}, ""},
		"the engine's":  {bridge("true", false), "reach each other by network n"},
		"not said":      {network.Network{Name: "n", Driver: "bridge"}, "reach each other by network n"},
		"IPv6":          {bridge("false", true), "ip6tables"},
		"the host's":    {network.Network{Name: "host", Driver: "host"}, "share the network of this host"},
		"some driver's": {network.Network{Name: "n", Driver: "macvlan"}, "macvlan"},
	} {
		err := isolated(test.net)
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
}

func TestOwnNetworkName(t *testing.T) {
	for instance, want := range map[string]string{
		"slipway": "slipway-net", "slipway-demo-12": "slipway-demo-12-net", "e2e-001/Test x": "slipway-e2e-001-Test-x-net",
	} {
		if got := ownNetwork(instance); got != want {
			t.Errorf("%s: %s, want %s", instance, got, want)
		}
	}
}

// onOwnNetwork returns a world whose instance has its own network, which goes with the test.
func onOwnNetwork(t *testing.T) world {
	t.Helper()
	w := newWorld(t)
	b, err := New(Config{Instance: w.cfg.Instance})
	if err != nil {
		t.Fatal(err)
	}
	w.Backend = b
	t.Cleanup(func() {
		w.clear(t) // an engine keeps a network that is in use
		_, err := b.client.NetworkRemove(context.WithoutCancel(t.Context()), b.cfg.Network, client.NetworkRemoveOptions{})
		if err != nil && !gone(err) {
			t.Error(err)
		}
		_ = b.Close()
	})
	return w
}

// run runs a command of busybox in a workload.
func (w world) run(t *testing.T, id spawner.ID, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", append([]string{"exec", nameOf(id), "/bin/busybox"}, args...)...).CombinedOutput()
	return string(out), err
}

// address returns a workload's own, and the network that it has it from.
func (w world) address(t *testing.T, id spawner.ID) (name, ip string) {
	t.Helper()
	c, found, err := w.find(t.Context(), id)
	if err != nil || !found || len(c.NetworkSettings.Networks) != 1 {
		t.Fatalf("%s: found %v, %v, on networks %v", id, found, err, c.NetworkSettings)
	}
	for name, at := range c.NetworkSettings.Networks {
		return name, at.IPAddress.String()
	}
	return "", ""
}

// listens has a workload listen on a port.
func (w world) listens(t *testing.T, id spawner.ID) string {
	t.Helper()
	if out, err := exec.Command("docker", "exec", "--detach", nameOf(id), "/bin/busybox", "nc", "-ll", "-p", "7000", "-e", "/bin/busybox", "echo", "hello").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, ip := w.address(t, id)
	until(t, "it answers itself", func() bool {
		out, _ := w.run(t, id, "nc", "-w", "1", ip, "7000")
		return strings.Contains(out, "hello")
	})
	return ip
}

// TestSessionsApart: on its own network a session reaches this host, and no other session.
func TestSessionsApart(t *testing.T) {
	w := onOwnNetwork(t)
	one, two := w.launch(t, ""), w.launch(t, "")
	w.up(t, one)
	w.up(t, two)
	ip := w.listens(t, one.ID)
	if out, err := w.run(t, two.ID, "nc", "-w", "3", ip, "7000"); err == nil {
		t.Errorf("a session of another user's answers: %s", out)
	}
	if out, err := w.run(t, two.ID, "cat", "/proc/net/if_inet6"); err == nil && strings.Contains(out, "fe80") {
		t.Errorf("it has addresses by which the rule for IPv4 is passed by: %s", out)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(testenv.Bridge(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = fmt.Fprintln(c, "the host")
			_ = c.Close()
		}
	}()
	host, port, _ := net.SplitHostPort(l.Addr().String())
	if out, err := w.run(t, two.ID, "nc", "-w", "5", host, port); err != nil || !strings.Contains(out, "the host") {
		t.Errorf("this host is not reached: %v %s", err, out)
	}
	if err := w.Isolation(t.Context()); err != nil {
		t.Errorf("Isolation = %v", err)
	}
	if err := w.again(t, Config{}).Isolation(t.Context()); err == nil || !strings.Contains(err.Error(), "reach each other") {
		t.Errorf("Isolation of the engine's own network = %v", err)
	}
}

// TestNetworkReturns: a kept session comes up on the network of today, whatever became of the one that it was made on.
func TestNetworkReturns(t *testing.T) {
	own := onOwnNetwork(t)
	before := world{Backend: own.again(t, Config{Instance: own.cfg.Instance}), image: own.image, agent: own.agent}
	l := own.launch(t, "")
	before.up(t, l)
	if name, _ := own.address(t, l.ID); name != "bridge" {
		t.Fatalf("it began on %s", name)
	}
	stop := func() {
		if err := own.Stop(t.Context(), l.ID, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []string{"upgraded", "the network was removed"} {
		stop()
		if step != "upgraded" {
			if _, err := own.client.NetworkRemove(t.Context(), own.cfg.Network, client.NetworkRemoveOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		own.up(t, l)
		if name, ip := own.address(t, l.ID); name != own.cfg.Network || ip == "" {
			t.Errorf("%s: it is on %s as %q", step, name, ip)
		}
	}
	again, err := New(Config{Instance: own.cfg.Instance}) // as after a restart
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	first, err := own.ensureNetwork(t.Context())
	if second, err2 := again.ensureNetwork(t.Context()); err != nil || err2 != nil || first != second {
		t.Errorf("another service has network %s, not %s: %v, %v", second, first, err, err2)
	}
	again.cfg.Instance += "-other" // whose name comes to the same
	if _, err := again.ensureNetwork(t.Context()); !errs.Is(err, errs.Conflict) {
		t.Errorf("another instance's network: %v", err)
	}
}

// TestTwoNetworksOfOneName: an engine has two when it carries out the request of a service that was killed beside that
// of the next one. The oldest stays, which sessions are attached to; names that contain this one are others'.
func TestTwoNetworksOfOneName(t *testing.T) {
	w := onOwnNetwork(t)
	first, err := w.ensureNetwork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := w.launch(t, "")
	w.up(t, l)
	create := func(name, instance string) string {
		t.Helper()
		made, err := w.client.NetworkCreate(t.Context(), name, client.NetworkCreateOptions{
			Driver: "bridge", Options: map[string]string{optionICC: "false"}, Labels: map[string]string{labelInstance: instance},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_, _ = w.client.NetworkRemove(context.WithoutCancel(t.Context()), made.ID, client.NetworkRemoveOptions{})
		})
		return made.ID
	}
	second, longer := create(w.cfg.Network, w.cfg.Instance), create(w.cfg.Network+"-2", w.cfg.Instance)
	if err := errors.Join(w.checkNetwork(t.Context()), w.Isolation(t.Context())); err != nil {
		t.Errorf("with two networks: %v", err)
	}
	if got, err := w.ensureNetwork(t.Context()); got != first || err != nil {
		t.Errorf("it uses %s, %v, want %s", got, err, first)
	}
	for id, want := range map[string]bool{first: true, second: false, longer: true} {
		_, err := w.client.NetworkInspect(t.Context(), id, client.NetworkInspectOptions{})
		if err != nil && !gone(err) || (err == nil) != want {
			t.Errorf("network %s: %v, want it there: %v", id, err, want)
		}
	}
	w.up(t, w.launch(t, ""))

	create(w.cfg.Network, "another")
	if _, err := w.ensureNetwork(t.Context()); !errs.Is(err, errs.Conflict) {
		t.Errorf("beside another instance's: %v", err)
	}
}
