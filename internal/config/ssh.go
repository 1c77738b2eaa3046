package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// SSH is how users reach their sessions by ssh.
type SSH struct {
	Listen                string       `yaml:"listen"` // empty: no ssh
	Host                  string       `yaml:"host"`
	Port                  int          `yaml:"port"` // 0: that of Listen
	CertificateLifetime   Duration     `yaml:"certificate_lifetime"`
	BrowserLogin          bool         `yaml:"browser_login"`
	AllowedNetworks       []SSHNetwork `yaml:"allowed_networks"`
	TrustedProxies        []string     `yaml:"trusted_proxies"`
	DeniedNetworks        []string     `yaml:"denied_networks"`
	MaxConnectionsPerUser int          `yaml:"max_connections_per_user"`
}

// SSHNetwork lets the users of groups come from networks.
type SSHNetwork struct {
	Groups []string `yaml:"groups"` // "*": everybody
	From   []string `yaml:"from"`   // networks, such as 192.0.2.0/24
}

func defaultSSH() SSH {
	return SSH{
		CertificateLifetime: Duration(12 * time.Hour), BrowserLogin: true, MaxConnectionsPerUser: 64,
		AllowedNetworks: []SSHNetwork{}, TrustedProxies: []string{},
		DeniedNetworks: []string{"169.254.0.0/16", "fe80::/10"},
	}
}

// On says whether there is ssh at all.
func (s SSH) On() bool { return s.Listen != "" }

// PortShown returns the port that users type.
func (s SSH) PortShown() int {
	if s.Port != 0 {
		return s.Port
	}
	_, port, _ := net.SplitHostPort(s.Listen)
	n, _ := strconv.Atoi(port)
	return n
}

// Prefixes reads networks. An address alone is a network of one. What cannot be read was refused by the check.
func Prefixes(networks []string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range networks {
		if p, err := parsePrefix(text); err == nil {
			out = append(out, p)
		}
	}
	return out
}

func parsePrefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, err
	}
	if p != p.Masked() {
		return p, fmt.Errorf("%s has bits behind its length; did you mean %s?", text, p.Masked())
	}
	if p.Addr().Is4In6() {
		return p, fmt.Errorf("%s is an IPv4 network; write it as one", text)
	}
	return p, nil
}

// The longest and the shortest that certificates may be good for.
const (
	leastCertificate = time.Minute
	mostCertificate  = 7 * 24 * time.Hour
	mostAtOnce       = 10_000
)

// checkSSH looks at the section as far as it is used.
func (c Config) checkSSH(p *problems) {
	s := c.SSH
	if !s.On() {
		if s.Host != "" {
			p.add("ssh.listen", "", "an address such as :2222, or no ssh.host: as it is there is no ssh")
		}
		return
	}
	if !listenable(s.Listen) {
		p.add("ssh.listen", s.Listen, "an address such as :2222, or nothing: no ssh")
	} else if other := c.listener(s.Listen); other != "" {
		p.add("ssh.listen", s.Listen, "a port of its own, such as :2222: "+other+" is at this one")
	}
	if s.Host == "" || strings.ContainsAny(s.Host, ":/@+ \t,*?[]") {
		p.add(
			"ssh.host", s.Host,
			"the name alone that users type, such as hub.example.org: host certificates are made out to it",
		)
	}
	if s.Port < 0 || s.Port > 65535 {
		p.add("ssh.port", s.Port, "the port that users type, or 0: that of ssh.listen")
	}
	if d := time.Duration(s.CertificateLifetime); d < leastCertificate || d > mostCertificate {
		p.add(
			"ssh.certificate_lifetime", d,
			fmt.Sprintf("a time from %s to %s, such as 12h", leastCertificate, mostCertificate),
		)
	}
	if s.MaxConnectionsPerUser < 1 || s.MaxConnectionsPerUser > mostAtOnce {
		p.add("ssh.max_connections_per_user", s.MaxConnectionsPerUser, fmt.Sprintf("a number from 1 to %d", mostAtOnce))
	}
	checkNetworks(p, "ssh.trusted_proxies", s.TrustedProxies)
	for i, text := range s.TrustedProxies {
		if n, err := parsePrefix(text); err == nil && n.Bits() == 0 {
			p.add(fmt.Sprintf("ssh.trusted_proxies[%d]", i), text, "the addresses of your proxies alone: what they say of a visitor's address is believed, and this is everybody")
		}
	}
	checkNetworks(p, "ssh.denied_networks", s.DeniedNetworks)
	for i, n := range s.AllowedNetworks {
		n.check(fmt.Sprintf("ssh.allowed_networks[%d].", i), p)
	}
}

// listener returns the key of what else listens where an address does; empty: nothing.
func (c Config) listener(address string) string {
	if overlap(address, c.Listen) {
		return "listen"
	}
	for i, h := range c.Hubs {
		if overlap(address, h.Listen) {
			return fmt.Sprintf("hubs[%d].listen", i)
		}
	}
	return ""
}

// overlap reports whether only one can listen at two addresses: they have a port in common, and a host, where none is
// all of them.
func overlap(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	every := func(host string) bool { return host == "" || host == "0.0.0.0" || host == "::" }
	return errA == nil && errB == nil && portA == portB && portA != "0" && (hostA == hostB || every(hostA) ||
		every(hostB))
}

func (n SSHNetwork) check(at string, p *problems) {
	if len(n.Groups) == 0 {
		p.add(at+"groups", "[]", `names of groups, such as higgs, or "*": everybody`)
	}
	for i, g := range n.Groups {
		if g == "" {
			p.add(fmt.Sprintf("%sgroups[%d]", at, i), g, `the name of a group, or "*": everybody`)
		}
	}
	if len(n.From) == 0 {
		p.add(at+"from", "[]", "networks, such as 192.0.2.0/24")
	}
	checkNetworks(p, at+"from", n.From)
}

func checkNetworks(p *problems, field string, networks []string) {
	for i, text := range networks {
		if _, err := parsePrefix(text); err != nil {
			p.add(
				fmt.Sprintf("%s[%d]", field, i), text,
				"a network such as 192.0.2.0/24 or 2001:db8::/32, without bits behind its length",
			)
		}
	}
}
