package config

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Environments says what a freeze leaves out, and what is kept of what it makes.
type Environments struct {
	Strip     []string            `yaml:"strip"`
	Site      string              `yaml:"site"`      // this site's name in what it signs
	KeysDir   string              `yaml:"keys_dir"`  // directory of the keys that sign; empty: data_dir/keys
	Quota     Bound               `yaml:"quota"`     // of each user
	Quotas    Quotas              `yaml:"quotas"`    // of some
	Retention Duration            `yaml:"retention"` // environments without a name, after their last use, unless they are shared; 0: for ever
	Stores    []EnvironmentStore  `yaml:"stores"`    // with a copy of each
	Exports   []EnvironmentExport `yaml:"exports"`   // that others publish
}

// Quotas are bounds of their own.
type Quotas struct {
	Users  map[string]Bound `yaml:"users"`  // instead of the one that holds for each
	Groups map[string]Bound `yaml:"groups"` // of what all members have together
}

func defaultEnvironments() Environments {
	return Environments{Retention: Duration(30 * 24 * time.Hour)}
}

// checkEnvironments looks at what is kept of environments, and for whom.
func (c Config) checkEnvironments(p *problems) {
	e := c.Environments
	if e.Retention < 0 || e.Retention > 0 && e.Retention < Duration(leastKeep) {
		p.add(
			"environments.retention", time.Duration(e.Retention),
			fmt.Sprintf("0 for ever, or %s or more, such as 720h", leastKeep),
		)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Quotas.Groups)) {
		if !c.isGroup(name) {
			p.add("environments.quotas.groups", name, someGroup)
		}
	}
}
