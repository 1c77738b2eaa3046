package metrics

import "github.com/prometheus/client_golang/prometheus"

// parts collects whether what the service needs answers. The labels are fixed names and those of the configuration.
type parts struct {
	look func() map[string]bool
	up   *prometheus.Desc
}

func newParts(look func() map[string]bool) *parts {
	return &parts{look, prometheus.NewDesc(
		"slipway_part_up",
		"1 when a part that the service needs answered when it was last asked: docker, disk, records, a Hub, a batch system.",
		[]string{"part"}, nil,
	)}
}

// Describe names what there is.
func (p *parts) Describe(ch chan<- *prometheus.Desc) { ch <- p.up }

// Collect gives what was last found.
func (p *parts) Collect(ch chan<- prometheus.Metric) {
	for name, up := range p.look() {
		ch <- prometheus.MustNewConstMetric(p.up, prometheus.GaugeValue, number(up), name)
	}
}
