package publish

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"slipway/internal/gpu"
)

// ClassAd writes inv as condor_gpu_discovery does, so that a startd can be fed with it.
func ClassAd(inv gpu.Inventory, o Options) string {
	us := units(inv, o.All)
	tag, names := cmp.Or(o.Tag, "GPUs"), make([]string, len(us))
	ads := map[string]attributes{}
	for i, u := range us {
		names[i] = u.id()
		ads[names[i]] = u.attributes(o)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Detected%s=%s\n", tag, list(names, o.Config))
	if o.Config {
		fmt.Fprintf(&b, "NUM_DETECTED_%s=%d\n", tag, len(us))
	}
	if o.Names || len(us) == 0 {
		return b.String()
	}
	common := attributes{}
	if !o.Mixed {
		common = shared(ads)
	}
	for _, u := range us { // what moves is never common
		if o.Dynamic {
			u.dynamic(ads[u.id()])
		}
	}
	write(&b, ads, common, o)
	return b.String()
}

func list(names []string, config bool) string {
	switch text := strings.Join(names, ", "); {
	case len(names) == 0:
		return "0"
	case config:
		return text
	default:
		return `"` + text + `"`
	}
}

// shared returns the attributes that all ads have alike.
func shared(ads map[string]attributes) attributes {
	var common attributes
	for _, a := range ads {
		if common == nil {
			common = maps.Clone(a)
		}
		maps.DeleteFunc(common, func(name, value string) bool { other, has := a[name]; return !has || other != value })
	}
	return common
}

func write(b *strings.Builder, ads map[string]attributes, common attributes, o Options) {
	if o.Flat {
		common.lines(b, cmp.Or(o.Prefix, "CUDA"), nil)
	} else if len(common) > 0 {
		fmt.Fprintf(b, "Common=[ %s]\n", common.inside(nil))
	}
	for _, id := range slices.Sorted(maps.Keys(ads)) {
		name := strings.NewReplacer("-", "_", "/", "_").Replace(id)
		if o.Flat {
			ads[id].lines(b, name, common)
		} else {
			fmt.Fprintf(b, "%s=[ id=%q; %s]\n", name, id, ads[id].inside(common))
		}
	}
}

// inside writes attributes as a nested ad has them, without those that are common.
func (a attributes) inside(common attributes) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if _, has := common[name]; !has {
			fmt.Fprintf(&b, "%s=%s; ", name, a[name])
		}
	}
	return b.String()
}

// lines writes attributes one a line.
func (a attributes) lines(b *strings.Builder, prefix string, common attributes) {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if _, has := common[name]; !has {
			fmt.Fprintf(b, "%s%s=%s\n", prefix, name, a[name])
		}
	}
}
