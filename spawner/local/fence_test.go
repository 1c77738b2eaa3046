package local

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"slipway/internal/testenv"
)

// TestFence compares with testdata/fence.nft; write it anew with UPDATE_GOLDEN=1.
func TestFence(t *testing.T) {
	closed := []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("172.17.0.0/16"), netip.MustParsePrefix("2001:db8::7/128")}
	rules := fenceRules(closed, []door{
		{addr: netip.MustParseAddr("127.0.0.53"), port: 53, names: true, listens: 53},
		{addr: netip.MustParseAddr("192.0.2.7"), port: 53, names: true, listens: 40001},
		{addr: netip.MustParseAddr("169.254.169.253"), port: 53, names: true, passes: true},
		{addr: netip.MustParseAddr("2001:db8::7"), port: 1094, listens: 40002},
	})
	golden := filepath.Join("testdata", "fence.nft")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(rules), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != rules {
		t.Errorf("%s\nwant\n%s", rules, want)
	}
	testenv.Need(t, testenv.Root, testenv.Pasta)
	cmd := exec.Command("unshare", "--net", "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules + rules) // the second replaces the first
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("nft: %v\n%s", err, out)
	}
}

func TestNameServers(t *testing.T) {
	got := parseResolver(strings.NewReader("# no\nnameserver 127.0.0.53\nsearch example.org\nnameserver ::1\nnameserver fe80::1%eth0\nnameserver x\nnameserver\nnameserver 10.0.0.1 # near\n"))
	want := []netip.Addr{netip.MustParseAddr("127.0.0.53"), netip.IPv6Loopback(), netip.MustParseAddr("10.0.0.1")}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// TestBridgesOfContainers: bridges without a network card are closed as a whole, and those that stand on one, also
// through a bond, are not.
func TestBridgesOfContainers(t *testing.T) {
	sys := t.TempDir()
	for _, dir := range []string{
		"docker0/bridge", "docker0/brif/veth1", "veth1", "br0/bridge", "br0/brif/bond0", "bond0/lower_eth0", "eth0/device", "br1/bridge", "br1/brif", "wg0",
	} {
		if err := os.MkdirAll(filepath.Join(sys, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{"docker0": true, "br0": false, "br1": true, "eth0": false, "wg0": false, "gone": false} {
		if got := inner(sys, name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestWhatPastaSays(t *testing.T) {
	if got := said([]byte("Failed to send 51 bytes to syslog\nNo routable interface\n\n")); got != "No routable interface" {
		t.Errorf("%q", got)
	}
	if got := said(nil); got != "it ended without a word" {
		t.Errorf("%q", got)
	}
}

// TestDoorToANameServer: one that listens on this host's loopback alone answers in a job's network, by UDP and TCP,
// where the job expects it.
func TestDoorToANameServer(t *testing.T) {
	testenv.Need(t, testenv.Root)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	at := netip.MustParseAddrPort(tcp.Addr().String())
	udp, err := net.ListenPacket("udp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	go func() {
		c, err := tcp.Accept()
		if err == nil {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	go func() {
		packet := make([]byte, 100)
		n, from, err := udp.ReadFrom(packet)
		if err == nil {
			_, _ = udp.WriteTo(packet[:n], from)
		}
	}()
	n := &network{plan: samplePlan()}
	if err := n.makeSpace(); err != nil {
		t.Fatal(err)
	}
	err = inSpace(n.space, func() error {
		return errors.Join(loopbackUp(), n.openDoors([]door{{addr: at.Addr(), port: at.Port(), names: true}}))
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() { n.doors[0].serve(ctx) })
	defer serving.Wait()
	defer n.doors[0].close()
	defer cancel()
	for _, kind := range []string{"udp", "tcp"} {
		var c net.Conn
		err := inSpace(n.space, func() (err error) { c, err = net.Dial(kind, at.String()); return err })
		if err != nil {
			t.Fatal(kind, err)
		}
		if _, err := c.Write([]byte("question")); err != nil {
			t.Fatal(kind, err)
		}
		answer := make([]byte, 100)
		if n, err := c.Read(answer); string(answer[:n]) != "question" {
			t.Errorf("%s: %q, %v", kind, answer[:n], err)
		}
		_ = c.Close()
	}
}
