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
		{"{max_connections_per_user: 0}", ""}, // nothing listens
		{"{listen: ':2222', host: hub.example.org}", ""},
		{"{listen: '[::1]:22', host: hub}", ""},
		{"{host: hub}", "ssh.listen"},
		{"{listen: '127.0.0.1:8090', host: hub}", "listen is at this one"}, // the default of `listen`
		{"{listen: ':8090', host: hub}", "listen is at this one"},
		{"{listen: '192.0.2.1:8090', host: hub}", ""},
		{"{listen: ':8091', host: hub}\nhubs: [{listen: ''}, {listen: '127.0.0.1:8091'}]", "hubs[1].listen is at this one"},
		{"{listen: ':2222', host: hub, trusted_proxies: [192.0.2.1, 0.0.0.0/0]}", "ssh.trusted_proxies[1]"},
		{"{listen: ':2222', host: hub, trusted_proxies: ['::/0']}", "ssh.trusted_proxies[0]"},
		{"{listen: ':2222'}", "ssh.host"},
		{"{listen: '2222', host: hub}", "ssh.listen"},
		{"{listen: ':ssh', host: hub}", "ssh.listen"},
		{"{listen: ':22222222', host: hub}", "ssh.listen"},
		{"{listen: ':2222', host: 'hub:2222'}", "ssh.host"},
		{"{listen: ':2222', host: 'https://hub'}", "ssh.host"},
		{"{listen: ':2222', host: '*'}", "ssh.host"},
		{"{listen: ':2222', host: hub, port: -1}", "ssh.port"},
		{"{listen: ':2222', host: hub, certificate_lifetime: 1s}", "ssh.certificate_lifetime"},
		{"{listen: ':2222', host: hub, certificate_lifetime: 9000h}", "ssh.certificate_lifetime"},
		{"{listen: ':2222', host: hub, max_connections_per_user: 0}", "ssh.max_connections_per_user"},
		{"{listen: ':2222', host: hub, denied_networks: [169.254.0.1/16]}", "ssh.denied_networks[0]"},
		{"{listen: ':2222', host: hub, denied_networks: ['fe80::1%eth0']}", "ssh.denied_networks[0]"},
		{"{listen: ':2222', host: hub, denied_networks: []}", ""},
		{"{listen: ':2222', host: hub, trusted_proxies: [192.0.2.1, proxy]}", "ssh.trusted_proxies[1]"},
		{"{listen: ':2222', host: hub, trusted_proxies: ['::ffff:192.0.2.0/120']}", "ssh.trusted_proxies[0]"},
		{"{listen: ':2222', host: hub, allowed_networks: [{groups: [higgs], from: [192.0.2.0/24]}]}", ""},
		{"{listen: ':2222', host: hub, allowed_networks: [{from: [192.0.2.0/24]}]}", "ssh.allowed_networks[0].groups"},
		{"{listen: ':2222', host: hub, allowed_networks: [{groups: [''], from: [192.0.2.0/24]}]}", "ssh.allowed_networks[0].groups[0]"},
		{"{listen: ':2222', host: hub, allowed_networks: [{groups: ['*']}]}", "ssh.allowed_networks[0].from"},
		{"{listen: ':2222', host: hub, allowed_networks: [{groups: ['*'], from: [home]}]}", "ssh.allowed_networks[0].from[0]"},
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
