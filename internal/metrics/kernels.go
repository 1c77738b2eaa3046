package metrics

import "github.com/prometheus/client_golang/prometheus"

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
		look:     look,
		sockets:  prometheus.NewDesc("slipway_kernel_websockets", "Open websockets to kernels.", nil, nil),
		messages: prometheus.NewDesc("slipway_kernel_messages_total", "Messages over websockets to kernels, since the service's start.", []string{"direction"}, nil),
		bytes:    prometheus.NewDesc("slipway_kernel_bytes_total", "Bytes of messages over websockets to kernels, since the service's start.", []string{"direction"}, nil),
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
