package pool

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"slipway/internal/gpu/publish"
	"slipway/spawner/htcondor/classad"
)

// The ways in which a pool gives a GPU.
const (
	SharedNot  = "whole"
	SharedMIG  = "mig"
	SharedPart = "part" // one of several on the same GPU that nothing in hardware keeps apart
)

// GPUKind is GPUs of a pool that are alike, at one site. What the ads do not tell is empty.
type GPUKind struct {
	Site       string   `json:"site"`
	Model      string   `json:"model"`
	Sharing    string   `json:"sharing"` // whole, mig or part
	Capability string   `json:"capability"`
	Memory     int64    `json:"memory"` // bytes
	Driver     string   `json:"driver"`
	CUDA       string   `json:"cuda"`               // the newest that the driver serves
	Runtimes   []string `json:"runtimes,omitempty"` // that it serves
	Total      int      `json:"total"`
	Free       int      `json:"free"`
	Hosts      []string `json:"hosts,omitempty"`
}

// Catalogue is what GPUs a pool has at one moment.
type Catalogue struct {
	Taken    time.Time `json:"taken"`
	Machines int       `json:"machines"` // also those without GPUs
	Kinds    []GPUKind `json:"kinds"`
	// Free says of each GPU by its id, such as GPU-5368a050, how many more jobs it could take.
	Free map[string]int `json:"-"`
}

// Catalogue lists the GPUs of the pool, as they were a short time ago at most.
func (p *Pool) Catalogue(ctx context.Context) (Catalogue, error) {
	slots, taken, err := p.all(ctx)
	if err != nil {
		return Catalogue{}, err
	}
	return p.catalogue(slots, taken), nil
}

func (p *Pool) catalogue(slots []slot, taken time.Time) Catalogue {
	c := catalogueOf(slots, p.cfg.Site)
	c.Taken = taken
	return c
}

// History returns what was found in the scans since a time, the oldest first. Its entries name no hosts.
func (p *Pool) History(since time.Time) []Catalogue { return p.book.since(since) }

func catalogueOf(slots []slot, site string) Catalogue {
	c := Catalogue{Free: map[string]int{}}
	machines, kinds := map[string]bool{}, map[string]*GPUKind{}
	for _, s := range slots {
		machines[s.machine()] = true
		c.add(s, kinds, site)
	}
	c.Machines, c.Kinds = len(machines), []GPUKind{}
	for _, key := range slices.Sorted(maps.Keys(kinds)) {
		slices.Sort(kinds[key].Hosts)
		kinds[key].Hosts = slices.Compact(kinds[key].Hosts)
		c.Kinds = append(c.Kinds, *kinds[key])
	}
	return c
}

// add counts the GPUs of a slot.
func (c *Catalogue) add(s slot, kinds map[string]*GPUKind, site string) {
	free := map[string]int{}
	if s.partitionable() || s.Text("State") == "Unclaimed" {
		for _, g := range s.available() {
			free[g.Text("Id")]++
		}
	}
	all := s.gpus()
	for _, g := range all {
		id := g.Text("Id")
		k := kindOf(s, g, site, all)
		key := strings.Join(
			[]string{k.Site, k.Model, k.Sharing, k.Capability, fmt.Sprintf("%012d", k.Memory), k.Driver, k.CUDA},
			"\x00",
		)
		if kinds[key] == nil {
			kinds[key] = &k
		}
		of := kinds[key]
		of.Total++
		of.Hosts = append(of.Hosts, s.machine())
		if _, seen := c.Free[id]; !seen {
			c.Free[id] = 0
		}
		if free[id] > 0 {
			free[id]--
			of.Free++
			c.Free[id]++
		}
	}
}

// kindOf describes a GPU of a slot.
func kindOf(s slot, g *classad.Ad, site string, all []*classad.Ad) GPUKind {
	k := GPUKind{
		Site:  cmp.Or(s.Text("SlipwaySite"), s.Text("GLIDEIN_CMSSite"), s.Text("GLIDEIN_Site"), site),
		Model: g.Text("DeviceName"), Driver: g.Text("NvidiaDriver"),
		Sharing: SharedNot, Runtimes: []string{},
	}
	if s.Get("SlipwaySimulated") == true {
		k.Model = strings.TrimSpace(k.Model + " (simulated)") // no such hardware exists
	}
	if mib, ok := g.Number("GlobalMemoryMb"); ok {
		k.Memory = int64(mib) << 20
	}
	if c, ok := g.Number("Capability"); ok {
		k.Capability = fmt.Sprintf("%.1f", c)
	}
	if v, ok := g.Number("MaxSupportedVersion"); ok && v > 0 {
		k.CUDA, k.Runtimes = fmt.Sprintf("%d.%d", int(v)/1000, int(v)%1000/10), publish.Runtimes(int(v))
	}
	same := 0
	for _, other := range all {
		if other.Text("Id") == g.Text("Id") {
			same++
		}
	}
	switch {
	case strings.HasPrefix(g.Text("Id"), "MIG-"):
		k.Sharing = SharedMIG
	case same > 1, g.Get("DeviceMemoryMb") != nil:
		k.Sharing = SharedPart
	}
	return k
}

// ClassAds writes a catalogue as ads, one for each kind of GPU. Control characters, which a machine's ad may have, are
// left out.
func (c Catalogue) ClassAds() string {
	var b strings.Builder
	text := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "  %s = \"%s\";\n", name, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(strings.Map(printable, value)))
		}
	}
	for _, k := range c.Kinds {
		b.WriteString("[\n")
		text("Site", k.Site)
		text("DeviceName", k.Model)
		text("Sharing", k.Sharing)
		if k.Capability != "" {
			fmt.Fprintf(&b, "  Capability = %s;\n", k.Capability)
		}
		if k.Memory > 0 {
			fmt.Fprintf(&b, "  GlobalMemoryMb = %d;\n", k.Memory>>20)
		}
		text("NvidiaDriver", k.Driver)
		text("CUDAVersion", k.CUDA)
		text("CMS_CUDA_SUPPORTED_RUNTIMES", strings.Join(k.Runtimes, ","))
		fmt.Fprintf(&b, "  TotalGPUs = %d;\n  FreeGPUs = %d;\n", k.Total, k.Free)
		text("Hosts", strings.Join(k.Hosts, ","))
		b.WriteString("]\n")
	}
	return b.String()
}

// printable drops control characters.
func printable(r rune) rune {
	if unicode.IsControl(r) {
		return -1
	}
	return r
}
