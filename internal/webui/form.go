package webui

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/units"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// Form is what a spawn form is made of.
type Form struct {
	Catalogue catalog.Catalogue
	Rooms     map[string]spawner.Room // by profile. One that is not in it shows no count
	Active    map[string]int          // sessions that there are now, by image
	Chosen    map[string]any          // the options of the last start, as the Hub has kept them
	Kept      []spawner.Workload      // stopped sessions of this server's name: their changes come back
	// Environments are what the user may start from, the newest first. Chosen names one of them by its digest.
	Environments []hubapi.Environment
	Refresh      string        // where scripts ask for RoomCounts; empty: they do not
	GPUs         gpu.Inventory // what slices are cut from
}

// SpawnForm writes the form fragment with the fields profile, image, cpus, memory and fresh. The Hub's page puts it
// into a form of its own. An empty field means the profile's default. Without scripts every choice is offered with
// every profile, and what does not fit is the engine's to refuse.
func SpawnForm(w io.Writer, f Form) error {
	chosen, notes := recall(f.Catalogue, f.Chosen)
	shown := form{choice: chosen, Notes: notes, Refresh: f.Refresh, From: f.origins(chosen)}
	if lost := f.lostEnvironment(shown.From); lost != "" {
		shown.Notes = append(shown.Notes, lost)
	}
	most := int64(0)
	for _, p := range f.Catalogue.Profiles {
		c := f.card(p, p.Name == chosen.Profile)
		shown.Profiles, shown.HomesApart = append(shown.Profiles, c), shown.HomesApart || c.HomeApart
		if c.Slice != "" && !slices.Contains(shown.Apart, c.Apart) {
			shown.Apart = append(shown.Apart, c.Apart)
		}
		shown.MaxCPUs, most = max(shown.MaxCPUs, p.MostCPUs()), max(most, p.MostMemory())
	}
	for _, i := range f.Catalogue.Images {
		if f.offers(i.Name) {
			shown.Images = append(
				shown.Images,
				imageOption{Name: i.Name, Title: ImageCount(i, f.Active[i.Name]), Chosen: i.Name == chosen.Image},
			)
		}
	}
	shown.Sizes = sizes(most, chosen.bytes)
	for _, k := range f.Kept {
		shown.Kept = append(
			shown.Kept,
			kept{Image: ImageTitle(f.Catalogue, k.Spec.Image), From: f.nameOf(k.Spec.Environment), Since: k.Since},
		)
	}
	return fragment("form.html", w, shown)
}

// form is what the template shows.
type form struct {
	choice
	Notes      []string // of the last choice, what is offered no more
	Refresh    string
	Profiles   []card
	Images     []imageOption
	MaxCPUs    float64
	Sizes      []size
	Kept       []kept
	From       origins
	HomesApart bool    // sessions of a profile run on hosts that do not have the users' homes
	Apart      []apart // the kinds of isolation that the profiles' slices have
}

// card is one profile.
type card struct {
	catalog.Profile
	Chosen      bool
	ImageTitles []string
	Limits      string
	Pool        string // the batch system that its sessions run in; empty: this host
	HomeApart   bool   // the hosts there do not have the users' homes
	Room        string
	Full        bool
	Slice       string // of a GPU, in words; empty: none
	Apart       apart  // of it
	AtOnce      int    // how many such sessions there can be; 0: that is not known
	Simulated   bool
	Offers      string // the names of its images, in JSON
	FirstImage  string
}

type imageOption struct {
	Name, Title string
	Chosen      bool
}

type size struct {
	Bytes        int64
	Value, Title string
	Chosen       bool
}

type kept struct {
	Image string
	From  string // the environment over it; empty: none
	Since time.Time
}

func (f Form) card(p catalog.Profile, chosen bool) card {
	c := card{Profile: p, Limits: limits(p), Pool: poolWords(f.Catalogue, p.Backend), Chosen: chosen}
	c.HomeApart = f.Catalogue.HomesApart[p.Backend]
	if c.Title == "" {
		c.Title = p.Name
	}
	for _, name := range p.Images {
		if i, ok := f.Catalogue.Image(name); ok {
			c.ImageTitles = append(c.ImageTitles, title(i))
		}
	}
	if len(c.ImageTitles) > 0 {
		c.FirstImage = c.ImageTitles[0]
	}
	if r, ok := f.Rooms[p.Name]; ok {
		c.Room, c.Full, c.AtOnce = RoomOf(f.Catalogue, p, r), r.Full(), max(0, r.Most)
	}
	if !p.GPU.None() {
		c.Slice, c.Apart = sliceWords(p.GPU, f.GPUs), apartOf(p.GPU.Mode, tierOf(p.GPU, f.GPUs))
		c.Simulated = f.GPUs.System.Simulated
	}
	offers, _ := json.Marshal(slices.Concat([]string{}, p.Images)) // strings always have a JSON form
	c.Offers = string(offers)
	return c
}

// ImageCount says an image's title, and how many sessions of it there are.
func ImageCount(i catalog.ImageChoice, active int) string {
	if active == 0 {
		return title(i)
	}
	return fmt.Sprintf("%s (in %s now)", title(i), counted(active, "session"))
}

// sizes are the amounts of memory to choose from: powers of two, the most that there is, and what is chosen.
func sizes(most, chosen int64) []size {
	var all []int64
	for n := int64(512 << 20); n < most; n *= 2 {
		all = append(all, n)
	}
	if most > 0 {
		all = append(all, most)
	}
	if chosen > 0 {
		all = append(all, chosen)
	}
	slices.Sort(all)
	var out []size
	for _, n := range slices.Compact(all) {
		out = append(
			out, size{Bytes: n, Value: units.FormatMemory(n), Title: units.MemoryWords(n), Chosen: n == chosen},
		)
	}
	return out
}

// choice is what is preselected. Empty words and zero mean the profile's default.
type choice struct {
	Profile, Image, CPUs string
	Odd                  bool // CPUs is no multiple of a half
	bytes                int64
}

// recall takes from the last choice what is still offered, and says what is not. It never fails: what makes no sense is
// as if it had not been chosen. Where it is not known whether the profile is open to her, none is chosen for her.
// Whether changes are discarded is not remembered.
func recall(c catalog.Catalogue, options map[string]any) (choice, []string) {
	var out choice
	var lost []string
	if p, ok := c.Default(); ok {
		out.Profile = p.Name
	}
	name := word(options["profile"])
	switch err := c.Offered(name); {
	case errs.Is(err, errs.Unavailable):
		return choice{}, []string{
			"It is not known what you may choose: " + errs.Brief(err) + ". Load this page again in a moment.",
		}
	case name == "":
	case err != nil:
		return out, []string{lostChoice("profile", name)}
	default:
		out.Profile = name
	}
	for _, field := range []string{"image", "cpus", "memory"} {
		value := word(options[field])
		switch {
		case value == "":
		case !offered(c, out.Profile, field, value):
			lost = append(lost, lostChoice(field, value))
		case field == "image":
			out.Image = value
		case field == "cpus":
			out.CPUs = value
			f, _ := strconv.ParseFloat(value, 64) // else it would not be offered
			out.Odd = f < .5 || math.Mod(f, .5) != 0
		case field == "memory":
			out.bytes, _ = units.ParseMemory(value)
		}
	}
	return out, lost
}

// offered reports whether the catalogue takes a value with a profile.
func offered(c catalog.Catalogue, profile, field string, value any) bool {
	_, _, err := c.Resolve(map[string]any{"profile": profile, field: value})
	return err == nil
}

func lostChoice(field, value string) string {
	return fmt.Sprintf(
		"Your last choice of %s, %s, is not offered any more.", strings.Replace(field, "cpus", "CPUs", 1),
		shorten(value),
	)
}

// word reads an option as a form or JSON gives it; empty when it is of no such kind.
func word(option any) string {
	switch v := option.(type) {
	case string:
		return strings.TrimSpace(v)
	case float64:
		return fmt.Sprintf("%.15g", v)
	default:
		return ""
	}
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "..."
	}
	return s
}
