package watchdog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"slipway/internal/gpu"
)

// act is what is to be done.
type act string

const (
	warn act = "warn"
	end  act = "end"
	name act = "name" // to the administrator
)

// verdict is one thing to do.
type verdict struct {
	act      act
	workload string // to warn or to end
	pid      int    // to name
	text     string
}

// memory is what is remembered of a GPU between two readings.
type memory struct {
	taken   time.Time
	over    map[string]spell // workloads that were above their share in the last reading
	full    bool             // it was nearly full, and that was said
	strange map[int]bool     // foreign processes of the last reading, which have been named
}

// spell is how long a workload has been above its share, in readings in a row.
type spell struct {
	since time.Time // the first of them, or when it was last ended
	first time.Time
}

// watched is a slice on the GPU that is watched, with what is used of it.
type watched struct {
	lease gpu.Lease
	used  map[string]int64 // by workload: the holder, and who has borrowed it
}

func (w watched) sum() (n int64) {
	for _, used := range w.used {
		n += used
	}
	return n
}

// culprit is who is to be ended for it: the borrower, when the holder alone would be within the share.
func (w watched) culprit() string {
	if w.lease.Lent != "" && w.used[w.lease.Holder] <= w.lease.Slice.Memory {
		return w.lease.Lent
	}
	return w.lease.Holder
}

// judge says what is to be done after a reading of one GPU, and what is to be remembered of it.
func judge(r Reading, held []gpu.Lease, whose func(int) string, before memory, rules Rules) ([]verdict, memory) {
	if !r.Taken.After(before.taken) {
		return nil, before
	}
	if r.Taken.Sub(before.taken) > rules.Stale {
		before.over = nil
	}
	shares, strange := sortOut(r, held, whose)
	after := memory{taken: r.Taken, over: map[string]spell{}, strange: map[int]bool{}}
	if len(shares) == 0 {
		return nil, after // it is not shared, or nobody is on it
	}
	all := nameStrange(strange, before, after)
	above := false
	for _, w := range shares {
		if w.lease.Slice.Memory <= 0 || w.sum() <= w.lease.Slice.Memory {
			continue
		}
		above = true
		all = append(all, judgeOne(r, w, before, after, rules)...)
	}
	full := nearlyFull(r, before.full, rules)
	after.full = full && (before.full || !above)
	if full && !before.full && !above {
		all = append(all, warnAll(r, shares, strange)...)
	}
	return all, after
}

// sortOut finds the watched slices of a GPU, by holder, and the processes that are nobody's. Memory that the driver
// does not tell is counted as none.
func sortOut(r Reading, held []gpu.Lease, whose func(int) string) (shares []watched, strange []gpu.ProcessUse) {
	by := map[string]int{} // workload to slice
	for _, l := range held {
		if l.Slice.GPU != r.GPU || l.Slice.Mode != gpu.Shared || l.Slice.Tier != gpu.None || l.Since.After(r.Taken) {
			continue
		}
		shares = append(shares, watched{lease: l, used: map[string]int64{}})
		by[l.Holder] = len(shares) - 1
		if l.Lent != "" {
			by[l.Lent] = len(shares) - 1
		}
	}
	for _, p := range r.Processes {
		workload := whose(p.PID)
		if workload == "" {
			strange = append(strange, p)
		} else if i, ok := by[workload]; ok {
			shares[i].used[workload] += max(p.Memory, 0)
		}
	}
	return shares, strange
}

// judgeOne is about a slice of which more is used than was agreed.
func judgeOne(r Reading, w watched, before, after memory, rules Rules) []verdict {
	who := w.culprit()
	s, was := before.over[who]
	if !was {
		after.over[who] = spell{since: r.Taken, first: r.Taken}
		return []verdict{{act: warn, workload: who, text: tooMuch(w, rules)}}
	}
	if r.Taken.Sub(s.since) < rules.Grace {
		after.over[who] = s
		return nil
	}
	after.over[who] = spell{since: r.Taken, first: s.first}
	return []verdict{{act: end, workload: who, text: ended(w, r.Taken.Sub(s.first))}}
}

// nearlyFull reports whether little of the GPU's memory is left. Once it is, it is until clearly more is free.
func nearlyFull(r Reading, was bool, rules Rules) bool {
	part := rules.Full
	if was {
		part -= 0.05
	}
	return r.Total > 0 && r.MemoryUsed >= 0 && float64(r.MemoryUsed) >= part*float64(r.Total)
}

// nameStrange names processes that are nobody's, each once.
func nameStrange(strange []gpu.ProcessUse, before, after memory) (all []verdict) {
	for _, p := range strange {
		after.strange[p.PID] = true
		if before.strange[p.PID] {
			continue
		}
		text := "a process that is no workload's uses a GPU that Slipway shares out"
		if p.Memory >= 0 {
			text += ", and " + amount(p.Memory) + " of its memory"
		}
		all = append(all, verdict{act: name, pid: p.PID, text: text})
	}
	return all
}

// warnAll tells all on a GPU that is nearly full, though nobody is at fault.
func warnAll(r Reading, shares []watched, strange []gpu.ProcessUse) (all []verdict) {
	foreign := int64(0)
	for _, p := range strange {
		foreign += max(p.Memory, 0)
	}
	for _, w := range shares {
		for _, who := range workloads(w) {
			all = append(all, verdict{act: warn, workload: who, text: fullText(r, w, who, foreign)})
		}
	}
	return all
}

// workloads are those of a slice, in order.
func workloads(w watched) []string {
	all := map[string]bool{w.lease.Holder: true}
	if w.lease.Lent != "" {
		all[w.lease.Lent] = true
	}
	return slices.Sorted(maps.Keys(all))
}

const freeing = "delete what you need no more and empty your framework's cache (torch.cuda.empty_cache()), or restart the kernel"

// tooMuch is what a user is told who uses too much.
func tooMuch(w watched, rules Rules) string {
	return fmt.Sprintf("%s of GPU memory are in use here, and %s are agreed: others share this %s. Within %s, %s; otherwise this is ended.",
		amount(w.sum()), amount(w.lease.Slice.Memory), w.lease.Slice.Model, rules.Grace, freeing)
}

// ended is why a workload was ended.
func ended(w watched, since time.Duration) string {
	return fmt.Sprintf("it used %s of GPU memory, %s after a warning, where %s are agreed and others share the %s. "+
		"Start it again with a larger share, such as shared/%dG, or use less: smaller batches, a smaller cache",
		amount(w.sum()), since.Round(time.Second), amount(w.lease.Slice.Memory), w.lease.Slice.Model, (w.sum()+
			gib-1)/gib)
}

// fullText is what a user is told on a GPU that is nearly full.
func fullText(r Reading, w watched, who string, foreign int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s of the memory of the %s that you share are in use; what asks for more may fail. You use %s",
		amount(r.MemoryUsed), amount(r.Total), w.lease.Slice.Model, amount(w.used[who]))
	if w.lease.Slice.Memory > 0 {
		fmt.Fprintf(&b, " and may use %s: you are within your share", amount(w.lease.Slice.Memory))
	}
	if foreign > 0 {
		fmt.Fprintf(
			&b, "; %s are used by programs that are not Slipway's, which the administrator has been told",
			amount(foreign),
		)
	}
	b.WriteString(". If you can, " + freeing + ".")
	return b.String()
}

const gib = int64(1) << 30

// amount writes memory for people, in G with one digit. Below that, in M.
func amount(n int64) string {
	if n < gib {
		return fmt.Sprintf("%dM", n>>20)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/float64(gib)), ".0") + "G"
}
