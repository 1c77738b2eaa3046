package config

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"slipway/internal/homes"
)

// Home is the policy of homes.
type Home struct {
	Path         string   `yaml:"path"`          // a homes.Template; empty: below Users.Homes
	Create       bool     `yaml:"create"`        // one that is missing is made
	PollInterval Duration `yaml:"poll_interval"` // how often those of users with sessions are looked at
}

func defaultHome() Home {
	return Home{Create: true, PollInterval: Duration(5 * time.Minute)}
}

// Area is a shared area.
type Area struct {
	Name          string   `yaml:"name"`   // such as scratch
	Path          string   `yaml:"path"`   // a homes.Template
	Inside        string   `yaml:"inside"` // where workloads have it; empty: Path, which is no template then
	Write         bool     `yaml:"write"`
	Create        bool     `yaml:"create"`         // each user's is made when it is missing
	Mounted       bool     `yaml:"mounted"`        // it is not there where nothing is mounted
	Required      bool     `yaml:"required"`       // nothing starts without it
	AllowedUsers  []string `yaml:"allowed_users"`  // who has it; empty, and no groups: everybody
	AllowedGroups []string `yaml:"allowed_groups"` // likewise
}

// Where is where workloads have it.
func (a Area) Where() string {
	if a.Inside == "" {
		return a.Path
	}
	return a.Inside
}

// areaName is what an area may be called: a variable and a metric's label are made of it.
var areaName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

// taken are the directories in workloads that are not the site's to give: what lies at them, below them, and what they
// lie below.
var taken = []string{
	"/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/root", "/run", "/sbin", "/sys",
	"/tmp", "/usr", "/var", "/cvmfs", "/storage",
}

func (c Config) checkHomes(p *problems) {
	h := c.Users.Home
	if h.Path != "" {
		if t, err := homes.Parse("users.home.path", h.Path); err != nil {
			*p = append(*p, err)
		} else if !t.Personal() {
			p.add("users.home.path", h.Path, ofHers)
		} else {
			c.checkApart("users.home.path", h.Path, t, p)
		}
	}
	if h.PollInterval < Duration(time.Second) {
		p.add("users.home.poll_interval", time.Duration(h.PollInterval), "1s or more")
	}
}

// ofHers is what a path must be that is made for a user.
const ofHers = "a path that is each user's own: with {uid}, {name} or {login} in it"

// checkApart refuses one path for two people.
func (c Config) checkApart(at, path string, t homes.Template, p *problems) {
	if t.Personal() && !t.Apart() && c.realms() > 1 {
		p.add(
			at, path,
			"a path with {realm} or {uid} in it: the hubs above have users of several realms, who may have one name",
		)
	}
}

func (c Config) realms() int {
	names := map[string]bool{}
	for _, h := range c.Hubs {
		names[cmp.Or(h.Realm, SiteRealm)] = true
	}
	return len(names)
}

func (c Config) checkAreas(p *problems) {
	names, places := map[string]bool{}, map[string]string{}
	for i, a := range c.Data.Areas {
		at := fmt.Sprintf("data.areas[%d].", i)
		if !areaName.MatchString(a.Name) || names[a.Name] || a.Name == "home" {
			p.add(at+"name", a.Name, "a name of its own such as scratch: at most 32 lower-case letters, digits and _, a letter first, and not home")
		}
		names[a.Name] = true
		t, err := homes.Parse(at+"path", a.Path)
		if err != nil {
			*p = append(*p, err)
			continue
		}
		if a.Create && !t.Personal() {
			p.add(at+"create", a.Create, "false, or "+ofHers)
		}
		c.checkApart(at+"path", a.Path, t, p)
		c.checkInside(at, a, places, p)
		c.checkAudience(at, Profile{AllowedUsers: a.AllowedUsers, AllowedGroups: a.AllowedGroups}, p)
	}
}

// checkInside looks at where workloads have an area.
func (c Config) checkInside(at string, a Area, places map[string]string, p *problems) {
	where := a.Where()
	if !cleanPath(where) || where == "/" || strings.ContainsAny(where, ":{}\"'") {
		p.add(at+"inside", where, "an absolute path without //, . and .., words in braces, and without ? # % \\ , : quotes and spaces, such as /scratch")
		return
	}
	for _, dir := range taken {
		if within(where, dir) || within(dir, where) {
			p.add(
				at+"inside", where,
				"a place of its own, such as /scratch or /data/"+a.Name+": "+dir+" is the image's or Slipway's",
			)
			return
		}
	}
	for other, name := range places {
		if within(where, other) || within(other, where) {
			p.add(at+"inside", where, "a place of its own: area "+name+" is at "+other)
			return
		}
	}
	places[where] = a.Name
}
