package watchdog

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"slipway/internal/gpu"
)

const card = "GPU-a"

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func lease(holder string, agreed int64) gpu.Lease {
	return gpu.Lease{Holder: holder, Since: start.Add(-time.Hour), Slice: gpu.Slice{
		GPU: card, Model: "NVIDIA H200", Mode: gpu.Shared, Tier: gpu.None, Memory: agreed * gib, Name: "shared",
	}}
}

// owners: tens are a's processes, twenties b's, thirties j's; all others are nobody's.
func owners(pid int) string { return map[int]string{1: "a", 2: "b", 3: "j"}[pid/10] }

// at makes a reading, seconds after the start, of processes and what they use in GiB.
func at(seconds int, uses map[int]int64) Reading {
	r := Reading{GPU: card, Total: 100 * gib, Taken: start.Add(time.Duration(seconds) * time.Second)}
	for pid, n := range uses {
		if n >= 0 {
			r.MemoryUsed += n * gib
			n *= gib
		}
		r.Processes = append(r.Processes, gpu.ProcessUse{PID: pid, Memory: n})
	}
	return r
}

type uses = map[int]int64

func TestJudge(t *testing.T) {
	two := []gpu.Lease{lease("a", 10), lease("b", 10)}
	lent := []gpu.Lease{lease("a", 10), lease("b", 10)}
	lent[0].Lent = "j"
	with := func(change func(*gpu.Lease)) []gpu.Lease {
		l := lease("a", 10)
		change(&l)
		return []gpu.Lease{l}
	}
	for title, c := range map[string]struct {
		held     []gpu.Lease
		readings []Reading
		want     string // act and whom, in order
	}{
		"within":                     {two, []Reading{at(1, uses{10: 10}), at(20, uses{10: 10}), at(40, uses{10: 10})}, ""},
		"above once":                 {two, []Reading{at(1, uses{10: 11}), at(12, uses{10: 9})}, "warn a"},
		"above for the grace":        {two, []Reading{at(1, uses{10: 11}), at(6, uses{10: 11}), at(11, uses{10: 11})}, "warn a, end a"},
		"above for less":             {two, []Reading{at(1, uses{10: 11}), at(10, uses{10: 11})}, "warn a"},
		"two processes together":     {two, []Reading{at(1, uses{10: 6, 11: 5}), at(11, uses{10: 6, 11: 5})}, "warn a, end a"},
		"below in between":           {two, []Reading{at(1, uses{10: 11}), at(6, uses{10: 9}), at(11, uses{10: 11})}, "warn a, warn a"},
		"gone in between":            {two, []Reading{at(1, uses{10: 11}), at(6, uses{}), at(11, uses{10: 11})}, "warn a, warn a"},
		"the same reading again":     {two, []Reading{at(1, uses{10: 11}), at(1, uses{10: 11}), at(1, uses{10: 11})}, "warn a"},
		"an older reading":           {two, []Reading{at(20, uses{10: 11}), at(1, uses{10: 11})}, "warn a"},
		"readings too far apart":     {two, []Reading{at(1, uses{10: 11}), at(90, uses{10: 11})}, "warn a, warn a"},
		"still there after its end":  {two, []Reading{at(1, uses{10: 11}), at(11, uses{10: 11}), at(15, uses{10: 11}), at(21, uses{10: 11})}, "warn a, end a, end a"},
		"both":                       {two, []Reading{at(1, uses{10: 11, 20: 12}), at(11, uses{10: 11, 20: 12})}, "warn a, warn b, end a, end b"},
		"memory is not told":         {two, []Reading{at(1, uses{10: -1, 11: 10}), at(11, uses{10: -1, 11: 10})}, ""},
		"nothing was agreed":         {[]gpu.Lease{lease("a", 0)}, []Reading{at(1, uses{10: 50}), at(11, uses{10: 50})}, ""},
		"foreign":                    {two, []Reading{at(1, uses{99: 50}), at(11, uses{99: 50}), at(21, uses{99: 50, 98: 1})}, "name 99, name 98"},
		"foreign, and nobody is on":  {nil, []Reading{at(1, uses{99: 50})}, ""},
		"no holder of this GPU":      {[]gpu.Lease{lease("a", 10)}, []Reading{at(1, uses{20: 50}), at(11, uses{20: 50})}, ""},
		"nearly full":                {[]gpu.Lease{lease("a", 50), lease("b", 50)}, []Reading{at(1, uses{10: 48, 20: 47}), at(11, uses{10: 48, 20: 47})}, "warn a, warn b"},
		"nearly full, with strays":   {[]gpu.Lease{lease("a", 50)}, []Reading{at(1, uses{10: 45, 99: 50}), at(11, uses{10: 45, 99: 50})}, "name 99, warn a"},
		"nearly full by one":         {[]gpu.Lease{lease("a", 50), lease("b", 40)}, []Reading{at(1, uses{10: 50, 20: 45}), at(11, uses{10: 50, 20: 45})}, "warn b, end b"},
		"full, free, full":           {[]gpu.Lease{lease("a", 100)}, []Reading{at(1, uses{10: 95}), at(2, uses{10: 92}), at(3, uses{10: 96}), at(4, uses{10: 80}), at(5, uses{10: 95})}, "warn a, warn a"},
		"full after one was ended":   {[]gpu.Lease{lease("a", 97), lease("b", 1)}, []Reading{at(1, uses{10: 96, 20: 2}), at(2, uses{10: 96})}, "warn b, warn a, warn b"},
		"lent: the borrower":         {lent, []Reading{at(1, uses{10: 2, 30: 9}), at(11, uses{10: 2, 30: 9})}, "warn j, end j"},
		"lent: the owner":            {lent, []Reading{at(1, uses{10: 11}), at(11, uses{10: 11})}, "warn a, end a"},
		"lent: within":               {lent, []Reading{at(1, uses{10: 2, 30: 8}), at(11, uses{10: 2, 30: 8})}, ""},
		"another GPU's lease":        {with(func(l *gpu.Lease) { l.Slice.GPU = "GPU-b" }), []Reading{at(1, uses{10: 50}), at(11, uses{10: 50})}, ""},
		"kept by the kernel":         {with(func(l *gpu.Lease) { l.Slice.Tier = gpu.Cgroup }), []Reading{at(1, uses{10: 50}), at(11, uses{10: 50})}, ""},
		"another mode":               {with(func(l *gpu.Lease) { l.Slice.Mode = gpu.MPS }), []Reading{at(1, uses{10: 50}), at(11, uses{10: 50})}, ""},
		"lease after the reading":    {with(func(l *gpu.Lease) { l.Since = start.Add(5 * time.Second) }), []Reading{at(1, uses{10: 50}), at(11, uses{10: 50})}, "warn a"},
		"total that is not known":    {two, []Reading{{GPU: card, Taken: start, Reading: gpu.Reading{MemoryUsed: 50}}}, ""},
		"memory that cannot be read": {two, []Reading{{GPU: card, Total: gib, Taken: start, Reading: gpu.Reading{MemoryUsed: -1}}}, ""},
	} {
		var m memory
		var got []string
		for _, r := range c.readings {
			var all []verdict
			all, m = judge(r, c.held, owners, m, Rules{}.filled())
			for _, v := range all {
				got = append(got, string(v.act)+" "+v.workload+pidOf(v))
			}
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s: %q, want %q", title, s, c.want)
		}
	}
}

func pidOf(v verdict) string {
	if v.act != name {
		return ""
	}
	return map[int]string{99: "99", 98: "98"}[v.pid]
}

// TestWords: a user is told what is used, what may be, and what to do.
func TestWords(t *testing.T) {
	var m memory
	held := []gpu.Lease{lease("a", 10), lease("b", 85)}
	said := map[string]bool{}
	for _, r := range []Reading{at(1, uses{10: 12, 99: 1}), at(13, uses{10: 12}), at(14, uses{10: 10, 20: 84, 99: 2})} {
		var all []verdict
		all, m = judge(r, held, owners, m, Rules{}.filled())
		for _, v := range all {
			said[string(v.act)+" "+v.workload+": "+v.text] = true
		}
	}
	for _, want := range []string{
		"warn a: 12G of GPU memory are in use here, and 10G are agreed: others share this NVIDIA H200. Within 10s, delete what you need no more " +
			"and empty your framework's cache (torch.cuda.empty_cache()), or restart the kernel; otherwise this is ended.",
		"end a: it used 12G of GPU memory, 12s after a warning, where 10G are agreed and others share the NVIDIA H200. " +
			"Start it again with a larger share, such as shared/12G, or use less: smaller batches, a smaller cache",
		"warn b: 96G of 100G of the memory of the NVIDIA H200 that you share are in use; what asks for more may fail. You use 84G and may use 85G: " +
			"you are within your share; 2G are used by programs that are not Slipway's, which the administrator has been told. If you can, " +
			"delete what you need no more and empty your framework's cache (torch.cuda.empty_cache()), or restart the kernel.",
		"name : a process that is no workload's uses a GPU that Slipway shares out, and 1G of its memory",
	} {
		if !said[want] {
			t.Errorf("nobody said %q; but\n%v", want, said)
		}
	}
	for n, want := range map[int64]string{0: "0M", 5 << 20: "5M", gib: "1G", 3 * gib / 2: "1.5G", 120 * gib: "120G"} {
		if got := amount(n); got != want {
			t.Errorf("%d is %s", n, got)
		}
	}
}

// TestNeverUnjust plays random days, and checks each end against the readings themselves: whoever is ended was above
// the share in this reading and in each before it over the grace, two at least, and was warned; and holds a slice that
// is watched.
func TestNeverUnjust(t *testing.T) {
	rules, ends := Rules{}.filled(), 0
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		var m memory
		since, seen, warned, last := map[string]time.Time{}, map[string]int{}, map[string]bool{}, time.Time{}
		held := []gpu.Lease{lease("a", 1+rnd.Int64N(20)), lease("b", rnd.Int64N(20))}
		if rnd.IntN(2) == 0 {
			held[0].Lent = "j"
		}
		seconds := 0
		for range 200 {
			seconds += 1 + rnd.IntN(8)
			if rnd.IntN(30) == 0 {
				seconds += 120
			}
			u := uses{}
			for _, pid := range []int{10, 11, 20, 21, 30, 99} {
				if rnd.IntN(3) > 0 {
					u[pid] = rnd.Int64N(14) - 1
				}
			}
			r := at(seconds, u)
			all, after := judge(r, held, owners, m, rules)
			m = after
			if r.Taken.Sub(last) > rules.Stale {
				clear(since)
				clear(seen)
			}
			last = r.Taken
			over := map[string]bool{}
			for _, l := range held {
				var own, borrowed int64
				for _, p := range r.Processes {
					switch owners(p.PID) {
					case l.Holder:
						own += max(p.Memory, 0)
					case l.Lent:
						borrowed += map[bool]int64{true: max(p.Memory, 0)}[l.Lent != ""]
					}
				}
				if l.Slice.Memory == 0 || own+borrowed <= l.Slice.Memory {
					continue
				}
				who := l.Holder
				if l.Lent != "" && own <= l.Slice.Memory {
					who = l.Lent
				}
				over[who] = true
				if _, ok := since[who]; !ok {
					since[who] = r.Taken
				}
				seen[who]++
			}
			for _, who := range []string{"a", "b", "j"} {
				if !over[who] {
					delete(since, who)
					delete(seen, who)
					delete(warned, who)
				}
			}
			for _, v := range all {
				warned[v.workload] = warned[v.workload] || v.act == warn
				if v.act != end {
					continue
				}
				ends++
				if !over[v.workload] || seen[v.workload] < 2 || r.Taken.Sub(since[v.workload]) < rules.Grace || !warned[v.workload] {
					t.Fatalf("seed %d: %s is ended at %ds, above in %d readings since %s", seed, v.workload, seconds, seen[v.workload], since[v.workload])
				}
			}
		}
	}
	if ends < 100 {
		t.Errorf("only %d ends in all days: the test tests nothing", ends)
	}
}
