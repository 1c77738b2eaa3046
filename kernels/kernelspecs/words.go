package kernelspecs

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/internal/config"
	"slipway/internal/gpu"
	"slipway/internal/units"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// mostKernelName is how long a kernelspec's name may be.
const mostKernelName = 100

// nameOfOwn returns the name of the kernelspec of an environment: entry.name.tag, which stays the same as long as the
// tag is there. Where two might be called so, or it is too long, some digits tell them apart.
func nameOfOwn(entry string, e Environment) string {
	name := entry + "." + e.Name + "." + e.Tag
	// Jupyter takes capitals for small letters
	plain := !strings.Contains(e.Name, ".") && e.Name+e.Tag == strings.ToLower(e.Name+e.Tag)
	if plain && len(name) <= mostKernelName {
		return name
	}
	sum := fmt.Sprintf("-%x", sha256.Sum256([]byte(e.Name+":"+e.Tag)))[:9]
	return name[:min(len(name), mostKernelName-len(sum))] + sum
}

// available says how soon a kernel would start, in the words of the spawn form.
func (m *Catalog) available(g guest, p catalog.Profile, spec spawner.Spec, refused error) hubapi.KernelRoom {
	switch {
	case refused != nil:
		return hubapi.KernelRoom{State: hubapi.RoomRefused, Words: refused.Error(), Wait: -1}
	case g.full != "":
		return hubapi.KernelRoom{State: hubapi.RoomLimit, Words: g.full, Wait: -1}
	}
	key := roomKey{p.Backend, spec.Resources, m.Engine.InGroup(spec.GPU, g.Hub, g.User)}
	room := m.rooms.get(key, func() spawner.Room { return m.Engine.Room(key.backend, key.r, key.g) })
	out := hubapi.KernelRoom{State: hubapi.RoomFree, Words: m.Words(m.Site, p, room)}
	switch {
	case room.Most == 0:
		out.State, out.Wait = hubapi.RoomRefused, -1
	case room.Full():
		out.State, out.Wait = hubapi.RoomWaits, -1
		if room.Estimate >= 0 {
			out.Wait = int64(room.Estimate / time.Second)
		}
	case config.BatchSystem(p.Backend) != "":
		out.State, out.Wait = hubapi.RoomQueued, -1
	}
	return out
}

// roomWord is what a display name has of it: rough, for launchers draw themselves anew when it changes.
func roomWord(r hubapi.KernelRoom) string {
	switch {
	case r.State == hubapi.RoomFree:
		return "free now"
	case r.State == hubapi.RoomQueued:
		return "in the pool's queue"
	case r.State == hubapi.RoomLimit:
		return "at your limit"
	case r.State == hubapi.RoomRefused:
		return "not for you now"
	case r.Wait >= 0:
		return "waits ~" + roughly(time.Duration(r.Wait)*time.Second)
	}
	return "waits"
}

// roughly says a time in steps that do not change with every look.
func roughly(d time.Duration) string {
	minutes := int((d + time.Minute - 1) / time.Minute)
	switch {
	case minutes <= 5:
		return fmt.Sprintf("%d min", max(1, minutes))
	case minutes < 90:
		return fmt.Sprintf("%d min", (minutes+4)/5*5)
	}
	return fmt.Sprintf("%d h", (minutes+30)/60)
}

// words returns what stands for each of config.KernelWords.
func (m *Catalog) words(p catalog.Profile, v variant, spec spawner.Spec, o offer) map[string]string {
	image := spec.Image
	for _, i := range m.Site.Images {
		if i.Ref == spec.Image {
			image = cmp.Or(i.Title, i.Name)
		}
	}
	stack := ""
	if v.stack != nil {
		stack = v.stack.Title
	}
	return map[string]string{
		"language": languageWord(o.Language), "profile": cmp.Or(p.Title, p.Name), "image": image,
		"gpu":  sliceWord(spec.GPU),
		"cpus": fmt.Sprint(spec.Resources.CPUs), "memory": units.MemoryWords(spec.Resources.Memory),
		"environment": v.label, "stack": stack,
		"backend": backendWord(p.Backend), "available": roomWord(o.wire.Available),
	}
}

// displayName is what launchers show: as the site says, or what sets the kernelspec apart.
func displayName(k config.KernelSpec, wire hubapi.KernelSpec, words map[string]string) string {
	if k.DisplayName != "" {
		return config.KernelWord.ReplaceAllStringFunc(
			k.DisplayName, func(word string) string { return words[strings.Trim(word, "{}")] },
		)
	}
	var apart []string
	if wire.Environment != "" {
		apart = append(apart, wire.Environment)
	}
	if wire.GPU != "none" {
		apart = append(apart, words["gpu"])
	}
	if wire.Backend != "" {
		apart = append(apart, words["backend"])
	}
	name := cmp.Or(words["stack"], words["language"])
	if len(apart) == 0 && words["stack"] == "" {
		apart = []string{words["profile"]}
	}
	if len(apart) > 0 {
		name += " (" + strings.Join(apart, ", ") + ")"
	}
	return name
}

// languageWord calls a language as people do.
func languageWord(language string) string {
	if language == "" {
		return "Kernel"
	}
	return strings.ToUpper(language[:1]) + language[1:]
}

// backendWord says where kernels of a backend run.
func backendWord(backend string) string {
	return cmp.Or(config.BatchSystem(backend), "this host")
}

// sliceWord says a slice as people do.
func sliceWord(r gpu.Request) string {
	word := "GPU " + r.String()
	switch r.Mode {
	case "":
		return "no GPU"
	case gpu.Whole:
		word = "whole " + cmp.Or(r.Model, "GPU")
	case gpu.Any:
		word = "any GPU"
	case gpu.MPS:
		word = "MPS " + units.MemoryWords(r.Memory)
	case gpu.Shared:
		word = "shared GPU"
	}
	return word
}

// metadataOf is what clients are told of a kernelspec beside what Jupyter knows.
func metadataOf(wire hubapi.KernelSpec) map[string]any {
	all := map[string]any{slipwayKey: wire}
	if wire.Language == pythonLanguage {
		all[debuggerKey] = true
	}
	return all
}
