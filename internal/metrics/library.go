package metrics

import "github.com/prometheus/client_golang/prometheus"

// Library says what was found in the library of environments that nothing leads to.
type Library struct {
	Environments, Bases int   // removed since the service's start
	Bytes               int64 // of both
	Waiting             int   // images found by the last sweep that were too young to be removed
	WaitingBytes        int64
}

// swept collects it when it is asked for.
type swept struct {
	look                                  func() Library
	removed, bytes, waiting, waitingBytes *prometheus.Desc
}

func newSwept(look func() Library) *swept {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("slipway_library_"+name, help, labels, nil)
	}
	return &swept{
		look:    look,
		removed: desc("swept_total", "Images and bases removed because nothing led to them.", "kind"),
		bytes:   desc("swept_bytes_total", "What they took."),
		waiting: desc(
			"unreferenced", "Images that nothing led to at the last sweep, and that were too young to be removed.",
		),
		waitingBytes: desc("unreferenced_bytes", "What they take."),
	}
}

// Describe names what there is.
func (s *swept) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.removed, s.bytes, s.waiting, s.waitingBytes} {
		ch <- d
	}
}

// Collect gives the counts.
func (s *swept) Collect(ch chan<- prometheus.Metric) {
	m := s.look()
	show := func(d *prometheus.Desc, as prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, as, v, labels...)
	}
	show(s.removed, prometheus.CounterValue, float64(m.Environments), "environment")
	show(s.removed, prometheus.CounterValue, float64(m.Bases), "base")
	show(s.bytes, prometheus.CounterValue, float64(m.Bytes))
	show(s.waiting, prometheus.GaugeValue, float64(m.Waiting))
	show(s.waitingBytes, prometheus.GaugeValue, float64(m.WaitingBytes))
}
