package pool

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner/htcondor/classad"
)

// Line is one line of a submit description: a command or an attribute, with its value.
type Line struct{ Name, Value string }

// need is something that a workload wants of each of its GPUs.
type need struct {
	words string // such as "compute capability 8.0 or more"
	text  string // in the terms of a GPU's ad
	asks  string // how a person takes it back, such as "ask for less capability"

	attribute string // of the ad, that not all pools tell
}

// What tells a MIG instance and a part of a GPU apart from a whole one. Workers look at DeviceUuid and the like when
// they choose a GPU for a job, but not at Id: by that a job would be matched, and refused, for ever.
const (
	isMIG  = `substr(DeviceUuid, 0, 4) == "MIG-"`
	notMIG = `substr(DeviceUuid, 0, 4) != "MIG-"`
	// undivided fails for the parts that condor_gpu_discovery -divide makes. Those of -repeat say nothing of it.
	undivided = `DeviceMemoryMb =?= undefined && (SlipwayMode =?= undefined || SlipwayMode == "whole" || SlipwayMode == "mig")`
)

// CheckGPUs refuses what no pool can be asked for.
func CheckGPUs(r gpu.Request) error {
	switch {
	case r.Mode == gpu.Shared:
		return errs.New(errs.Invalid, "%s is asked for, and a pool cannot promise with whom a GPU is shared", r).
			With("ask for any, or for a MIG profile")
	case r.Mode == gpu.MIG && r.Needs.Count > 1:
		return errs.New(errs.Invalid, "%s is asked for, and a program can use one MIG instance only", r).
			With("ask for a larger profile, or for whole GPUs")
	}
	return nil
}

// GPULines are what a workload's request for GPUs is in a submit description. They are the attributes of HTCondor and,
// for matchmaking at other places, both those that CMS has now and those that it had before.
func GPULines(r gpu.Request) ([]Line, error) {
	if r.None() { // said in so many words: others' matchmaking takes what is not defined for neither
		return []Line{{"My.RequiresGPU", "0"}, {"request_gpus", "0"}}, nil
	}
	if err := CheckGPUs(r); err != nil {
		return nil, err
	}
	lines := []Line{{"My.RequiresGPU", "1"}, {"request_gpus", strconv.Itoa(r.GPUs())}}
	switch {
	case r.Needs.Optional:
		lines = []Line{{"My.RequiresGPU", "0"}, {"request_gpus", optionalCount(r)}}
	case r.Needs.CanUse: // as CMS writes a job that can use a GPU and requires none: pilots' matchmaking wants the number itself
		lines[0].Value = "0"
	}
	if text := requireGPUs(r); text != "" {
		lines = append(lines, Line{"require_gpus", text})
	}
	return append(lines, cmsLines(r.Needs)...), nil
}

// optionalCount asks for GPUs where there are such, and for none elsewhere. It is evaluated for each slot that the job
// might have.
func optionalCount(r gpu.Request) string {
	return fmt.Sprintf("ifThenElse(%s, %d, 0)", enoughGPUs(r), r.GPUs())
}

// enoughGPUs is true of slots that have what r asks for to give away now.
func enoughGPUs(r gpu.Request) string {
	free := "size(TARGET.AvailableGPUs)"
	if requireGPUs(r) != "" {
		free = "countMatches(MY.RequireGPUs, TARGET.AvailableGPUs)"
	}
	return fmt.Sprintf("(%s ?: 0) >= %d", free, r.GPUs())
}

// requireGPUs is what each GPU must fulfil; empty: any does.
func requireGPUs(r gpu.Request) string {
	var texts []string
	for _, n := range needsOf(r) {
		texts = append(texts, "("+n.text+")")
	}
	return strings.Join(texts, " && ")
}

// needsOf returns what r wants of each GPU.
func needsOf(r gpu.Request) []need {
	all := kindNeeds(r)
	if r.Model != "" {
		all = append(all, need{
			fmt.Sprintf("%q in its name", r.Model), named("(?i)" + literally(r.Model)), "leave the model out",
			"DeviceName",
		})
	}
	n := r.Needs
	if n.Capability != "" {
		all = append(all, need{
			"compute capability " + n.Capability + " or more", "Capability >= " + n.Capability,
			"ask for less capability", "Capability",
		})
	}
	if n.Newest != "" {
		all = append(all, need{
			"compute capability " + n.Newest + " or less", "Capability <= " + n.Newest, "allow newer GPUs",
			"Capability",
		})
	}
	if n.Memory > 0 {
		all = append(all, need{
			"memory of " + gigabytes(n.Memory) + " or more", fmt.Sprintf("GlobalMemoryMb >= %d", Mebibytes(n.Memory)),
			"ask for less memory of the GPU", "GlobalMemoryMb",
		})
	}
	if n.Runtime != "" {
		all = append(all, need{
			"a driver that serves CUDA " + n.Runtime, "MaxSupportedVersion >= " + runtimeNumber(n.Runtime),
			"use an older CUDA runtime", "MaxSupportedVersion",
		})
	}
	if n.Driver != "" {
		all = append(all, need{
			"driver " + n.Driver + " or newer", fmt.Sprintf("versionGE(NvidiaDriver, \"%s\")", n.Driver),
			"leave the driver out", "NvidiaDriver",
		})
	}
	return all
}

// kindNeeds are what r's mode and isolation are in the terms of a GPU's ad.
func kindNeeds(r gpu.Request) []need {
	switch {
	case r.Mode == gpu.Whole:
		return []need{
			{"not shared with anybody", notMIG + " && " + undivided, "ask for any GPU, also a part of one", ""},
		}
	case r.Mode == gpu.MIG:
		return []need{{
			"a MIG instance " + r.Profile, isMIG + " && " + profileText(r.Profile),
			"ask for another MIG profile, or for any GPU", "",
		}}
	case r.Mode == gpu.MPS:
		share := fmt.Sprintf(`SlipwayMode == "mps" && GlobalMemoryMb >= %d && GlobalMemoryMb * 100 >= DeviceMemoryMb * %d`, Mebibytes(r.Memory), r.Percent)
		return []need{{"a share by MPS of " + r.String(), share, "ask for any GPU", ""}}
	case r.Least != "" && r.Least != gpu.None:
		return []need{{"kept apart in hardware", undivided, "accept a GPU that is shared", ""}}
	}
	return nil
}

// What a MIG instance has of the memory that its name promises, in parts of that: from 0.87 to 0.99 on the GPUs that
// there are. The next smaller one has half.
const leastOfName, mostOfName = 0.85, 1.0

var profileForm = regexp.MustCompile(`^([1-9][0-9]?g)(?:\.([0-9]{1,4})gb)?([+-].*)?$`)

// profileText is a MIG profile in the terms of a GPU's ad. Its memory tells it, for the ads of older pools have no
// name; where the name tells the profile it must be that one. What the memory cannot tell, the name must.
func profileText(profile string) string {
	m := profileForm.FindStringSubmatch(profile)
	if m == nil {
		return "false"
	}
	exactly := named("MIG " + literally(profile) + "$")
	switch {
	case m[2] == "":
		return named("MIG " + m[1] + "[.]")
	case m[3] != "":
		return exactly
	}
	gb, _ := strconv.Atoi(m[2])
	mib := float64(gb) * 1024
	return fmt.Sprintf(`GlobalMemoryMb >= %.0f && GlobalMemoryMb <= %.0f && (regexp("MIG [0-9]+g", DeviceName ?: "") == false || %s)`,
		math.Floor(mib*leastOfName), mib*mostOfName, exactly)
}

// named asks for a GPU's name by a pattern without quotes and backslashes.
func named(pattern string) string { return fmt.Sprintf(`regexp("%s", DeviceName)`, pattern) }

// literally writes a text as a pattern. What would need a backslash, which the parsers of ads do not read alike, stands
// for any sign.
func literally(s string) string {
	var b strings.Builder
	for _, c := range s {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == ' ', c == '-':
			b.WriteRune(c)
		case strings.ContainsRune("._+()/", c):
			b.WriteString("[" + string(c) + "]")
		default:
			b.WriteByte('.')
		}
	}
	return b.String()
}

// cmsLines are what others' matchmaking looks at: HTCondor-CE at GPUsMinMemory and the like, which condor_submit makes
// of gpus_minimum_memory and which do not change a require_gpus that is there; CMS at its own of today, and at those
// that it had before. Those of today are numbers (WMCore from 2.4.4 on): a comparison of a slot's number with a text is
// an error in a ClassAd. The old ones are texts.
func cmsLines(n gpu.Needs) []Line {
	var lines []Line
	if n.Memory > 0 {
		mib := strconv.FormatInt(Mebibytes(n.Memory), 10)
		lines = append(
			lines, Line{"gpus_minimum_memory", mib}, Line{"My.DESIRED_GPUMemoryMB", mib}, Line{"My.GPUMemoryMB", mib},
		)
	}
	if n.Capability != "" {
		lines = append(
			lines, Line{"gpus_minimum_capability", n.Capability}, Line{"My.DESIRED_GPUMinimumCapability", n.Capability},
		)
	}
	if n.Newest != "" {
		lines = append(
			lines, Line{"gpus_maximum_capability", n.Newest}, Line{"My.DESIRED_GPUMaximumCapability", n.Newest},
		)
	}
	if all := capabilities(n.Capability, n.Newest); all != "" && (n.Capability != "" || n.Newest != "") {
		lines = append(lines, Line{"My.CUDACapability", `"` + all + `"`})
	}
	if n.Runtime != "" {
		lines = append(lines, Line{"gpus_minimum_runtime", n.Runtime}, Line{"My.DESIRED_GPURuntime", n.Runtime}, Line{"My.CUDARuntime", `"` + n.Runtime + `"`})
	}
	return lines
}

// capabilities lists the compute capabilities that there are from the least to the greatest, where these are not empty:
// CMS asked for one of a list.
func capabilities(least, greatest string) string {
	var all []string
	for _, c := range []string{"6.0", "6.1", "7.0", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1"} {
		if (least == "" || classad.CompareVersions(c, least) >= 0) && (greatest == "" ||
			classad.CompareVersions(c, greatest) <= 0) {
			all = append(all, c)
		}
	}
	return strings.Join(all, ",")
}

// runtimeNumber writes a version of CUDA as drivers tell it: 12.2 is 12020.
func runtimeNumber(version string) string {
	major, minor, _ := strings.Cut(version, ".")
	a, _ := strconv.Atoi(major)
	b, _ := strconv.Atoi(minor)
	return strconv.Itoa(a*1000 + b*10)
}

// Mebibytes returns bytes in MiB, rounded up: a requirement must not become less.
func Mebibytes(n int64) int64 { return (n + 1<<20 - 1) >> 20 }

// gigabytes says a size to people.
func gigabytes(n int64) string {
	return strings.TrimSuffix(strconv.FormatFloat(float64(n)/(1<<30), 'f', 1, 64), ".0") + " GB"
}
