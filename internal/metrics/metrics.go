// Package metrics shows the service to Prometheus. It promises that labels have few values: never a user, an id or a
// path.
package metrics

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"slipway/internal/gpu"
	"slipway/spawner"
)

// Config is where the numbers come from.
type Config struct {
	Stats   func() spawner.Stats
	Version string                 // of the service
	Parts   func() map[string]bool // whether what the service needs answered when it was last asked. Nil: not shown
	Links   func() int             // agents that are connected. Nil: not shown
	GPUs    func() gpu.Inventory   // with readings and uses. Nil: not shown
	// Stores and Exports are the places of environments beside the library; both, or neither.
	Stores  func() []Store
	Exports func() []Export
	SSH     func() SSH     // nil: there is no gateway
	Library func() Library // nil: there is none
	// Credentials are users' tokens and proxies; nil: the service keeps none.
	Credentials func() Credentials
	CVMFS       func() CVMFS   // nil: the site has none
	Kernels     func() Kernels // nil: the site offers none
	Homes       func() Homes   // nil: nobody looks at them
}

// Metrics collects the service's numbers. A nil one does nothing.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
	freezes  *prometheus.HistogramVec
}

// New makes the service's metrics.
func New(cfg Config) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "slipway_http_request_seconds", Help: "Duration of HTTP requests by route.",
			Buckets: []float64{.001, .005, .02, .1, .5, 2, 10, 60},
		}, []string{"method", "route", "status"}),
		freezes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "slipway_freeze_seconds", Help: "Duration of freezes by result.",
			Buckets: []float64{.1, .5, 1, 2, 5, 10, 30, 60, 300},
		}, []string{"result"}),
	}
	m.registry.MustRegister(m.requests, m.freezes, newWorkloads(cfg.Stats), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "slipway_build_info", Help: "1, with the version of the service as its label.",
		ConstLabels: prometheus.Labels{"version": cfg.Version},
	}, func() float64 { return 1 }))
	if cfg.Parts != nil {
		m.registry.MustRegister(newParts(cfg.Parts))
	}
	if cfg.Links != nil {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "slipway_links", Help: "Agents that are connected.",
		}, func() float64 { return float64(cfg.Links()) }))
	}
	if cfg.GPUs != nil {
		m.registry.MustRegister(newGPUs(cfg.GPUs))
	}
	if cfg.Stores != nil {
		m.registry.MustRegister(newPlaces(cfg.Stores, cfg.Exports))
	}
	if cfg.Library != nil {
		m.registry.MustRegister(newSwept(cfg.Library))
	}
	if cfg.Credentials != nil {
		m.registry.MustRegister(newCredentials(cfg.Credentials))
	}
	if cfg.SSH != nil {
		m.registry.MustRegister(newGateway(cfg.SSH))
	}
	if cfg.Homes != nil {
		m.registry.MustRegister(newHomesCollector(cfg.Homes))
	}
	if cfg.Kernels != nil {
		m.registry.MustRegister(newChannels(cfg.Kernels))
	}
	if cfg.CVMFS != nil {
		m.registry.MustRegister(newRepositories(cfg.CVMFS))
	}
	return m
}

// Handler shows the metrics.
func (m *Metrics) Handler() http.Handler {
	if m == nil {
		return http.NotFoundHandler()
	}
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Request counts an HTTP request. The route is the pattern, not the path.
func (m *Metrics) Request(method, route string, status int, took time.Duration) {
	if m == nil {
		return
	}
	m.requests.WithLabelValues(known(method), route, strconv.Itoa(status)).Observe(took.Seconds())
}

// known bounds the values of a label that a stranger chooses.
func known(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return method
	default:
		return "other"
	}
}

// Freeze counts a freeze; code is the kind of its error.
func (m *Metrics) Freeze(code string, ok bool, took time.Duration) {
	if m == nil {
		return
	}
	if ok {
		code = "ok"
	}
	m.freezes.WithLabelValues(code).Observe(took.Seconds())
}

// workloads collects the Manager's numbers when they are asked for.
type workloads struct {
	stats     func() spawner.Stats
	workloads *prometheus.Desc
	capacity  *prometheus.Desc
	use       *prometheus.Desc
	jobs      *prometheus.Desc
	refused   *prometheus.Desc
	failed    *prometheus.Desc
	orphans   *prometheus.Desc
	strangers *prometheus.Desc
	kernels   kernels

	mu    sync.Mutex // one collection at a time
	start prometheus.Histogram
}

func newWorkloads(stats func() spawner.Stats) *workloads {
	return &workloads{
		stats: stats,
		workloads: prometheus.NewDesc(
			"slipway_workloads", "Sessions and jobs by kind and phase.", []string{"kind", "phase"}, nil,
		),
		capacity: prometheus.NewDesc(
			"slipway_capacity", "What a backend may give in all; absent when it is not limited.",
			[]string{"backend", "resource"}, nil,
		),
		use: prometheus.NewDesc(
			"slipway_leased", "What workloads hold of a backend.", []string{"backend", "resource"}, nil,
		),
		jobs: prometheus.NewDesc(
			"slipway_jobs", "Jobs that wait or run, by where they go; waiting: in line here.",
			[]string{"backend", "state"}, nil,
		),
		refused: prometheus.NewDesc(
			"slipway_jobs_refused_total", "Submissions refused for what their users may have.", []string{"reason"}, nil,
		),
		failed: prometheus.NewDesc(
			"slipway_starts_failed_total", "Sessions that failed before they first answered, by cause.",
			[]string{"cause"}, nil,
		),
		orphans: prometheus.NewDesc("slipway_orphans", "What backends hold without a record.", nil, nil),
		strangers: prometheus.NewDesc(
			"slipway_hub_strangers", "Active sessions that their Hub did not know, twice in a row.", []string{"hub"},
			nil,
		),
		kernels: newKernels(),
		start: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "slipway_start_seconds", Help: "From the request of a start to the first answer.",
			Buckets: []float64{.2, .5, 1, 2, 5, 10, 30, 60, 300},
		}),
	}
}

// Describe names what there is.
func (e *workloads) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{e.workloads, e.capacity, e.use, e.jobs, e.refused, e.failed, e.orphans, e.strangers} {
		ch <- d
	}
	e.start.Describe(ch)
	e.kernels.describe(ch)
}

// Collect asks the Manager.
func (e *workloads) Collect(ch chan<- prometheus.Metric) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for kind, phases := range s.Workloads {
		for phase, n := range phases {
			gauge(e.workloads, float64(n), string(kind), string(phase))
		}
	}
	for name, c := range s.Capacity {
		each(c, func(resource string, v float64) {
			if v > 0 {
				gauge(e.capacity, v, name, resource)
			}
		})
	}
	for name, c := range s.Use {
		each(c, func(resource string, v float64) { gauge(e.use, v, name, resource) })
	}
	for backend, phases := range s.Jobs {
		waiting := phases[spawner.Pending]
		active := 0
		for _, n := range phases {
			active += n
		}
		gauge(e.jobs, float64(waiting), backend, "waiting")
		gauge(e.jobs, float64(active-waiting), backend, "running")
	}
	for reason, n := range s.Refused {
		ch <- prometheus.MustNewConstMetric(e.refused, prometheus.CounterValue, float64(n), reason)
	}
	for cause, n := range s.StartsFailed {
		ch <- prometheus.MustNewConstMetric(e.failed, prometheus.CounterValue, float64(n), string(cause))
	}
	gauge(e.orphans, float64(s.Orphans))
	for hub, n := range s.Strangers {
		gauge(e.strangers, float64(n), hub)
	}
	for _, d := range s.StartTook {
		e.start.Observe(d.Seconds())
	}
	e.start.Collect(ch)
	e.kernels.collect(ch, s)
}

func each(c spawner.Capacity, do func(resource string, v float64)) {
	do("cpus", c.CPUs)
	do("memory_bytes", float64(c.Memory))
	do("workloads", float64(c.Count))
}
