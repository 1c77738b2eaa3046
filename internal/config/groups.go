package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// HubGroups says what the groups of the Hubs are good for here. Such a group is called hub:group.
type HubGroups struct {
	Enabled      bool                `yaml:"enabled"`       // the Hubs are asked for their groups
	PollInterval Duration            `yaml:"poll_interval"` // a Hub is asked
	MaxAge       Duration            `yaml:"max_age"`       // how long a membership holds that the Hub has not confirmed
	Join         map[string][]string `yaml:"join"`          // groups made of Hubs' groups
}

func defaultHubGroups() HubGroups {
	return HubGroups{Enabled: true, PollInterval: Duration(time.Minute), MaxAge: Duration(10 * time.Minute)}
}

// someGroup is what the name of a group must be wherever one is named.
const someGroup = "one of groups or of hub_groups.join, or hub:group of a hub above that has a token_file"

// checkGroups keeps the names of groups apart: a colon is in those of Hubs' groups and in no other.
func (c Config) checkGroups(p *problems) {
	g := c.HubGroups
	if g.Enabled && (g.PollInterval < Duration(10*time.Second) || g.MaxAge < 2*g.PollInterval) {
		said := fmt.Sprintf("poll_interval %s, max_age %s", time.Duration(g.PollInterval), time.Duration(g.MaxAge))
		p.add("hub_groups", said, "poll_interval 10s or more, max_age at least twice as long")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Groups)) {
		checkGroup("groups", name, p)
	}
	for _, name := range slices.Sorted(maps.Keys(g.Join)) {
		checkGroup("hub_groups.join", name, p)
		for _, of := range g.Join[name] {
			if !c.isHubGroup(of) {
				p.add(
					"hub_groups.join."+name, of, "hub:group, of a hub above that has a token_file, with enabled: true",
				)
			}
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
	_, own := c.Groups[name]
	return own || c.HubGroups.Join[name] != nil || c.isHubGroup(name)
}

// isHubGroup says whether a name can be one of a group of a Hub that is asked for them.
func (c Config) isHubGroup(name string) bool {
	hub, group, ok := strings.Cut(name, ":")
	asked := func(h Hub) bool { return h.Name == hub && h.TokenFile != "" }
	return ok && group != "" && c.HubGroups.Enabled && slices.ContainsFunc(c.Hubs, asked)
}
