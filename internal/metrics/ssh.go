package metrics

import "github.com/prometheus/client_golang/prometheus"

// SSH says what the ssh gateway does.
type SSH struct {
	Open     int            // connections that have logged in
	Unproved int            // and those that have not
	Logins   map[string]int // since the service's start, by outcome
	Channels map[string]int // likewise, by kind
	Read     int64          // bytes of clients, as they are on the wire
	Written  int64
}

// gateway collects the ssh gateway's numbers when they are asked for.
type gateway struct {
	look                              func() SSH
	open, logins, channels, wireBytes *prometheus.Desc
}

func newGateway(look func() SSH) *gateway {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("slipway_ssh_"+name, help, labels, nil)
	}
	return &gateway{
		look: look,
		open: desc("connections", "Open ssh connections by whether they have logged in.", "state"),
		logins: desc(
			"logins_total", "Ssh connections by what became of their login, since the service's start.", "outcome",
		),
		channels: desc(
			"channels_total", "Channels that were opened over ssh, by kind, since the service's start.", "kind",
		),
		wireBytes: desc("bytes_total", "Bytes of ssh connections, since the service's start.", "direction"),
	}
}

// Describe names what there is.
func (g *gateway) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.open, g.logins, g.channels, g.wireBytes} {
		ch <- d
	}
}

// Collect asks the gateway.
func (g *gateway) Collect(ch chan<- prometheus.Metric) {
	s := g.look()
	gauge := func(v int, state string) {
		ch <- prometheus.MustNewConstMetric(g.open, prometheus.GaugeValue, float64(v), state)
	}
	counter := func(d *prometheus.Desc, v float64, label string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, label)
	}
	gauge(s.Open, "open")
	gauge(s.Unproved, "unproved")
	for outcome, n := range s.Logins {
		counter(g.logins, float64(n), outcome)
	}
	for kind, n := range s.Channels {
		counter(g.channels, float64(n), kind)
	}
	counter(g.wireBytes, float64(s.Read), "read")
	counter(g.wireBytes, float64(s.Written), "written")
}
