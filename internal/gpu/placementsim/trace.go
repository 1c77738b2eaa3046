package placementsim

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/gpu"
)

// Trace describes a fleet and what is asked of it.
type Trace struct {
	Fleet    []Group         `yaml:"fleet"`
	Headroom float64         `yaml:"headroom"`
	Patience config.Duration `yaml:"patience"` // how long a request waits for room; 0: it is refused at once
	Requests []Request       `yaml:"requests"`
	Generate *Generator      `yaml:"generate"`
}

// Group is a number of equal GPUs.
type Group struct {
	Model       string   `yaml:"model"`
	Count       int      `yaml:"count"` // 0: one
	Mode        string   `yaml:"mode"`
	Layout      []string `yaml:"layout"`       // mig: instances that are made once and kept; empty: as needed
	AtOnce      int      `yaml:"at_once"`      // mps, shared: most workloads; 0: 48 and 4
	EqualShares bool     `yaml:"equal_shares"` // mps: all shares of a GPU are equal
}

// Request is one that is written down.
type Request struct {
	At       config.Duration `yaml:"at"`
	Duration config.Duration `yaml:"duration"`
	GPU      string          `yaml:"gpu"`
	Group    string          `yaml:"group"` // shared: who trust one another
	Model    string          `yaml:"model"` // a part of the device's name; empty: any
}

// Generator makes requests: they come at random moments (Poisson), and are held for random times (exponential).
type Generator struct {
	Count    int                `yaml:"count"`
	Seed     uint64             `yaml:"seed"`
	Load     float64            `yaml:"load"`     // GPUs asked for at one time, as a part of those there are
	Duration config.Duration    `yaml:"duration"` // the mean
	Mix      map[string]float64 `yaml:"mix"`      // how often each is asked for; the sum is of no matter
	Groups   int                `yaml:"groups"`   // shared: how many groups ask; 0: one
}

const (
	mostGPUs     = 10_000
	mostRequests = 1_000_000
	mostGroups   = 10_000
	longest      = config.Duration(366 * 24 * time.Hour) // far from where times overflow
)

// Load reads and checks the trace in a file.
func Load(path string) (Trace, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Trace{}, errs.New(errs.Invalid, "read the trace: %w", err).
			With("give a file as deploy/bench/gpu/trace.yaml")
	}
	t, err := Parse(text)
	if err != nil {
		return Trace{}, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Parse reads and checks a trace. Its errors name the place.
func Parse(text []byte) (Trace, error) {
	var t Trace
	if wrong := config.Decode(text, &t, "a trace has fleet, and requests or generate; headroom and patience may be there"); len(wrong) > 0 {
		return Trace{}, errors.Join(wrong...)
	}
	return t, t.check()
}

// problems gathers what is wrong.
type problems []error

func (p *problems) add(wrong bool, field string, value any, remedy string) {
	if wrong {
		*p = append(*p, errs.Bad(field, value, remedy))
	}
}

func (t Trace) check() error {
	var p problems
	p.add(len(t.Fleet) == 0, "fleet", "", "at least one group of GPUs, such as {model: H200, count: 8, mode: mig}")
	total := 0
	for i, g := range t.Fleet {
		g.check(&p, fmt.Sprintf("fleet[%d].", i))
		total = min(total+max(0, g.Count), mostGPUs+1)
	}
	p.add(total > mostGPUs, "fleet", fmt.Sprintf("more than %d GPUs", mostGPUs), "fewer GPUs")
	p.add(!(t.Headroom >= 0 && t.Headroom <= 1), "headroom", t.Headroom, "from 0 to 1")
	p.add(
		t.Patience < 0 || t.Patience > longest, "patience", time.Duration(t.Patience),
		"a time such as 30m, or 0s, at most a year",
	)
	p.add((len(t.Requests) > 0) == (t.Generate != nil), "requests", "", "either a list of requests, or generate")
	for i, r := range t.Requests {
		r.check(&p, fmt.Sprintf("requests[%d].", i))
	}
	if t.Generate != nil {
		t.Generate.check(&p)
	}
	return errors.Join(p...)
}

func (g Group) check(p *problems, at string) {
	p.add(g.Model == "", at+"model", "", "a model such as H200")
	p.add(g.Count < 0, at+"count", g.Count, "1 or more")
	p.add(!slices.Contains(gpu.Modes(), gpu.Mode(g.Mode)), at+"mode", g.Mode, fmt.Sprintf("one of %v", gpu.Modes()))
	p.add(g.AtOnce < 0, at+"at_once", g.AtOnce, "0 or more")
	p.add(g.Mode != string(gpu.MIG) && len(g.Layout) > 0, at+"layout", strings.Join(g.Layout, " "), "for mode mig only")
	p.add(g.Mode != string(gpu.MPS) && g.EqualShares, at+"equal_shares", true, "for mode mps only")
}

// number is how many GPUs the group has.
func (g Group) number() int { return max(1, g.Count) }

// atOnce is how many workloads one of its GPUs takes.
func (g Group) atOnce() int {
	switch {
	case g.AtOnce > 0:
		return g.AtOnce
	case g.Mode == string(gpu.MPS):
		return 48
	default:
		return 4
	}
}

func (r Request) check(p *problems, at string) {
	p.add(
		r.At < 0 || r.At > 10*longest, at+"at", time.Duration(r.At),
		"a time since the beginning, such as 90m, at most ten years",
	)
	p.add(
		r.Duration <= 0 || r.Duration > longest, at+"duration", time.Duration(r.Duration),
		"a time such as 2h, at most a year",
	)
	checkGPU(p, at+"gpu", r.GPU)
}

func checkGPU(p *problems, field, text string) {
	r, err := gpu.ParseRequest(text)
	p.add(
		err != nil || r.None(), field, text,
		"whole, a MIG profile such as 1g.18gb or 1g, mps:25%/20G, shared, or shared/10G",
	)
}

func (g Generator) check(p *problems) {
	p.add(g.Count < 1 || g.Count > mostRequests, "generate.count", g.Count, fmt.Sprintf("from 1 to %d", mostRequests))
	p.add(
		!(g.Load > 0 && g.Load <= 100), "generate.load", g.Load,
		"more than 0, such as 0.8 for four fifths of the fleet",
	)
	p.add(
		g.Duration <= 0 || g.Duration > longest, "generate.duration", time.Duration(g.Duration),
		"a time such as 2h, at most a year",
	)
	p.add(g.Groups < 0 || g.Groups > mostGroups, "generate.groups", g.Groups, fmt.Sprintf("from 0 to %d", mostGroups))
	sum := 0.0
	for name, part := range g.Mix {
		checkGPU(p, "generate.mix", name)
		p.add(!(part >= 0 && part <= 1e6), "generate.mix."+name, part, "0 or more")
		sum += part
	}
	p.add(sum == 0, "generate.mix", "", "what is asked for and how often, such as {1g: 60, 3g: 40}")
}
