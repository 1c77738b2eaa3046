package config

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSSH(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"{}", ""},
		{"{at_once: 0}", ""}, // nothing listens
		{"{listen: ':2222', host: hub.example.org}", ""},
		{"{listen: '[::1]:22', host: hub}", ""},
		{"{host: hub}", "ssh.listen"},
		{"{listen: '127.0.0.1:8090', host: hub}", "listen is at this one"}, // the default of `listen`
		{"{listen: ':8090', host: hub}", "listen is at this one"},
		{"{listen: '192.0.2.1:8090', host: hub}", ""},
		{"{listen: ':8091', host: hub}\nhubs: [{listen: ''}, {listen: '127.0.0.1:8091'}]", "hubs[1].listen is at this one"},
		{"{listen: ':2222', host: hub, proxies: [192.0.2.1, 0.0.0.0/0]}", "ssh.proxies[1]"},
		{"{listen: ':2222', host: hub, proxies: ['::/0']}", "ssh.proxies[0]"},
		{"{listen: ':2222'}", "ssh.host"},
		{"{listen: '2222', host: hub}", "ssh.listen"},
		{"{listen: ':ssh', host: hub}", "ssh.listen"},
		{"{listen: ':22222222', host: hub}", "ssh.listen"},
		{"{listen: ':2222', host: 'hub:2222'}", "ssh.host"},
		{"{listen: ':2222', host: 'https://hub'}", "ssh.host"},
		{"{listen: ':2222', host: '*'}", "ssh.host"},
		{"{listen: ':2222', host: hub, port: -1}", "ssh.port"},
		{"{listen: ':2222', host: hub, certificate: 1s}", "ssh.certificate"},
		{"{listen: ':2222', host: hub, certificate: 9000h}", "ssh.certificate"},
		{"{listen: ':2222', host: hub, at_once: 0}", "ssh.at_once"},
		{"{listen: ':2222', host: hub, deny: [169.254.0.1/16]}", "ssh.deny[0]"},
		{"{listen: ':2222', host: hub, deny: ['fe80::1%eth0']}", "ssh.deny[0]"},
		{"{listen: ':2222', host: hub, deny: []}", ""},
		{"{listen: ':2222', host: hub, proxies: [192.0.2.1, proxy]}", "ssh.proxies[1]"},
		{"{listen: ':2222', host: hub, proxies: ['::ffff:192.0.2.0/120']}", "ssh.proxies[0]"},
		{"{listen: ':2222', host: hub, networks: [{groups: [higgs], from: [192.0.2.0/24]}]}", ""},
		{"{listen: ':2222', host: hub, networks: [{from: [192.0.2.0/24]}]}", "ssh.networks[0].groups"},
		{"{listen: ':2222', host: hub, networks: [{groups: [''], from: [192.0.2.0/24]}]}", "ssh.networks[0].groups[0]"},
		{"{listen: ':2222', host: hub, networks: [{groups: ['*']}]}", "ssh.networks[0].from"},
		{"{listen: ':2222', host: hub, networks: [{groups: ['*'], from: [home]}]}", "ssh.networks[0].from[0]"},
	} {
		c, err := Parse([]byte("ssh: " + tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		var p problems
		c.checkSSH(&p)
		said := ""
		for _, err := range p {
			said += err.Error()
		}
		if (said == "") != (tt.want == "") || !strings.Contains(said, tt.want) {
			t.Errorf("%s: %q, want %q", tt.text, said, tt.want)
		}
	}
}

func TestSSHPort(t *testing.T) {
	for _, tt := range []struct {
		ssh  SSH
		want int
	}{{SSH{Listen: ":2222"}, 2222}, {SSH{Listen: "[::]:2222", Port: 22}, 22}, {SSH{}, 0}} {
		if got := tt.ssh.PortShown(); got != tt.want {
			t.Errorf("%+v: %d", tt.ssh, got)
		}
	}
}

func TestPrefixes(t *testing.T) {
	got := Prefixes([]string{"192.0.2.0/24", "::ffff:192.0.2.9", "2001:db8::1", "no"})
	want := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.0.2.9/32"), netip.MustParsePrefix("2001:db8::1/128")}
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); d != "" {
		t.Error(d)
	}
}
