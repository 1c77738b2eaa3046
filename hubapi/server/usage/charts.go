package usage

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"slipway/hubapi"
	"slipway/internal/chart"
	"slipway/internal/units"
)

// chartNames are the titles of charts.
var chartNames = map[string]string{
	"cpu": "CPU", "memory": "Memory", "gpu": "GPU busy", "gpu-memory": "GPU memory",
	"gpus": "GPUs in use by group", "queue": "Queue", "wait": "Longest wait", "disk": "Files of jobs by user",
}

// ChartName returns the title of a chart.
func ChartName(of string) string { return chartNames[of] }

// HasGPU reports whether there is anything to draw of a GPU.
func HasGPU(s hubapi.UsageSeries) bool {
	return slices.ContainsFunc(s.Points, func(p hubapi.UsagePoint) bool { return p.GPU != nil || p.GPUMemory != nil })
}

// Chart draws one of hubapi.UsageCharts, over all that is known of the session or job.
func Chart(s hubapi.UsageSeries, of string) string {
	a := chart.Axes{Title: chartNames[of], Format: number}
	a.From, a.To, a.Since = spanOf(s)
	line := chart.Line{Name: a.Title}
	var y func(p hubapi.UsagePoint) float64
	switch of {
	case "cpu":
		a.Limit, y = s.CPUs, func(p hubapi.UsagePoint) float64 { return orNaN(p.CPU) }
	case "memory":
		a.Limit, a.Format, line.Peak = float64(s.Memory), memory, true
		y = func(p hubapi.UsagePoint) float64 { return orNaN(p.Memory) }
	case "gpu":
		a.Limit, a.Format = 100, percent
		y = func(p hubapi.UsagePoint) float64 { return orNaN(p.GPU) }
	default:
		a.Limit, a.Format, line.Peak = float64(s.GPUMemory), memory, true
		y = func(p hubapi.UsagePoint) float64 { return orNaN(p.GPUMemory) }
	}
	for _, p := range s.Points {
		line.Dots = append(line.Dots, chart.Dot{At: p.At, Y: y(p)})
		if line.Peak { // the highest is drawn: of memory
			a.Unit = max(a.Unit, unitOf(a.Limit), unitOf(y(p)))
		}
	}
	return chart.Lines(a, line)
}

// spanOf returns from when to when a series is drawn: of what has ended since its first point, of what runs until now.
func spanOf(s hubapi.UsageSeries) (from, to time.Time, ended bool) {
	to = time.Now()
	if s.Ended != nil {
		to, ended = *s.Ended, true
	}
	from = to.Add(-time.Minute)
	if len(s.Points) > 0 && s.Points[0].At.Before(from) {
		from = s.Points[0].At
	}
	if s.Ended != nil && s.Up != nil && s.Up.Before(to) && s.Up.After(from) {
		from = *s.Up
	}
	return from, to, ended
}

func orNaN[T int64 | float64](v *T) float64 {
	if v == nil {
		return math.NaN()
	}
	return float64(*v)
}

func number(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'g', -1, 64) }

func percent(v float64) string { return fmt.Sprintf("%.0f %%", v) }

func memory(v float64) string { return units.MemoryWords(int64(v)) }

func disk(v float64) string { return units.DiskWords(int64(v)) }

func duration(v float64) string {
	if v < 3600 {
		return fmt.Sprintf("%d min", int(v/60))
	}
	return strconv.FormatFloat(math.Round(v/360)/10, 'g', -1, 64) + " h"
}

// unitOf returns in which steps an axis of memory counts.
func unitOf(highest float64) float64 {
	if highest >= 1<<30 {
		return 1 << 30
	}
	return 1 << 20
}

// SiteChart draws one of hubapi.SiteCharts.
func SiteChart(s hubapi.SiteUsage, of string) string {
	a := chart.Axes{Title: chartNames[of], To: time.Now(), Format: number}
	a.From = a.To.Add(-hubapi.UsageKept)
	switch of {
	case "gpus":
		a.Limit = float64(s.GPUs)
		return gpusChart(a, s.GPUHours)
	case "queue":
		a.Whole = true
		return chart.Lines(
			a, queueLine("waiting", s.Queue, func(q hubapi.QueuePoint) int { return q.Waiting }),
			queueLine("jobs running", s.Queue, func(q hubapi.QueuePoint) int { return q.Jobs }),
			queueLine("sessions", s.Queue, func(q hubapi.QueuePoint) int { return q.Sessions }),
		)
	case "wait":
		a.Format, a.Unit, a.Whole = duration, 60, true
		return chart.Lines(a, queueLine("wait", s.Queue, func(q hubapi.QueuePoint) int { return q.Wait }))
	default:
		a.Format, a.Unit = disk, 1e6
		return diskChart(a, s.Disk)
	}
}

func queueLine(name string, queue []hubapi.QueuePoint, y func(hubapi.QueuePoint) int) chart.Line {
	l := chart.Line{Name: name, Peak: true}
	for _, q := range queue {
		l.Dots = append(l.Dots, chart.Dot{At: q.At, Y: float64(y(q))})
	}
	return l
}

// shown is how many groups or users a chart shows by their names.
const shown = 5

// largest returns the names that have most in all, and otherwise one for the rest.
func largest(sums map[string]float64) (names []string) {
	for name := range sums {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if sums[a] != sums[b] {
			return map[bool]int{true: -1, false: 1}[sums[a] > sums[b]]
		}
		return map[bool]int{true: -1, false: 1}[a < b]
	})
	return names[:min(len(names), shown)]
}

// gpusChart draws GPU hours by the hour: in an hour as many GPUs were in use, in the mean.
func gpusChart(a chart.Axes, hours []hubapi.GroupHours) string {
	sums := map[string]float64{}
	for _, h := range hours {
		sums[groupName(h.Group)] += h.Hours
	}
	t := newTable(a.From.Truncate(time.Hour), time.Hour, a.To, largest(sums))
	for _, h := range hours {
		t.add(groupName(h.Group), h.At, h.Hours)
	}
	return chart.Stack(a, t.times, t.layers()...)
}

func groupName(group string) string {
	if group == "" {
		return "no group"
	}
	return group
}

func diskChart(a chart.Axes, users []hubapi.UserDisk) string {
	sums := map[string]float64{}
	for _, u := range users {
		for _, p := range u.Points {
			sums[u.User] = max(sums[u.User], float64(p.Bytes))
		}
	}
	const step = 2 * time.Hour
	t := newTable(a.From.Truncate(step), step, a.To, largest(sums))
	for _, u := range users {
		highest := map[int]float64{}
		for _, p := range u.Points {
			i := t.at(p.At)
			highest[i] = max(highest[i], float64(p.Bytes))
		}
		for i, v := range highest {
			t.addAt(u.User, i, v)
		}
	}
	return chart.Stack(a, t.times, t.layers()...)
}

// table has a number for each name and step of time.
type table struct {
	step   time.Duration
	times  []time.Time
	names  []string
	values map[string][]float64
}

const others = "others"

func newTable(from time.Time, step time.Duration, to time.Time, names []string) *table {
	t := &table{step: step, names: names, values: map[string][]float64{}}
	for at := from; at.Before(to); at = at.Add(step) {
		t.times = append(t.times, at)
	}
	for _, name := range names {
		t.values[name] = make([]float64, len(t.times))
	}
	return t
}

func (t *table) at(when time.Time) int { return int(when.Sub(t.times[0]) / t.step) }

func (t *table) add(name string, when time.Time, v float64) { t.addAt(name, t.at(when), v) }

func (t *table) addAt(name string, i int, v float64) {
	if i < 0 || i >= len(t.times) {
		return
	}
	if t.values[name] == nil {
		name = others
	}
	if t.values[name] == nil {
		t.values[name], t.names = make([]float64, len(t.times)), append(t.names, name)
	}
	t.values[name][i] += v
}

func (t *table) layers() (out []chart.Layer) {
	for _, name := range t.names {
		out = append(out, chart.Layer{Name: name, Values: t.values[name]})
	}
	return out
}
