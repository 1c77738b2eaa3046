package sshgate

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// crowd is connections by their source. Who has one locks it.
type crowd struct {
	of  map[netip.Prefix][]*guest // oldest first
	in  map[netip.Prefix]int      // how many, by network
	all int
}

// guest is a connection that has not logged in.
type guest struct {
	from    netip.Prefix
	since   time.Time
	close   func()
	inside  bool
	browses bool
	name    string // of a login by the browser
	suspect bool   // too many have failed who came from where it comes from
}

func newCrowd() crowd { return crowd{of: map[netip.Prefix][]*guest{}, in: map[netip.Prefix]int{}} }

func (c *crowd) add(g *guest) {
	g.inside = true
	c.of[g.from] = append(c.of[g.from], g)
	c.in[network(g.from)]++
	c.all++
}

func (c *crowd) remove(g *guest) {
	if !g.inside {
		return
	}
	g.inside = false
	c.all--
	i := slices.Index(c.of[g.from], g)
	if c.of[g.from] = slices.Delete(c.of[g.from], i, i+1); len(c.of[g.from]) == 0 {
		delete(c.of, g.from)
	}
	n := network(g.from)
	if c.in[n]--; c.in[n] == 0 {
		delete(c.in, n)
	}
}

// dismiss removes who of a source has to go: the oldest that came before a time. Who waits for a browser is let wait
// while there are others.
func (c *crowd) dismiss(source netip.Prefix, before time.Time) *guest {
	for _, patient := range []bool{false, true} {
		for _, g := range c.of[source] {
			if g.browses == patient && !g.since.After(before) {
				c.remove(g)
				return g
			}
		}
	}
	return nil
}

// largest finds, in the network with the most connections, the source with the most, and of several the one whose first
// is the oldest.
func (c *crowd) largest() (most netip.Prefix) {
	size, longest := 0, []*guest(nil)
	for source, list := range c.of {
		n := c.in[network(source)]
		more := cmp.Or(cmp.Compare(n, size), cmp.Compare(len(list), len(longest)))
		if more > 0 || more == 0 && list[0].since.Before(longest[0].since) {
			most, size, longest = source, n, list
		}
	}
	return most
}

// network returns what one holder of addresses has of them: an IPv6 site gets a /48, and with it 65,536 sources. With
// IPv4 it is the address.
func network(source netip.Prefix) netip.Prefix {
	if source.Addr().Is4() {
		return source
	}
	p, _ := source.Addr().Prefix(48)
	return p
}
