package metrics

import "github.com/prometheus/client_golang/prometheus"

// Credentials says how users' tokens and proxies are. Names are those of the site's issuers, and x509.
type Credentials struct {
	Refreshes map[[2]string]int // since the service's start, by issuer and result
	Held      map[string]int    // by name
	Trouble   map[string]int    // those of them that something is wrong with, by name
}

// credentials collects the numbers of users' credentials when they are asked for.
type credentials struct {
	look                     func() Credentials
	refreshes, held, trouble *prometheus.Desc
}

func newCredentials(look func() Credentials) *credentials {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("slipway_"+name, help, labels, nil)
	}
	return &credentials{
		look: look,
		refreshes: desc(
			"token_refreshes_total", "Requests for new tokens to an issuer by result, since the service's start.",
			"issuer", "result",
		),
		held:    desc("credentials", "Users' tokens and proxies.", "name"),
		trouble: desc("credentials_in_trouble", "Those that cannot be renewed, or end soon.", "name"),
	}
}

// Describe names what there is.
func (w *credentials) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{w.refreshes, w.held, w.trouble} {
		ch <- d
	}
}

// Collect looks at the credentials.
func (w *credentials) Collect(ch chan<- prometheus.Metric) {
	c := w.look()
	for of, n := range c.Refreshes {
		ch <- prometheus.MustNewConstMetric(w.refreshes, prometheus.CounterValue, float64(n), of[0], of[1])
	}
	for name, n := range c.Held {
		ch <- prometheus.MustNewConstMetric(w.held, prometheus.GaugeValue, float64(n), name)
		ch <- prometheus.MustNewConstMetric(w.trouble, prometheus.GaugeValue, float64(c.Trouble[name]), name)
	}
}
