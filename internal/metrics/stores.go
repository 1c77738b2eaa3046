package metrics

import "github.com/prometheus/client_golang/prometheus"

// Store says how a store with copies of environments is.
type Store struct {
	Name    string
	Up      bool // it did what it was last asked
	Stored  int  // environments
	Waiting int
	Bytes   int64
	Damaged int // copies that were found damaged or gone since the start
}

// Export says how a directory that others publish is.
type Export struct {
	Name      string
	Up        bool
	Published int // names
}

// places collects what is elsewhere when it is asked for. The labels are names of the site's configuration.
type places struct {
	stores  func() []Store
	exports func() []Export

	up, environments, bytes, damaged, exportUp, published *prometheus.Desc
}

func newPlaces(stores func() []Store, exports func() []Export) *places {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("slipway_"+name, help, labels, nil)
	}
	return &places{
		stores: stores, exports: exports,
		up: desc("store_up", "1 when a store took what it was last given.", "store"),
		environments: desc(
			"store_environments", "Environments by whether they have a copy in a store.", "store", "state",
		),
		bytes: desc("store_bytes", "What the copies in a store take.", "store"),
		damaged: desc(
			"store_damaged_total", "Copies that were found damaged or gone since the service's start.", "store",
		),
		exportUp: desc(
			"export_up", "1 when a directory that others publish could be brought to what is wanted.", "export",
		),
		published: desc("export_names", "Names of environments in a directory that others publish.", "export"),
	}
}

// Describe names what there is.
func (p *places) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.up, p.environments, p.bytes, p.damaged, p.exportUp, p.published} {
		ch <- d
	}
}

// Collect looks at the places.
func (p *places) Collect(ch chan<- prometheus.Metric) {
	show := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, s := range p.stores() {
		show(p.up, number(s.Up), s.Name)
		show(p.environments, float64(s.Stored), s.Name, "stored")
		show(p.environments, float64(s.Waiting), s.Name, "waiting")
		show(p.bytes, float64(s.Bytes), s.Name)
		ch <- prometheus.MustNewConstMetric(p.damaged, prometheus.CounterValue, float64(s.Damaged), s.Name)
	}
	for _, e := range p.exports() {
		show(p.exportUp, number(e.Up), e.Name)
		show(p.published, float64(e.Published), e.Name)
	}
}
