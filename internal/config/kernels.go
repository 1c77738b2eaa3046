package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Kernels are the Jupyter kernels that users may start beside their servers.
type Kernels struct {
	PerUser int          `yaml:"per_user"` // most that a user may have at once; 0: any number
	Specs   []KernelSpec `yaml:"specs"`    // the first is the default; none: there is no gateway
}

// KernelSpec is one kind of kernel.
type KernelSpec struct {
	Name        string   `yaml:"name"`
	DisplayName string   `yaml:"display_name"`
	Language    string   `yaml:"language"`
	Profile     string   `yaml:"profile"` // whose resources, slice, users and groups it has
	Image       string   `yaml:"image"`   // of the profile's; empty: its first
	Argv        []string `yaml:"argv"`
	Interrupt   string   `yaml:"interrupt_mode"`
	IdleLimit   Duration `yaml:"idle_limit"`
}

// ConnectionFile stands in a kernel's argv where the path of its connection file is to be.
const ConnectionFile = "{connection_file}"

// UnmarshalYAML reads a kernelspec over the defaults of its keys.
func (k *KernelSpec) UnmarshalYAML(read func(any) error) error {
	type plain KernelSpec
	v := plain{
		Language: "python", Argv: []string{"python3", "-m", "ipykernel_launcher", "-f", ConnectionFile}, Interrupt: "signal", IdleLimit: Duration(time.Hour),
	}
	if err := read(&v); err != nil {
		return err
	}
	*k = KernelSpec(v)
	return nil
}

func defaultKernels() Kernels { return Kernels{PerUser: 4, Specs: []KernelSpec{}} }

var kernelName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$`)

func (c Config) checkKernels(p *problems) {
	if c.Kernels.PerUser < 0 {
		p.add("kernels.per_user", c.Kernels.PerUser, "0 for any number, or more")
	}
	seen := map[string]bool{}
	for i, k := range c.Kernels.Specs {
		at := fmt.Sprintf("kernels.specs[%d].", i)
		if !kernelName.MatchString(k.Name) || seen[k.Name] {
			p.add(at+"name", k.Name, "a name that no other has, of letters, digits, dots, hyphens and underscores")
		}
		seen[k.Name] = true
		if k.DisplayName == "" {
			p.add(at+"display_name", "", `what launchers show, such as "Python (GPU)"`)
		}
		if !slices.ContainsFunc(k.Argv, func(a string) bool { return strings.Contains(a, ConnectionFile) }) {
			p.add(at+"argv", k.Argv, "a command with "+ConnectionFile+" in it")
		}
		if k.Interrupt != "signal" && k.Interrupt != "message" {
			p.add(at+"interrupt_mode", k.Interrupt, "signal or message")
		}
		if k.IdleLimit < 0 || k.IdleLimit > 0 && k.IdleLimit < Duration(leastIdle) {
			p.add(at+"idle_limit", time.Duration(k.IdleLimit), fmt.Sprintf("0 for never, or at least %s, since activity is looked at once a minute", leastIdle))
		}
		c.checkKernelProfile(at, k, p)
	}
}

// checkKernelProfile looks whether what a kernel is made of is there.
func (c Config) checkKernelProfile(at string, k KernelSpec, p *problems) {
	i := slices.IndexFunc(c.Profiles, func(f Profile) bool { return f.Name == k.Profile })
	if i < 0 {
		p.add(at+"profile", k.Profile, "the name of one of profiles")
		return
	}
	if k.Image != "" && !slices.Contains(c.Profiles[i].Images, k.Image) {
		p.add(at+"image", k.Image, "one of the images of profile "+k.Profile+", or nothing for its first")
	}
}
