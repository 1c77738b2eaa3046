package local

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// neverReached are addresses of no other host: this link's, where clouds answer with the host's own credentials, and
// those of many.
func neverReached() []netip.Prefix {
	var all []netip.Prefix
	for _, text := range []string{"169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32", "fe80::/10", "ff00::/8"} {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// fenceRules writes the firewall of a job's network for nft: it refuses what is closed, but for the doors. They replace
// those of before in one step.
func fenceRules(closed []netip.Prefix, doors []door) string {
	var four, six []string
	for _, p := range slices.Concat(closed, neverReached()) {
		if p.Addr().Is4() {
			four = append(four, p.String())
		} else {
			six = append(six, p.String())
		}
	}
	var open, turn []string
	for _, d := range doors {
		if d.addr.IsLoopback() { // it is there already
			continue
		}
		for _, protocol := range d.protocols() {
			match := fmt.Sprintf("%s daddr %s %s dport %d", family(d.addr), d.addr, protocol, d.port)
			if d.passes {
				open = append(open, "\t\t"+match+" accept\n")
			} else {
				turn = append(turn, "\t\t"+match+fmt.Sprintf(" redirect to :%d\n", d.listens))
			}
		}
	}
	return fmt.Sprintf(`table inet slipway
delete table inet slipway
table inet slipway {
	set closed4 { type ipv4_addr; flags interval; auto-merge; elements = { %s }; }
	set closed6 { type ipv6_addr; flags interval; auto-merge; elements = { %s }; }
	chain out {
		type filter hook output priority 0; policy accept;
		oifname "lo" accept
%s		icmpv6 type { nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert, mld-listener-report, mld2-listener-report } accept
		ip daddr @closed4 reject with icmpx type admin-prohibited
		ip6 daddr @closed6 reject with icmpx type admin-prohibited
	}
%s}
`, list(four), list(six), strings.Join(open, ""), turns(turn))
}

// turns is the chain that turns connections to the doors' listeners.
func turns(rules []string) string {
	if len(rules) == 0 {
		return ""
	}
	const head = "\tchain turn {\n\t\ttype nat hook output priority -100; policy accept;\n"
	return head + strings.Join(rules, "") + "\t}\n"
}

// list writes the elements of a set, in an order of their own.
func list(elements []string) string {
	slices.Sort(elements)
	return strings.Join(slices.Compact(elements), ", ")
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "ip"
	}
	return "ip6"
}

func (d door) protocols() []string {
	if d.names {
		return []string{"tcp", "udp"}
	}
	return []string{"tcp"}
}
