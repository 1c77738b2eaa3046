package metrics

import "github.com/prometheus/client_golang/prometheus"

// Homes says how full the directories of users with sessions are. Names are home, and those of the site's areas.
type Homes struct {
	Over    map[[2]string]int // users beyond a mark, by name and percentage
	Trouble map[string]int    // users whose directory could not be looked at, by name
}

// homesCollector collects them when they are asked for.
type homesCollector struct {
	look          func() Homes
	over, trouble *prometheus.Desc
}

func newHomesCollector(look func() Homes) *homesCollector {
	return &homesCollector{
		look: look,
		over: prometheus.NewDesc(
			"slipway_quota_users",
			"Users with sessions who use more than this percentage of what they may have in an area.",
			[]string{"area", "over"}, nil,
		),
		trouble: prometheus.NewDesc(
			"slipway_quota_trouble", "Users with sessions whose directory in an area could not be looked at.",
			[]string{"area"}, nil,
		),
	}
}

// Describe names what there is.
func (h *homesCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- h.over
	ch <- h.trouble
}

// Collect gives what was last found.
func (h *homesCollector) Collect(ch chan<- prometheus.Metric) {
	m := h.look()
	for of, n := range m.Over {
		ch <- prometheus.MustNewConstMetric(h.over, prometheus.GaugeValue, float64(n), of[0], of[1])
	}
	for name, n := range m.Trouble {
		ch <- prometheus.MustNewConstMetric(h.trouble, prometheus.GaugeValue, float64(n), name)
	}
}
