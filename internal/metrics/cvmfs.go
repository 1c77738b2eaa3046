package metrics

import "github.com/prometheus/client_golang/prometheus"

// CVMFS says how the repositories are that the site looks at.
type CVMFS struct {
	Repositories []Repository
	Stuck        int // processes that look and can neither be ended nor waited for
}

// Repository is one of them.
type Repository struct {
	Name    string
	Up      bool
	Seconds float64 // it took to answer, or was waited for
}

// repositories collects them when they are asked for. The labels are names of the site's configuration.
type repositories struct {
	look               func() CVMFS
	up, seconds, stuck *prometheus.Desc
}

func newRepositories(look func() CVMFS) *repositories {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("slipway_cvmfs_"+name, help, labels, nil)
	}
	return &repositories{
		look: look,
		up: desc(
			"repository_up",
			"1 when a CVMFS repository could be listed and read on this host when it was last looked at.", "repository",
		),
		seconds: desc("probe_seconds", "How long that took.", "repository"),
		stuck: desc(
			"stuck_probes",
			"Processes that look at a repository and can neither be ended nor waited for; at most one for each.",
		),
	}
}

// Describe names what there is.
func (r *repositories) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{r.up, r.seconds, r.stuck} {
		ch <- d
	}
}

// Collect asks the prober.
func (r *repositories) Collect(ch chan<- prometheus.Metric) {
	c := r.look()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, repo := range c.Repositories {
		gauge(r.up, number(repo.Up), repo.Name)
		gauge(r.seconds, repo.Seconds, repo.Name)
	}
	gauge(r.stuck, float64(c.Stuck))
}
