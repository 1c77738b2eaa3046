package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/htcondor/classad"
)

// Demand is what a workload asks of a slot. The submit description and the explanation why a job waits are made from it
// alike.
type Demand struct {
	Resources spawner.Resources
	Own       int64 // bytes of memory for what runs it, beside those
	Disk      int64 // bytes; 0: none is asked for
	GPU       gpu.Request
	Arch      string                   // as HTCondor calls it, such as "X86_64"; empty: any
	Site      []string                 // the site's own requirements, as ClassAds write them
	Hope      time.Duration            // how long it waits for a GPU that is optional; 0: the usual time
	Facts     map[string]classad.Value // other attributes of the job that slots may look at, such as SlipwayInteractive
}

// clause is one requirement, in words and as HTCondor has it.
type clause struct {
	Words string
	Text  string
	asks  string       // how the user takes it back; empty: they cannot
	e     classad.Expr // the text, read; nil: it cannot be judged here
	own   bool         // it is the slot's own condition, and not in the submit description
	given bool         // condor_submit writes it by itself, from what is asked for

	arch      string // which it asks for; empty: it is about something else
	attribute string // of a GPU's ad, where it asks for one that not all pools tell
}

// ClausesOf returns what a slot must fulfil for d. All together are the job's requirements.
func ClausesOf(d Demand) []clause {
	all := []clause{
		required("Linux", `TARGET.OpSys == "LINUX"`, ""),
		given("file transfer", "TARGET.HasFileTransfer", ""),
		given(processors(d.cpus()), "TARGET.Cpus >= RequestCpus", "ask for fewer CPUs"),
		given(d.memory(), "TARGET.Memory >= RequestMemory", "ask for less memory"),
	}
	if d.Arch != "" {
		c := required(
			"processors of architecture "+strings.ToLower(d.Arch), "TARGET.Arch == \""+d.Arch+"\"",
			"use an environment of another architecture",
		)
		c.arch = d.Arch
		all = append(all, c)
	}
	if d.Disk > 0 {
		all = append(all, given(gigabytes(d.Disk)+" of disk", "TARGET.Disk >= RequestDisk", ""))
	}
	for _, text := range d.Site {
		all = append(all, required("what the site requires: "+text, text, ""))
	}
	return append(all, gpuClauses(d.GPU, d.Hope)...)
}

// gpuClauses has one for each need, so that it can be said which of them excludes what, and one for all of them in the
// same GPU.
func gpuClauses(r gpu.Request, hope time.Duration) []clause {
	switch {
	case r.None(), r.Needs.CanUse:
		return nil
	case r.Needs.Optional:
		return []clause{hoped(r, cmp.Or(hope, usualHope))}
	}
	needs := needsOf(r)
	all := []clause{required(plural(r.GPUs(), "GPU"), "size(TARGET.AvailableGPUs) >= RequestGPUs", "leave the GPU out")}
	for _, n := range needs {
		c := required(
			plural(r.GPUs(), "GPU")+": "+n.words,
			fmt.Sprintf("countMatches(%s, TARGET.AvailableGPUs) >= RequestGPUs", n.text), n.asks,
		)
		c.attribute = n.attribute
		all = append(all, c)
	}
	if len(needs) > 1 {
		all = append(all, required(
			"all of that in one GPU", "countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= RequestGPUs", lessGPU,
		))
	}
	return all
}

// usualHope is for how long a job waits for a GPU that it can do without: some negotiations. A preference by rank would
// not do: the usual NEGOTIATOR_PRE_JOB_RANK, which prefers the slot with the fewest processors, outweighs it.
const usualHope = 2 * time.Minute

// hoped has a job go where there is a GPU, and after a time to any slot. It excludes nothing for good.
func hoped(r gpu.Request, hope time.Duration) clause {
	return clause{
		Words: fmt.Sprintf("%s, or none after %.0f s", plural(r.GPUs(), "GPU"), hope.Seconds()),
		e:     classad.Literal(true),
		Text:  fmt.Sprintf("%s || time() - MY.QDate > %.0f", enoughGPUs(r), hope.Seconds()),
	}
}

// lessGPU is the advice where no single need of a GPU is at fault.
const lessGPU = "ask for less of the GPU"

func required(words, text, asks string) clause {
	c := clause{Words: words, Text: text, asks: asks}
	if e, err := classad.Parse(text); err == nil {
		c.e = e
	}
	return c
}

func given(words, text, asks string) clause {
	c := required(words, text, asks)
	c.given = true
	return c
}

// Requirements joins clauses to what a submit description has.
func Requirements(cs []clause) string {
	var texts []string
	for _, c := range cs {
		if !c.own && !c.given {
			texts = append(texts, "("+c.Text+")")
		}
	}
	return strings.Join(texts, " && ")
}

// verdict is what can be said of a requirement and a slot.
type verdict int

const (
	fails verdict = iota
	fits
	unknown // it cannot be judged from the ad
)

// judge says whether a slot, as its ad tells it, fulfils c for a job.
func (c clause) judge(slot, job *classad.Ad) verdict {
	if c.e == nil {
		return unknown
	}
	my, target := job, slot
	if c.own {
		my, target = slot, job
	}
	switch v := classad.Truth(classad.Evaluate(c.e, my, target)).(type) {
	case classad.Unjudged:
		return unknown
	case bool:
		if v {
			return fits
		}
	}
	return fails
}

// cpus is what is asked for in whole processors: HTCondor has no parts.
func (d Demand) cpus() int64 {
	n := int64(d.Resources.CPUs)
	if float64(n) < d.Resources.CPUs {
		n++
	}
	return max(1, n)
}

// mebibytes is the memory that is asked for, with what runs the workload.
func (d Demand) mebibytes() int64 { return max(Mebibytes(d.Resources.Memory), 1) + Mebibytes(d.Own) }

// memory says that to people.
func (d Demand) memory() string {
	words := "memory of " + gigabytes(d.Resources.Memory)
	if d.Own > 0 {
		words += fmt.Sprintf(" and %d MB for what runs it", Mebibytes(d.Own))
	}
	return words
}

// job returns the part of the job's ad that a slot may look at. What else a real one has cannot be judged.
func (d Demand) job() *classad.Ad {
	j := classad.NewPart()
	j.Set("RequestCpus", d.cpus())
	j.Set("RequestMemory", d.mebibytes())
	j.Set("RequestDisk", (d.Disk+1<<10-1)>>10)
	j.Set("RequestGPUs", int64(d.GPU.GPUs()))
	j.Set("RequiresGPU", int64(0))
	j.Set("JobUniverse", int64(vanilla))
	if text := requireGPUs(d.GPU); text != "" {
		j.SetExpr("RequireGPUs", text)
	}
	if d.GPU.Needs.Optional {
		j.SetExpr("RequestGPUs", optionalCount(d.GPU))
	} else if d.GPU.GPUs() > 0 {
		j.Set("RequiresGPU", int64(1))
	}
	for name, v := range d.Facts {
		j.Set(name, v)
	}
	return j
}

// Lines are what a job needs of a machine, in HTCondor's units: whole processors, MiB of memory, KiB of disk.
func (d Demand) Lines() []Line {
	return []Line{
		{"request_cpus", strconv.FormatInt(d.cpus(), 10)},
		{"request_memory", strconv.FormatInt(d.mebibytes(), 10)},
		{"request_disk", strconv.FormatInt((d.Disk+1<<10-1)>>10, 10)},
	}
}

// vanilla is HTCondor's number for the universe that jobs run in.
const vanilla = 5

func processors(n int64) string { return plural(int(n), "CPU") }

// plural counts things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// silent reports whether a slot that fails c has GPUs which do not tell what is asked.
func (c clause) silent(on *classad.Ad) bool {
	mute := func(g *classad.Ad) bool { return g.Get(c.attribute) == nil }
	return c.attribute != "" && slices.ContainsFunc(slot{on}.available(), mute)
}
