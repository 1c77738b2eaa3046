package config

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"slipway/internal/units"
)

// Kernels are the Jupyter kernels that users may start beside their servers.
type Kernels struct {
	MaxPerUser  int          `yaml:"max_per_user"`  // most that a user may have at once; 0: any number
	MaxWarmLoad float64      `yaml:"max_warm_load"` // this host's load per processor above which none is made to stand by; 0: any
	Tickets     bool         `yaml:"tickets"`       // the id of a new kernel lets one websocket in without a token, for a minute
	Specs       []KernelSpec `yaml:"specs"`         // the first is the default; none: there is no gateway
}

// KernelSpec is one kind of kernel, or several that differ in the software that they run alone.
type KernelSpec struct {
	Name        string   `yaml:"name"`         // of letters, digits, dots, hyphens and underscores
	DisplayName string   `yaml:"display_name"` // with words of KernelWords in it; empty: made of what there is to say
	Language    string   `yaml:"language"`     // that notebooks say of themselves
	Profile     string   `yaml:"profile"`      // whose resources, slice, users and groups it has
	Image       string   `yaml:"image"`        // of the profile's; empty: its first
	Argv        []string `yaml:"argv"`
	Interrupt   string   `yaml:"interrupt_mode" jsonschema:"enum=signal,enum=message"`
	IdleLimit   Duration `yaml:"idle_limit"`
	Connected   bool     `yaml:"keep_connected"` // it does not idle while a client is connected to it
	Logo        string   `yaml:"logo"`           // a file; empty: one of the service's own
	MaxWarm     int      `yaml:"max_warm"`       // how many may stand by to be somebody's next kernel

	GPU    string   `yaml:"gpu"`    // what slice, as gpu.ParseRequest reads it; empty: the profile's
	GPUs   []string `yaml:"gpus"`   // to what users may switch their next kernel beside
	CPUs   float64  `yaml:"cpus"`   // 0: the profile's
	Memory Size     `yaml:"memory"` // 0: the profile's

	// What runs in it, beside the image alone; one of them at most.
	Environment  string   `yaml:"environment"`  // name:tag, owner/name:tag or a digest
	Environments string   `yaml:"environments"` // EnvironmentsOwn: a kernelspec for each of the user's own
	Stack        string   `yaml:"stack"`        // one of data.stacks
	Stacks       []string `yaml:"stacks"`       // a kernelspec for each of these; AllStacks for all
}

// What Environments and Stacks may say.
const (
	EnvironmentsOwn = "own"
	AllStacks       = "*"
)

// ConnectionFile stands in a kernel's argv where the path of its connection file is to be.
const ConnectionFile = "{connection_file}"

// KernelWords are what a display name may have in braces.
func KernelWords() []string {
	return []string{
		"language", "profile", "image", "gpu", "cpus", "memory", "environment", "stack", "backend", "available",
	}
}

// KernelWord finds them.
var KernelWord = regexp.MustCompile(`\{([^{}]*)\}`)

func pythonKernel() []string {
	return []string{"python3", "-m", "ipykernel_launcher", "-f", ConnectionFile}
}

func (k *KernelSpec) setDefaults() {
	*k = KernelSpec{Language: "python", Argv: pythonKernel(), Interrupt: "signal", IdleLimit: Duration(time.Hour)}
}

func defaultKernels() Kernels {
	return Kernels{MaxPerUser: 4, MaxWarmLoad: 16, Tickets: true, Specs: []KernelSpec{}}
}

var kernelName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$`)

func (c Config) checkKernels(p *problems) {
	if c.Kernels.MaxWarmLoad < 0 {
		p.add("kernels.max_warm_load", c.Kernels.MaxWarmLoad, "0 for any load, or more")
	}
	if c.Kernels.MaxPerUser < 0 {
		p.add("kernels.max_per_user", c.Kernels.MaxPerUser, "0 for any number, or more")
	}
	for i, k := range c.Kernels.Specs {
		at := fmt.Sprintf("kernels.specs[%d].", i)
		c.checkKernelName(at, i, p)
		for _, word := range KernelWord.FindAllStringSubmatch(k.DisplayName, -1) {
			if !slices.Contains(KernelWords(), word[1]) {
				p.add(
					at+"display_name", word[0],
					"one of {"+strings.Join(KernelWords(), "}, {")+"}, or text without braces",
				)
			}
		}
		if strings.ContainsFunc(k.DisplayName, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			p.add(at+"display_name", k.DisplayName, "what launchers show, on one line")
		}
		if !slices.ContainsFunc(k.Argv, func(a string) bool { return strings.Contains(a, ConnectionFile) }) {
			p.add(at+"argv", k.Argv, "a command with "+ConnectionFile+" in it")
		}
		if k.Interrupt != "signal" && k.Interrupt != "message" {
			p.add(at+"interrupt_mode", k.Interrupt, "signal or message")
		}
		if k.IdleLimit < 0 || k.IdleLimit > 0 && k.IdleLimit < Duration(leastIdle) {
			p.add(
				at+"idle_limit", time.Duration(k.IdleLimit),
				fmt.Sprintf("0 for never, or at least %s, since activity is looked at once a minute", leastIdle),
			)
		}
		p.logo(at+"logo", k.Logo)
		c.checkKernelProfile(at, k, p)
		c.checkKernelSoftware(at, k, p)
	}
}

// checkKernelName looks whether kernelspecs can be told apart by their names: those of one that stands for several
// begin with its own. Jupyter takes capitals for small letters.
func (c Config) checkKernelName(at string, i int, p *problems) {
	k := c.Kernels.Specs[i]
	if !kernelName.MatchString(k.Name) {
		p.add(at+"name", k.Name, "a name of letters, digits, dots, hyphens and underscores")
	}
	for j, other := range c.Kernels.Specs {
		switch {
		case j < i && strings.EqualFold(other.Name, k.Name):
			p.add(at+"name", k.Name, "a name that no other has, also not with other capitals")
		case j != i && other.several() && strings.HasPrefix(strings.ToLower(k.Name), strings.ToLower(other.Name)+"."):
			p.add(
				at+"name", k.Name,
				"a name that does not begin with "+other.Name+". as all those of kernels.specs["+fmt.Sprint(j)+"] do",
			)
		}
	}
}

// several reports whether it stands for more kernelspecs than one.
func (k KernelSpec) several() bool { return k.Environments != "" || len(k.Stacks) > 0 }

// checkKernelProfile looks whether what a kernel is made of is there.
func (c Config) checkKernelProfile(at string, k KernelSpec, p *problems) {
	i := slices.IndexFunc(c.Profiles, func(f Profile) bool { return f.Name == k.Profile })
	if i < 0 {
		p.add(at+"profile", k.Profile, "the name of one of profiles")
		return
	}
	f := c.Profiles[i]
	if k.MaxWarm < 0 || k.MaxWarm > 0 && BatchSystem(f.Backend) != "" {
		p.add(at+"max_warm", k.MaxWarm, "0, or more where the profile's sessions run on this host")
	}
	if each := cmp.Or(k.CPUs, f.CPUs); k.MaxWarm > 0 && c.Docker.MaxTotalCPUs > 0 &&
		float64(k.MaxWarm)*each > c.Docker.MaxTotalCPUs {
		p.add(at+"max_warm", k.MaxWarm, fmt.Sprintf(
			"at most %d: each takes %g of the %g processors of docker.max_total_cpus", int(c.Docker.MaxTotalCPUs/each),
			each, c.Docker.MaxTotalCPUs,
		))
	}
	if k.Image != "" && !slices.Contains(f.Images, k.Image) {
		p.add(at+"image", k.Image, "one of the images of profile "+k.Profile+", or nothing for its first")
	}
	if most := max(f.CPUs, f.MaxCPUs); k.CPUs < 0 || k.CPUs > most {
		p.add(at+"cpus", k.CPUs, fmt.Sprintf("at most the %g of profile %s, or 0 for what it gives", most, k.Profile))
	}
	if most := max(f.Memory, f.MaxMemory); k.Memory < 0 || k.Memory > most {
		p.add(at+"memory", units.FormatMemory(int64(k.Memory)), fmt.Sprintf(
			"at most the %s of profile %s, or nothing for what it gives", units.MemoryWords(int64(most)), k.Profile,
		))
	}
	for _, slice := range append([]string{k.GPU}, k.GPUs...) {
		c.checkRequest(p, at, slice, f.GPUIsolation, BatchSystem(f.Backend) != "")
	}
}

// checkKernelSoftware looks at what runs in it.
func (c Config) checkKernelSoftware(at string, k KernelSpec, p *problems) {
	said := 0
	for _, is := range []bool{k.Environment != "", k.Environments != "", k.Stack != "", len(k.Stacks) > 0} {
		if is {
			said++
		}
	}
	if said > 1 {
		p.add(
			at+"environment", k.Environment,
			"one of environment, environments, stack and stacks: a kernel runs one software",
		)
	}
	if k.Environments != "" && k.Environments != EnvironmentsOwn {
		p.add(
			at+"environments", k.Environments,
			EnvironmentsOwn+", for a kernelspec for each environment of a user's own, or nothing",
		)
	}
	if k.Image != "" && (k.Environment != "" || k.Environments != "") {
		p.add(at+"image", k.Image, "nothing: an environment says what image it stands on")
	}
	c.checkKernelStacks(at, k, p)
	if (k.Stack != "" || len(k.Stacks) > 0) && !slices.Equal(k.Argv, pythonKernel()) {
		p.add(
			at+"argv", strings.Join(k.Argv, " "),
			"nothing: a stack's kernel is started by its script, with what data.stacks says",
		)
	}
}

// checkKernelStacks looks whether the stacks of its software are there.
func (c Config) checkKernelStacks(at string, k KernelSpec, p *problems) {
	known := func(name string) bool {
		return slices.ContainsFunc(c.Data.Stacks, func(s Stack) bool { return s.Name == name })
	}
	if k.Stack != "" && !known(k.Stack) {
		p.add(at+"stack", k.Stack, `the name of one of data.stacks, or in its place stacks: ["`+AllStacks+`"] for all of them`)
	}
	for _, name := range k.Stacks {
		switch {
		case name == AllStacks && len(c.Data.Stacks) == 0:
			p.add(at+"stacks", name, "left out: data.stacks has none")
		case name != AllStacks && !known(name):
			p.add(at+"stacks", name, `the name of one of data.stacks, or ["`+AllStacks+`"] for all of them`)
		}
	}
}

// logo adds what is wrong with a picture for launchers; empty: there is none.
func (p *problems) logo(field, file string) {
	if file == "" {
		return
	}
	ext := filepath.Ext(file)
	info, err := os.Stat(file)
	if ext != ".png" && ext != ".svg" || err != nil || !info.Mode().IsRegular() || info.Size() > LogoLimit {
		p.add(field, file, fmt.Sprintf("a file .png or .svg on this host of at most %d KiB", LogoLimit>>10))
	}
}
