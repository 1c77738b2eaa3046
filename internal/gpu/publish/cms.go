package publish

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"slipway/internal/gpu"
)

// CMS writes what a CMS pilot advertises of the GPUs that ClassAd publishes, one attribute a line. The machine has one
// ad for all of them, so that it promises the least that any of them has; a name that is not common to all is left out.
func CMS(inv gpu.Inventory, o Options) string {
	us := units(inv, o.All)
	if len(us) == 0 {
		return ""
	}
	ads := map[string]attributes{}
	for _, u := range us {
		ads[u.id()] = u.basic()
	}
	out, common := attributes{}, shared(ads)
	for cms, name := range map[string]string{
		"CUDADeviceName": "DeviceName", "CUDADriverVersion": "DriverVersion",
		"CUDAMaxSupportedVersion": "MaxSupportedVersion",
	} {
		if value, has := common[name]; has {
			out[cms] = value
		}
	}
	if least := least(ads, "Capability"); least != "" {
		out["CUDACapability"] = least
	}
	out["CUDAGlobalMemoryMB"] = least(ads, "GlobalMemoryMb")
	out.text("CMS_CUDA_SUPPORTED_RUNTIMES", strings.Join(Runtimes(inv.System.CUDA), ","))
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(out)) {
		fmt.Fprintf(&b, "%s=%s\n", name, out[name])
	}
	return b.String()
}

// least returns the smallest of a number that the ads have.
func least(ads map[string]attributes, name string) string {
	number := func(s string) float64 { n, _ := strconv.ParseFloat(s, 64); return n }
	var all []string
	for _, a := range ads {
		if value, has := a[name]; has {
			all = append(all, value)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return slices.MinFunc(all, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
}

// released are the minor versions of CUDA's runtime by major one, those that analyses may still be built with.
func released() map[int][]int {
	return map[int][]int{
		10: {0, 1, 2}, 11: {0, 1, 2, 3, 4, 5, 6, 7, 8}, 12: {0, 1, 2, 3, 4, 5, 6, 8, 9}, 13: {0, 1, 2, 3, 4},
	}
}

// Runtimes returns the versions of CUDA's runtime that a driver serves, which itself is of version cuda: 12040 is 12.4.
// They are all of the majors before its own, and of its own all minors: from 11 on these are compatible with one
// another.
func Runtimes(cuda int) []string {
	major, minor := cuda/1000, cuda%1000/10
	var all []string
	for m, minors := range released() {
		if m == major {
			minors = append(minors, minor)
		}
		for _, n := range minors {
			if m < major || m == major && (m >= 11 || n <= minor) {
				all = append(all, fmt.Sprintf("%d.%d", m, n))
			}
		}
	}
	if _, known := released()[major]; !known && major >= 11 {
		for n := range minor + 1 {
			all = append(all, fmt.Sprintf("%d.%d", major, n))
		}
	}
	slices.SortFunc(all, compareVersions)
	return slices.Compact(all)
}

func compareVersions(a, b string) int {
	am, an, _ := strings.Cut(a, ".")
	bm, bn, _ := strings.Cut(b, ".")
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	return cmp.Or(cmp.Compare(number(am), number(bm)), cmp.Compare(number(an), number(bn)))
}
