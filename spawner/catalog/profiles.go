// Package catalog is what a site offers: profiles of sessions with their images and limits, who may use them, and what
// one job may ask for.
//
// Promises: it reads what a user has chosen, fills in what was left open, and refuses the rest with the field, the
// value and the remedy. It decides on what it is given alone: it must not look at what is in use, do I/O, or have a
// clock.
package catalog

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/units"
	"slipway/spawner"
)

func (p Profile) Label() string {
	if p.Title != "" {
		return p.Title
	}
	return p.Name
}

// serves reports whether a profile offers an image, by its reference.
func (p Profile) Serves(ref string, c Catalogue) bool {
	return slices.ContainsFunc(
		c.Images, func(i ImageChoice) bool { return i.Ref == ref && slices.Contains(p.Images, i.Name) },
	)
}

// minMemory is the least that a workload may be limited to: with less an interpreter does not start, and the user only
// sees that it was killed.
const minMemory = 64 << 20

// defaultPids is the limit of processes of a profile that names none.
const defaultPids = 4096

// ImageChoice is an image that profiles offer.
type ImageChoice struct {
	Name  string // the word in the form and the API
	Title string // for people
	Ref   string // the engine's reference
}

// Profile is one kind of session that the site offers, with its limits. The zero MaxCPUs and MaxMemory mean that the
// user cannot have more than CPUs and Memory.
type Profile struct {
	Name, Title, Description string
	Kind                     spawner.Kind
	Backend                  string   // where its sessions run. Empty: Config.Sessions
	Images                   []string // names of ImageChoice; the first is what a user gets who names none
	CPUs, MaxCPUs            float64
	Memory, MaxMemory        int64       // bytes
	Pids                     int64       // zero: 4096
	Disk                     int64       // bytes that its sessions may write beside the home; zero: no limit
	GPU                      gpu.Request // what slice of a GPU its sessions get; zero: none
	Default                  bool
	Rescue                   bool // nothing of its sessions writes to the home by itself
	// Users (by their principals) and Groups to whom it is open. Both empty: to everybody.
	Users, Groups []string
	Ready         string // path below the prefix that answers when the app is up. Empty: "api"
	Life          spawner.Life
}

// Catalogue is what the site offers.
type Catalogue struct {
	Profiles []Profile
	Images   []ImageChoice
	// BatchSystems names the batch systems of the backends that run workloads on other hosts, as people write them.
	BatchSystems map[string]string
	// HomesApart are those of BatchSystems whose hosts do not have the users' homes: a session there has one of its own.
	HomesApart map[string]bool
	closed     []closed // that are not open to whom it is for; see Only
	// what Default would be, if only it were known that it is open to her; nil: it is known what Default is
	doubt *closed
}

// Check says all that is wrong with the catalogue.
func (c Catalogue) Check() error {
	var all []error
	note := func(field string, value any, remedy string) { all = append(all, errs.Bad(field, value, remedy)) }
	images, names := map[string]bool{}, map[string]bool{}
	for i, image := range c.Images {
		field := fmt.Sprintf("images[%d]", i)
		if image.Name == "" || images[image.Name] {
			note(field+".name", image.Name, "a name that no other image has")
		}
		if image.Ref == "" {
			note(field+".ref", image.Ref, "the engine's reference of the image")
		}
		images[image.Name] = true
	}
	defaults := 0
	for i, p := range c.Profiles {
		field := fmt.Sprintf("profiles[%d]", i)
		if p.Name == "" || names[p.Name] {
			note(field+".name", p.Name, "a name that no other profile has")
		}
		names[p.Name] = true
		if p.Default {
			defaults++
		}
		all = append(all, p.check(field, images))
	}
	if len(c.Profiles) > 0 && defaults != 1 {
		note("profiles", fmt.Sprintf("%d with default: true", defaults), "exactly one profile with default: true")
	}
	return errors.Join(all...)
}

func (p Profile) check(field string, images map[string]bool) error {
	var all []error
	note := func(name string, value any, remedy string) {
		all = append(all, errs.Bad(field+"."+name, value, remedy))
	}
	if !p.Kind.HubServer() {
		note("kind", p.Kind, fmt.Sprintf("%s or %s", spawner.Lab, spawner.Code))
	}
	if len(p.Images) == 0 {
		note("images", "[]", "at least one image")
	}
	for _, name := range p.Images {
		if !images[name] {
			note("images", name, "one of the names under images")
		}
	}
	if !(p.CPUs > 0) || math.IsInf(p.CPUs, 0) {
		note("cpus", p.CPUs, "more than 0")
	}
	if p.MaxCPUs != 0 && !(p.MaxCPUs >= p.CPUs) {
		note("max_cpus", p.MaxCPUs, "at least cpus, or left out")
	}
	if p.Memory < minMemory {
		note("memory", units.FormatMemory(p.Memory), "at least "+units.FormatMemory(minMemory))
	}
	if p.MaxMemory != 0 && p.MaxMemory < p.Memory {
		note("max_memory", units.FormatMemory(p.MaxMemory), "at least memory, or left out")
	}
	if p.Pids < 0 {
		note("pids", p.Pids, "0 or more")
	}
	return errors.Join(all...)
}

// Default returns the profile of a user who names none: the site's default, or the first where that is surely not open
// to her; false when there is none, and when it is not known just now which it is.
func (c Catalogue) Default() (Profile, bool) {
	if len(c.Profiles) == 0 || c.doubt != nil {
		return Profile{}, false
	}
	return c.Profiles[standard(c.Profiles)], true
}

// standard returns the place of the site's default among profiles, or of the first where it is none of them.
func standard(profiles []Profile) int {
	return max(0, slices.IndexFunc(profiles, func(p Profile) bool { return p.Default }))
}

// Backend returns where the sessions of a profile run; empty: at Config.Sessions.
func (c Catalogue) Backend(profile string) string {
	i := slices.IndexFunc(c.Profiles, func(p Profile) bool { return p.Name == profile })
	if i < 0 {
		return ""
	}
	return c.Profiles[i].Backend
}

// Image finds an image by its name.
func (c Catalogue) Image(name string) (ImageChoice, bool) {
	i := slices.IndexFunc(c.Images, func(i ImageChoice) bool { return i.Name == name })
	if i < 0 {
		return ImageChoice{}, false
	}
	return c.Images[i], true
}

// MostCPUs returns the most CPUs that a user may ask for.
func (p Profile) MostCPUs() float64 { return max(p.CPUs, p.MaxCPUs) }

// MostMemory returns the most memory that a user may ask for.
func (p Profile) MostMemory() int64 { return max(p.Memory, p.MaxMemory) }

// optionNames are the words that a user's options may hold.
var optionNames = []string{"cpus", "image", "memory", "profile"}

// Resolve makes a session's spec out of a user's options: strings or numbers, as a form or JSON gives them. An option
// that is absent, null or the empty string has its default. What is unknown or beyond the profile's limits is refused,
// never bent. The spec lacks what options cannot say: Argv, Env and Prefix; its Ready is relative to Prefix.
func (c Catalogue) Resolve(options map[string]any) (spawner.Kind, spawner.Spec, error) {
	for name := range options {
		if !slices.Contains(optionNames, name) {
			return "", spawner.Spec{}, errs.Bad(
				"options."+errs.Shorten(name), errs.Shorten(fmt.Sprint(options[name])),
				"the options are "+strings.Join(optionNames, ", "),
			)
		}
	}
	p, err := c.profile(options["profile"])
	if err != nil {
		return "", spawner.Spec{}, err
	}
	image, err := c.imageOf(p, options["image"])
	if err != nil {
		return "", spawner.Spec{}, err
	}
	whose := "a session of profile " + p.Name
	cpus, err := cpusWithin(whose, options["cpus"], p.CPUs, p.MostCPUs())
	if err != nil {
		return "", spawner.Spec{}, err
	}
	memory, err := memoryWithin(whose, options["memory"], p.Memory, p.MostMemory())
	if err != nil {
		return "", spawner.Spec{}, err
	}
	spec := spawner.Spec{SessionSpec: spawner.SessionSpec{
		Profile: p.Name, Image: image.Ref, Ready: p.Ready, Life: p.Life, Rescue: p.Rescue,
	}, Resources: spawner.Resources{CPUs: cpus, Memory: memory, Pids: p.Pids, Disk: p.Disk}, GPU: p.GPU}
	if spec.Ready == "" {
		spec.Ready = "api"
	}
	if spec.Resources.Pids == 0 {
		spec.Resources.Pids = defaultPids
	}
	return p.Kind, spec, nil
}

// Again returns the options with which a session starts as it was. What the site does not offer any more is then
// refused by name.
func (c Catalogue) Again(s spawner.Spec) map[string]any {
	options := map[string]any{
		"profile": s.Profile, "cpus": s.Resources.CPUs, "memory": units.FormatMemory(s.Resources.Memory),
	}
	if s.Environment != "" {
		options["environment"] = s.Environment // which says what image it stands on
		return options
	}
	if i := slices.IndexFunc(c.Images, func(i ImageChoice) bool { return i.Ref == s.Image }); i >= 0 {
		options["image"] = c.Images[i].Name
	}
	return options
}

func (c Catalogue) profile(option any) (Profile, error) {
	name, err := word("profile", option)
	if err != nil {
		return Profile{}, err
	}
	if name == "" {
		return c.unnamed()
	}
	if i := slices.IndexFunc(c.Profiles, func(p Profile) bool { return p.Name == name }); i >= 0 {
		return c.Profiles[i], nil
	}
	if i := slices.IndexFunc(c.closed, func(p closed) bool { return p.Name == name }); i >= 0 {
		return Profile{}, c.notFor(c.closed[i])
	}
	return Profile{}, errs.Bad("profile", errs.Shorten(name), "one of "+strings.Join(c.Names(), ", "))
}

// unnamed returns the profile of who names none.
func (c Catalogue) unnamed() (Profile, error) {
	p, ok := c.Default()
	switch {
	case ok:
		return p, nil
	case c.doubt != nil:
		return Profile{}, c.notFor(*c.doubt)
	case len(c.closed) > 0:
		return Profile{}, errs.New(errs.Forbidden, "no profile is open to you").With("ask your administrator for one")
	default:
		return Profile{}, errs.New(errs.Missing, "this service offers no profile").
			With("the administrator adds one under profiles in the configuration")
	}
}

func (c Catalogue) imageOf(p Profile, option any) (ImageChoice, error) {
	name, err := word("image", option)
	if err != nil {
		return ImageChoice{}, err
	}
	if name == "" && len(p.Images) > 0 {
		name = p.Images[0]
	}
	image, ok := c.Image(name)
	if !ok || !slices.Contains(p.Images, name) {
		return ImageChoice{}, errs.Bad(
			"image", errs.Shorten(name), fmt.Sprintf("profile %s offers %s", p.Name, strings.Join(p.Images, ", ")),
		)
	}
	return image, nil
}

// word reads an option that names something.
func word(field string, option any) (string, error) {
	switch v := option.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	default:
		return "", errs.Bad(field, errs.Shorten(fmt.Sprint(v)), "a name")
	}
}

// leastCPUs is the least that a workload may have: Docker counts in billionths and refuses less.
const leastCPUs = 0.01

// cpusWithin reads a number of CPUs; otherwise is what an absent one means.
func cpusWithin(whose string, option any, otherwise, most float64) (float64, error) {
	const field = "cpus"
	remedy := fmt.Sprintf("a number above 0, at most %g", most)
	var cpus float64
	switch v := option.(type) {
	case nil:
		return otherwise, nil
	case float64:
		cpus = v
	case string:
		if strings.TrimSpace(v) == "" {
			return otherwise, nil
		}
		f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		if err != nil {
			return 0, errs.Bad(field, errs.Shorten(v), remedy)
		}
		cpus = f
	default:
		return 0, errs.Bad(field, errs.Shorten(fmt.Sprint(v)), remedy)
	}
	switch {
	case cpus > most && !math.IsInf(cpus, 0):
		return 0, errs.Over(field, fmt.Sprintf("%g", cpus), fmt.Sprintf("%g", most), whose)
	case !(cpus > 0 && cpus <= most): // not a number is neither
		return 0, errs.Bad(field, fmt.Sprintf("%g", cpus), remedy)
	case cpus < leastCPUs:
		return 0, errs.Under(field, fmt.Sprintf("%g", cpus), fmt.Sprint(leastCPUs), whose)
	}
	return cpus, nil
}

// memoryWithin reads an amount of memory; otherwise is what an absent one means.
func memoryWithin(whose string, option any, otherwise, most int64) (int64, error) {
	const field = "memory"
	var memory int64
	var err error
	switch v := option.(type) {
	case nil:
		return otherwise, nil
	case float64:
		memory, err = units.MemoryFromFloat(v)
	case string:
		if strings.TrimSpace(v) == "" {
			return otherwise, nil
		}
		memory, err = units.ParseMemory(v)
	default:
		err = fmt.Errorf("a size cannot be a %T", v)
	}
	switch {
	case err != nil:
		return 0, errs.Bad(
			field, errs.Shorten(fmt.Sprint(option)),
			fmt.Sprintf("%s, from %s to %s", units.MemoryHint, units.MemoryWords(minMemory), units.MemoryWords(most)),
		)
	case memory > most:
		return 0, errs.Over(field, units.MemoryWords(memory), units.MemoryWords(most), whose)
	case memory < minMemory:
		return 0, errs.Under(field, units.MemoryWords(memory), units.MemoryWords(minMemory), whose)
	}
	return memory, nil
}
