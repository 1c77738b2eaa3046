package webui

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"slipway/internal/units"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// limits says in words what a profile gives.
func limits(p catalog.Profile) string {
	cpus, memory := number(p.CPUs)+" CPU", units.MemoryWords(p.Memory)+" of memory"
	if p.MostCPUs() > p.CPUs {
		cpus += " (at most " + number(p.MostCPUs()) + ")"
	}
	if p.MostMemory() > p.Memory {
		memory += " (at most " + units.MemoryWords(p.MostMemory()) + ")"
	}
	return cpus + ", " + memory
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// poolWords names the batch system of a backend; empty: workloads run on this host.
func poolWords(c catalog.Catalogue, backend string) string {
	if system := c.BatchSystems[backend]; system != "" {
		return "the " + system + " pool"
	}
	return ""
}

// backendWords names where workloads of a backend run.
func backendWords(c catalog.Catalogue, backend string) string {
	return cmp.Or(poolWords(c, backend), backend)
}

// RoomOf says how many sessions of a profile can start now. A batch system alone knows that of those it runs.
func RoomOf(c catalog.Catalogue, p catalog.Profile, r spawner.Room) string {
	if poolWords(c, p.Backend) != "" && !r.Full() {
		return "starts when a slot is free for it"
	}
	return RoomWords(r)
}

// RoomWords says how many sessions of a profile can start now, or what a user who chooses it has to wait for.
func RoomWords(r spawner.Room) string {
	switch {
	case r.Most == 0:
		return "does not fit here" + behind(": ", r.Lacks)
	case r.Lacks == "" && r.Waiting == 0 && r.Free < 0:
		return "free"
	case r.Lacks == "" && r.Waiting == 0:
		return fmt.Sprintf("%d free now", r.Free)
	}
	words := fmt.Sprintf("none free now%s; you would be number %d in line", behind(": ", r.Lacks), r.Waiting+1)
	if r.Estimate >= 0 {
		words += ", about " + span(r.Estimate)
	}
	return words
}

// behind puts a joint before words, if there are any.
func behind(joint, words string) string {
	if words == "" {
		return ""
	}
	return joint + words
}

// span says a length of time as people do: no finer than they need.
func span(d time.Duration) string {
	minutes := int(d.Round(time.Minute) / time.Minute)
	switch {
	case d < time.Minute:
		return "1 min"
	case minutes < 60:
		return fmt.Sprintf("%d min", minutes)
	case minutes < 48*60 && minutes%60 == 0:
		return fmt.Sprintf("%d h", minutes/60)
	case minutes < 48*60:
		return fmt.Sprintf("%d h %d min", minutes/60, minutes%60)
	default:
		return fmt.Sprintf("%d days", minutes/60/24)
	}
}

// took says how long something ran, to the second where that matters.
func took(d time.Duration) string {
	if 0 < d && d < 10*time.Second {
		return fmt.Sprintf("%.2g s", max(d.Seconds(), 0.01))
	}
	switch d = max(0, d.Round(time.Second)); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 10*time.Minute:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	default:
		return span(d)
	}
}

// grouped writes a number with commas between thousands.
func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

// moment is a time for people without scripts: pages turn it into the reader's own zone with them.
func moment(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") }

// second is a moment to the second.
func second(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04:05 UTC") }

// clock is a time of day, likewise.
func clock(t time.Time) string { return t.UTC().Format("15:04:05") }

// machine is a time for a page's datetime attribute.
func machine(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// title returns an image's name for people.
func title(i catalog.ImageChoice) string {
	if i.Title == "" {
		return i.Name
	}
	return i.Title
}

// ImageTitle returns the title of the image that an engine knows by ref; ref itself when the catalogue has it no more.
func ImageTitle(c catalog.Catalogue, ref string) string {
	for _, i := range c.Images {
		if i.Ref == ref {
			return title(i)
		}
	}
	return ref
}

// profileTitle returns the title of a profile; its name when the catalogue has it no more.
func profileTitle(c catalog.Catalogue, name string) string {
	for _, p := range c.Profiles {
		if p.Name == name && p.Title != "" {
			return p.Title
		}
	}
	return name
}
