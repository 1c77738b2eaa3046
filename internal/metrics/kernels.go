package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"slipway/spawner"
)

// kernels are the engine's numbers of kernels. The label spec is an entry of the site's kernels.specs: kernelspecs that
// are made of users' environments have words of theirs in their names.
type kernels struct {
	phases, failed, restarts, dropped, standbys *prometheus.Desc
	start                                       prometheus.Histogram
}

func newKernels() kernels {
	return kernels{
		phases: prometheus.NewDesc("slipway_kernels", "Kernels by entry of kernels.specs and phase; pending: they wait for room, standby: nobody has asked for them yet.", []string{"spec", "phase"}, nil),
		failed: prometheus.NewDesc(
			"slipway_kernels_failed_total",
			"Kernels that failed since the service's start, by cause; start: before they first answered.",
			[]string{"spec", "cause"}, nil,
		),
		restarts: prometheus.NewDesc(
			"slipway_kernel_restarts_total",
			"Kernels that ended and began anew where they were, since the service's start, by cause.",
			[]string{"spec", "cause"}, nil,
		),
		dropped: prometheus.NewDesc(
			"slipway_kernel_dropped_messages_total",
			"Messages of kernels that were not kept for clients that were away, since the service's start.",
			[]string{"spec"}, nil,
		),
		standbys: prometheus.NewDesc(
			"slipway_kernel_standbys_lacking", "Users' next kernels for which none stands by though one may.",
			[]string{"spec"}, nil,
		),
		start: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "slipway_kernel_start_seconds", Help: "From the request of a kernel to its first answer.",
			Buckets: []float64{.2, .5, 1, 2, 5, 10, 30, 60, 300},
		}),
	}
}

func (k kernels) describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{k.phases, k.failed, k.restarts, k.dropped, k.standbys} {
		ch <- d
	}
	k.start.Describe(ch)
}

func (k kernels) collect(ch chan<- prometheus.Metric, s spawner.Stats) {
	tell := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	for spec, phases := range s.Kernels {
		for phase, n := range phases {
			tell(k.phases, prometheus.GaugeValue, float64(n), spec, string(phase))
		}
	}
	for spec, causes := range s.KernelsFailed {
		for cause, n := range causes {
			tell(k.failed, prometheus.CounterValue, float64(n), spec, string(cause))
		}
	}
	for spec, causes := range s.KernelRestarts {
		for cause, n := range causes {
			tell(k.restarts, prometheus.CounterValue, float64(n), spec, string(cause))
		}
	}
	for spec, n := range s.KernelsDropped {
		tell(k.dropped, prometheus.CounterValue, float64(n), spec)
	}
	for spec, b := range s.Standbys {
		tell(k.standbys, prometheus.GaugeValue, float64(b.Lacking), spec)
	}
	for _, d := range s.KernelTook {
		k.start.Observe(d.Seconds())
	}
	k.start.Collect(ch)
}

// Kernels says what the gateway to kernels carries. Messages and bytes are since the service's start.
type Kernels struct {
	Sockets               int64
	Heard, Told           int64 // messages of clients, and to them
	HeardBytes, ToldBytes int64
}

// channels collects the kernel gateway's numbers when they are asked for.
type channels struct {
	look                     func() Kernels
	sockets, messages, bytes *prometheus.Desc
}

func newChannels(look func() Kernels) *channels {
	return &channels{
		look:    look,
		sockets: prometheus.NewDesc("slipway_kernel_websockets", "Open websockets to kernels.", nil, nil),
		messages: prometheus.NewDesc(
			"slipway_kernel_messages_total", "Messages over websockets to kernels, since the service's start.",
			[]string{"direction"}, nil,
		),
		bytes: prometheus.NewDesc(
			"slipway_kernel_bytes_total", "Bytes of messages over websockets to kernels, since the service's start.",
			[]string{"direction"}, nil,
		),
	}
}

// Describe names what there is.
func (c *channels) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.sockets, c.messages, c.bytes} {
		ch <- d
	}
}

// Collect asks the gateway.
func (c *channels) Collect(ch chan<- prometheus.Metric) {
	k := c.look()
	counter := func(d *prometheus.Desc, n int64, direction string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), direction)
	}
	ch <- prometheus.MustNewConstMetric(c.sockets, prometheus.GaugeValue, float64(k.Sockets))
	counter(c.messages, k.Heard, "read")
	counter(c.messages, k.Told, "written")
	counter(c.bytes, k.HeardBytes, "read")
	counter(c.bytes, k.ToldBytes, "written")
}
