package pool

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/htcondor/classad"
)

// ownTerms is the condition that each machine has of its own: its START expression and whether what is asked for is
// free.
func ownTerms() clause {
	c := required("the machine's own conditions", "START", "")
	c.own = true
	return c
}

// explanation says how slots stand to a demand. It looks at each slot as it would be if nothing ran there, and as it is
// now.
func explanation(d Demand, slots []slot) spawner.Explanation {
	cs, job := append(ClausesOf(d), ownTerms()), d.job()
	e := spawner.Explanation{Slots: len(slots)}
	counts := make([]tally, len(cs))
	for _, s := range slots {
		failed := count(cs, counts, s.empty(), job)
		if len(failed) == 1 {
			counts[failed[0]].alone++
		}
		if len(failed) == 0 {
			e.Fit++
			if s.takes(cs, job) {
				e.Free++
			}
		}
	}
	for i, c := range cs {
		if c.own && counts[i] == (tally{}) {
			continue
		}
		e.Clauses = append(e.Clauses, spawner.Clause{
			Words: counts[i].words(c), Text: c.Text, Excludes: counts[i].excludes, Alone: counts[i].alone,
		})
	}
	e.Summary, e.Remedy = summary(e), remedy(cs, counts, e)
	for i, c := range cs {
		if c.arch != "" && e.Slots > 0 && counts[i].excludes == e.Slots {
			e.Summary = fmt.Sprintf("no worker of this pool is %s; %s", strings.ToLower(c.arch), architectures(slots))
		}
	}
	return e
}

// architectures says how many workers there are of each.
func architectures(slots []slot) string {
	machines, of := map[string]bool{}, map[string]int{}
	for _, s := range slots {
		if !machines[s.machine()] {
			machines[s.machine()] = true
			of[strings.ToLower(cmp.Or(s.Text("Arch"), "of an architecture that they do not tell"))]++
		}
	}
	var all []string
	for _, arch := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%d %s %s", of[arch], verb(of[arch], "is", "are"), arch))
	}
	return strings.Join(all, ", ")
}

// tally is what one requirement does to the slots.
type tally struct {
	excludes int
	alone    int // those that fail nothing else
	silent   int // of excludes: those whose ads do not say what is asked
	unknown  int // those that count as fulfilling it, because only HTCondor can judge
}

// count judges a slot by all clauses, and returns the numbers of those that it fails.
func count(cs []clause, counts []tally, on, job *classad.Ad) (failed []int) {
	for i, c := range cs {
		switch c.judge(on, job) {
		case fails:
			failed = append(failed, i)
			counts[i].excludes++
			if c.silent(on) {
				counts[i].silent++
			}
		case unknown:
			counts[i].unknown++
		}
	}
	return failed
}

// words adds to a clause's words what could not be judged.
func (t tally) words(c clause) string {
	var asides []string
	if t.silent > 0 {
		asides = append(
			asides, plural(t.silent, "slot")+" of these "+verb(t.silent, "has", "have")+" GPUs that do not say",
		)
	}
	if t.unknown > 0 {
		asides = append(asides, "cannot be judged from here for "+plural(t.unknown, "slot"))
	}
	if len(asides) == 0 {
		return c.Words
	}
	return c.Words + " (" + strings.Join(asides, "; ") + ")"
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func summary(e spawner.Explanation) string {
	switch {
	case e.Slots == 0:
		return "the pool has no machines at present"
	case e.Fit == 0:
		return fmt.Sprintf("none of the pool's %s can ever take it", plural(e.Slots, "slot"))
	case e.Free == 0:
		return fmt.Sprintf("%d of %s in the pool can take it, and none has room now", e.Fit, plural(e.Slots, "slot"))
	default:
		return fmt.Sprintf("%d of %s in the pool could take it now: it starts with the next negotiation, unless others go before it",
			e.Free, plural(e.Slots, "slot"))
	}
}

// remedy says what the user could ask for instead: the need that alone excludes most slots.
func remedy(cs []clause, counts []tally, e spawner.Explanation) string {
	if e.Slots == 0 || e.Fit > 0 {
		return ""
	}
	best := -1
	for i := range cs {
		if cs[i].asks != "" && (best < 0 || counts[i].better(counts[best])) {
			best = i
		}
	}
	switch {
	case best < 0 || counts[best].excludes == 0:
		return "tell your administrator: what the site requires, no machine has"
	case counts[best].alone > 0:
		return fmt.Sprintf("%s: %s would do then", cs[best].asks, plural(counts[best].alone, "slot"))
	}
	var all []string
	for i, c := range cs {
		if c.asks != "" && counts[i].excludes == e.Slots && !slices.Contains(all, c.asks) {
			all = append(all, c.asks)
		}
	}
	if len(all) == 0 {
		return cs[best].asks
	}
	if len(all) > 1 {
		all = slices.DeleteFunc(all, func(s string) bool { return s == lessGPU })
	}
	return strings.Join(all, "; and ")
}

// better reports whether t stands between the user and more slots than o.
func (t tally) better(o tally) bool {
	if t.alone != o.alone {
		return t.alone > o.alone
	}
	return t.excludes > o.excludes
}

// refusal is the error of what can never start in the pool as it is; nil when it can, or when the pool has nothing now
// to judge by.
func refusal(e spawner.Explanation) error {
	if e.Slots == 0 || e.Fit > 0 {
		return nil
	}
	var details []errs.Detail
	for _, c := range e.Clauses {
		if c.Excludes > 0 {
			details = append(
				details,
				errs.Detail{What: fmt.Sprintf("%s: %d of %d slots have it", c.Words, e.Slots-c.Excludes, e.Slots)},
			)
		}
	}
	return errs.New(errs.OverQuota, "this can never start in the pool: %s", e.Summary).Naming(details).With(e.Remedy)
}
