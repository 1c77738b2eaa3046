package gpu

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/units"
)

// Needs are what a workload needs of whichever GPU it is given by a batch system, which has many models of them. The
// zero Needs are none. It is comparable, and two Needs that are written differently and mean the same are equal.
type Needs struct {
	Optional   bool   `json:"optional,omitempty"`   // it runs without a GPU too
	Count      int    `json:"count,omitempty"`      // how many, if more than one
	CanUse     bool   `json:"can_use,omitempty"`    // it asks for none, and uses one that it finds: CMS's requiresGPU "optional"
	Capability string `json:"capability,omitempty"` // the least compute capability, such as "8.0"
	Newest     string `json:"newest,omitempty"`     // the greatest compute capability, such as "9.0"
	Memory     int64  `json:"memory,omitempty"`     // the least memory, in bytes
	Runtime    string `json:"runtime,omitempty"`    // the CUDA runtime that it was built with, such as "12.2"
	Driver     string `json:"driver,omitempty"`     // the oldest driver, such as "550" or "550.54.15"
}

// mostGPUs is how many GPUs one workload may ask for: no host has more.
const mostGPUs = 64

var (
	twoNumbers = regexp.MustCompile(`^([0-9]{1,3})(?:\.([0-9]{1,2}))?$`)
	driverForm = regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,4}){0,3}$`)
)

// needsHint says how needs are written.
const needsHint = "capability>=8.0, capability<=9.0, memory>=40G, runtime>=12.2, driver>=550, count=2, and optional or can-use, each once, with commas between them"

// parseNeeds reads needs as they follow a request's mode.
func parseNeeds(words []string) (Needs, error) {
	var n Needs
	seen := map[string]bool{}
	for _, word := range words {
		word = strings.ToLower(strings.TrimSpace(word))
		name, sign, value := cutSign(word)
		if seen[name+sign] || !n.take(name, sign, value) {
			return Needs{}, errs.Bad("gpu", word, needsHint)
		}
		seen[name+sign] = true
	}
	switch {
	case n.Newest != "" && n.Capability != "" && number(n.Newest) < number(n.Capability):
		return Needs{}, errs.Bad("gpu", "capability<="+n.Newest, "at least the "+n.Capability+" that is the least")
	case n.CanUse && (n.Optional || n.Count > 1):
		return Needs{}, errs.Bad("gpu", "can-use", "can-use without optional and count: no GPU is asked for")
	}
	return n, nil
}

// cutSign splits a need such as "capability>=8.0". Without a value there is no sign.
func cutSign(word string) (name, sign, value string) {
	i := strings.IndexAny(word, "<>=")
	if i < 0 {
		return word, "", ""
	}
	value = strings.TrimLeft(word[i:], "<>=")
	return strings.TrimSpace(word[:i]), word[i : len(word)-len(value)], strings.TrimSpace(value)
}

// take reads one need, and reports whether it is one.
func (n *Needs) take(name, sign, value string) (ok bool) {
	switch name + sign {
	case "optional":
		n.Optional = true
		return true
	case "can-use":
		n.CanUse = true
		return true
	case "count=":
		count, err := strconv.Atoi(value)
		if n.Count = count; count == 1 {
			n.Count = 0
		}
		return err == nil && count >= 1 && count <= mostGPUs
	case "capability>=":
		n.Capability, ok = twoPart(value)
	case "capability<=":
		n.Newest, ok = twoPart(value)
	case "runtime>=":
		n.Runtime, ok = twoPart(value)
	case "driver>=":
		n.Driver, ok = value, driverForm.MatchString(value)
	case "memory>=":
		memory, err := units.ParseMemory(value)
		n.Memory, ok = memory, err == nil && memory > 0
	}
	return ok
}

// number is a version of two numbers, to compare: ClassAds, too, take compute capabilities for numbers.
func number(version string) float64 {
	n, _ := strconv.ParseFloat(version, 64) // twoPart has written it
	return n
}

// twoPart writes a version of one or two numbers with two.
func twoPart(s string) (string, bool) {
	m := twoNumbers.FindStringSubmatch(s)
	if m == nil {
		return "", false
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(cmp.Or(m[2], "0"))
	return fmt.Sprintf("%d.%d", major, minor), true
}

// String writes needs as parseNeeds reads them, with a comma before each.
func (n Needs) String() string {
	var b strings.Builder
	if n.Count > 1 {
		fmt.Fprintf(&b, ",count=%d", n.Count)
	}
	if n.Capability != "" {
		b.WriteString(",capability>=" + n.Capability)
	}
	if n.Newest != "" {
		b.WriteString(",capability<=" + n.Newest)
	}
	if n.Memory > 0 {
		b.WriteString(",memory>=" + units.FormatMemory(n.Memory))
	}
	if n.Runtime != "" {
		b.WriteString(",runtime>=" + n.Runtime)
	}
	if n.Driver != "" {
		b.WriteString(",driver>=" + n.Driver)
	}
	if n.Optional {
		b.WriteString(",optional")
	}
	if n.CanUse {
		b.WriteString(",can-use")
	}
	return b.String()
}

// GPUs is how many GPUs r asks for.
func (r Request) GPUs() int {
	if r.None() || r.Needs.CanUse {
		return 0
	}
	return max(1, r.Needs.Count)
}

// Bare returns r without its needs: a policy that allows it allows any needs beside it.
func (r Request) Bare() Request {
	r.Needs = Needs{}
	return r
}
