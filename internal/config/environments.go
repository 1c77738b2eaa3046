package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Environments says what a freeze leaves out, and what is kept of what it makes.
type Environments struct {
	Strip     []string            `yaml:"strip"`
	Site      string              `yaml:"site"`      // this site's name in what it signs
	Keys      string              `yaml:"keys"`      // directory of the keys that sign; empty: data_dir/keys
	Quota     Bound               `yaml:"quota"`     // of each user
	Quotas    Quotas              `yaml:"quotas"`    // of some
	MaxFiles  int64               `yaml:"max_files"` // that one freeze may find changed
	Keep      Duration            `yaml:"keep"`      // environments without a name, after their last use, unless they are shared; 0: for ever
	Groups    map[string][]string `yaml:"groups"`    // users who may share environments with their group
	HubGroups HubGroups           `yaml:"hub_groups"`
	Registry  string              `yaml:"registry"` // where other hosts find the service's registry: http(s)://host; empty: at listen
	Stores    []EnvironmentStore  `yaml:"stores"`   // with a copy of each
	Exports   []EnvironmentExport `yaml:"exports"`  // that others publish
}

// Quotas are bounds of their own.
type Quotas struct {
	Users  map[string]Bound `yaml:"users"`  // instead of the one that holds for each
	Groups map[string]Bound `yaml:"groups"` // of what all members have together
}

// HubGroups says what the groups of the Hubs are good for here. Such a group is called hub:group.
type HubGroups struct {
	Use   bool                `yaml:"use"`
	Every Duration            `yaml:"every"` // a Hub is asked
	Fresh Duration            `yaml:"fresh"` // how long a membership holds that the Hub has not confirmed
	Join  map[string][]string `yaml:"join"`  // groups made of Hubs' groups
}

func defaultEnvironments() Environments {
	return Environments{MaxFiles: 5_000_000, Keep: Duration(30 * 24 * time.Hour), HubGroups: HubGroups{Use: true, Every: Duration(time.Minute), Fresh: Duration(10 * time.Minute)}}
}

// checkEnvironments keeps the names of groups apart: a colon is in those of Hubs' groups and in no other.
func (c Config) checkEnvironments(p *problems) {
	e := c.Environments
	if e.MaxFiles < 1 {
		p.add("environments.max_files", e.MaxFiles, "1 or more, such as 5000000")
	}
	if e.Keep < 0 || e.Keep > 0 && e.Keep < Duration(leastKeep) {
		p.add("environments.keep", time.Duration(e.Keep), fmt.Sprintf("0 for ever, or %s or more, such as 720h", leastKeep))
	}
	if g := e.HubGroups; g.Use && (g.Every < Duration(10*time.Second) || g.Fresh < 2*g.Every) {
		p.add("environments.hub_groups", fmt.Sprintf("every %s, fresh %s", time.Duration(g.Every), time.Duration(g.Fresh)),
			"every 10s or more, fresh at least twice as long")
	}
	for _, name := range slices.Sorted(maps.Keys(e.Groups)) {
		checkGroup("environments.groups", name, p)
	}
	for _, name := range slices.Sorted(maps.Keys(e.HubGroups.Join)) {
		checkGroup("environments.hub_groups.join", name, p)
		for _, g := range e.HubGroups.Join[name] {
			if !c.isHubGroup(g) {
				p.add("environments.hub_groups.join."+name, g, "hub:group, of a hub above that has a token_file, with use: true")
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Quotas.Groups)) {
		if !c.isGroup(name) {
			p.add("environments.quotas.groups", name, "a group of environments.groups or hub_groups.join, or hub:group of a hub above that has a token_file")
		}
	}
}

func checkGroup(field, name string, p *problems) {
	if name == "" || strings.Contains(name, ":") {
		p.add(field, name, "a group's name without ':'; those with it are the Hubs'")
	}
}

// isGroup says whether users can be in a group of this name.
func (c Config) isGroup(name string) bool {
	_, own := c.Environments.Groups[name]
	return own || c.Environments.HubGroups.Join[name] != nil || c.isHubGroup(name)
}

// isHubGroup says whether a name can be one of a group of a Hub that is asked for them.
func (c Config) isHubGroup(name string) bool {
	hub, group, ok := strings.Cut(name, ":")
	return ok && group != "" && c.Environments.HubGroups.Use && slices.ContainsFunc(c.Hubs, func(h Hub) bool { return h.Name == hub && h.TokenFile != "" })
}
