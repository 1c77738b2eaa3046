package webui

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/internal/units"
	"slipway/spawner/catalog"
)

// originsShown bounds the list of environments in the spawn form.
const originsShown = 200

// origins are what the spawn form offers to start from beside images.
type origins struct {
	Mine, Shared []origin
	More         int // older ones, which are not in the list
	Stranded     int // of images that the site offers no more
}

// Any reports whether there is something to choose.
func (o origins) Any() bool { return len(o.Mine)+len(o.Shared) > 0 }

// Long reports whether the list is so long that people search in it.
func (o origins) Long() bool { return len(o.Mine)+len(o.Shared) > 8 }

// origin is one environment to start from.
type origin struct {
	Digest, Title string
	Base          string // the title of the image that it stands on
	Note          string
	Images        string // the names of the images that it can be started with, in JSON
	Chosen        bool
}

// origins returns what can be started, and notes which one was chosen last: one that the profile and the image chosen
// with it still allow. An environment is there once for each name that leads to it; under one that does not any more,
// only where it has no other.
func (f Form) origins(chosen choice) (all origins) {
	wish, picked := word(f.Chosen["environment"]), false
	for _, e := range f.Environments {
		if e.Moved && slices.ContainsFunc(f.Environments, func(o hubapi.Environment) bool { return o.Digest == e.Digest && !o.Moved && o.Mine == e.Mine }) {
			continue
		}
		names := f.standsOn(e.Base)
		wanted := !picked && wish != "" && e.Digest == wish && f.allows(chosen, names)
		switch {
		case len(names) == 0:
			all.Stranded++
			continue
		case len(all.Mine)+len(all.Shared) >= originsShown && !wanted:
			all.More++
			continue
		}
		picked = picked || wanted
		list, _ := json.Marshal(names) // strings always have a JSON form
		o := origin{
			Digest: e.Digest, Title: originTitle(e), Base: ImageTitle(f.Catalogue, e.Base), Note: e.Note,
			Images: string(list), Chosen: wanted,
		}
		if e.Mine {
			all.Mine = append(all.Mine, o)
		} else {
			all.Shared = append(all.Shared, o)
		}
	}
	return all
}

// offers reports whether a profile has an image.
func (f Form) offers(image string) bool {
	return slices.ContainsFunc(
		f.Catalogue.Profiles, func(p catalog.Profile) bool { return slices.Contains(p.Images, image) },
	)
}

// standsOn returns the names of the images that the engine knows as base and that a profile offers.
func (f Form) standsOn(base string) (names []string) {
	for _, i := range f.Catalogue.Images {
		if i.Ref == base && f.offers(i.Name) {
			names = append(names, i.Name)
		}
	}
	return names
}

// allows reports whether one of the images is the chosen one, or one of the chosen profile's.
func (f Form) allows(c choice, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return (c.Image == "" || c.Image == name) && offered(f.Catalogue, c.Profile, "image", name)
	})
}

// lostEnvironment says that the environment of the last choice cannot be had again; empty: it can, or there was none.
func (f Form) lostEnvironment(all origins) string {
	wish := word(f.Chosen["environment"])
	chosen := func(o origin) bool { return o.Chosen }
	if wish == "" || slices.ContainsFunc(all.Mine, chosen) || slices.ContainsFunc(all.Shared, chosen) {
		return ""
	}
	if name := f.nameOf(wish); slices.ContainsFunc(f.Environments, func(e hubapi.Environment) bool { return e.Digest == wish }) {
		return fmt.Sprintf(
			"Your last choice, to start from environment %s, does not go with the profile and image chosen here.", name,
		)
	}
	return fmt.Sprintf("Your last choice, to start from environment %s, is not offered any more: it was removed, or is not shared with you now.", f.nameOf(wish))
}

// nameOf names an environment by its digest as people know it; empty for none.
func (f Form) nameOf(digest string) string {
	for _, e := range f.Environments {
		if e.Digest == digest {
			return EnvironmentName(e)
		}
	}
	return ShortDigest(digest)
}

// EnvironmentName is how people call an environment: by its owner if that is another, its name and tag; without a name
// by its digest.
func EnvironmentName(e hubapi.Environment) string {
	name := e.Name
	if name == "" {
		name = ShortDigest(e.Digest)
	}
	if e.Tag != "" {
		name += ":" + e.Tag
	}
	if !e.Mine && e.Owner != "" {
		name = e.Owner + "/" + name
	}
	return name
}

// ShortDigest is of a digest what people compare; what is none is only shortened.
func ShortDigest(digest string) string {
	if hex, ok := strings.CutPrefix(digest, "sha256:"); ok {
		return hex[:min(12, len(hex))]
	}
	return shorten(digest)
}

// originTitle says in a line what an environment is.
func originTitle(e hubapi.Environment) string {
	words := []string{EnvironmentName(e)}
	if e.Moved {
		words[0] = ShortDigest(e.Digest) + " (was " + words[0] + ")"
	}
	if e.Python != "" {
		words = append(words, "Python "+e.Python)
	}
	if e.Known {
		words = append(words, counted(e.Packages, "package"))
	}
	if e.Size > 0 {
		words = append(words, units.DiskWords(e.Size))
	}
	if !e.Created.IsZero() {
		words = append(words, ago(e.Created))
	}
	return strings.Join(words, " · ")
}

// ago says how long something is past.
func ago(t time.Time) string {
	if d := time.Since(t); d >= time.Minute {
		return span(d) + " ago"
	}
	return "now"
}

// counted says how many there are of something; n is any kind of whole number.
func counted(n any, what string) string {
	if said := fmt.Sprint(n); said != "1" {
		return said + " " + what + "s"
	}
	return "1 " + what
}
