package pool

import (
	"context"
	"fmt"
	"math"
	"strings"

	"slipway/spawner/batch"
	"slipway/spawner/batch/command"
	"slipway/spawner/htcondor/classad"
)

// standing is how the pool's negotiator counts a user, and how many of the user's jobs are in its queues.
type standing struct {
	name     string // such as alice@example.org, or interactive.alice@example.org of a group
	group    string
	priority float64 // who has less goes first
	running  int
	waiting  int
}

// standings are all of a pool, with the order in which it serves its groups.
type standings struct {
	users  map[string]standing
	groups map[string]float64 // which has less is served first
	told   bool               // the negotiator tells how it counts
}

// noGroup is how the negotiator calls those of no group.
const noGroup = "<none>"

// askStandings asks the collector how users stand to one another.
func (p *Pool) askStandings(ctx context.Context) (standings, error) {
	out, err := p.cfg.Run(ctx, command.Command{Name: "condor_status", Args: []string{
		"-any", "-json", "-constraint", `MyType == "Accounting" || MyType == "Submitter"`,
		"-attributes", "MyType,Name,Priority,IsAccountingGroup,AccountingGroup,GroupSortKey,RunningJobs,IdleJobs",
	}})
	if err != nil {
		return standings{}, err
	}
	ads, err := classad.ParseAll(out)
	return standingsOf(ads), err
}

// standingsOf puts together what the negotiator says of a user, and each access point.
func standingsOf(ads []*classad.Ad) standings {
	all := standings{users: map[string]standing{}, groups: map[string]float64{}}
	for _, a := range ads {
		name := a.Text("Name")
		s := all.users[name]
		switch key, ranked := a.Number("GroupSortKey"); {
		case a.Text("MyType") == "Submitter":
			running, _ := a.Number("RunningJobs")
			waiting, _ := a.Number("IdleJobs")
			s.name, s.running, s.waiting = name, s.running+int(running), s.waiting+int(waiting)
		case a.Text("MyType") != "Accounting":
			continue
		case a.Get("IsAccountingGroup") != true:
			s.name, s.group, all.told = name, a.Text("AccountingGroup"), true
			s.priority, _ = a.Number("Priority")
		case ranked:
			all.groups[a.Text("AccountingGroup")] = key
			continue
		default:
			continue
		}
		all.users[name] = s
	}
	for name, s := range all.users { // the negotiator has no count of who never had a machine
		if s.group == "" {
			s.group = all.groupOf(name)
			all.users[name] = s
		}
	}
	return all
}

// groupOf returns the group that a name begins with.
func (s standings) groupOf(name string) string {
	who, _, _ := strings.Cut(name, "@")
	if i := strings.LastIndexByte(who, '.'); i > 0 {
		if _, is := s.groups[who[:i]]; is {
			return who[:i]
		}
	}
	return noGroup
}

// turn says where somebody is in line; empty when the pool does not tell.
func (s standings) turn(name string) string {
	me, known := s.users[name]
	if !known || !s.told {
		return ""
	}
	others, group, share, best := 0, 0, 0, math.Inf(1)
	for _, o := range s.users {
		if o.name == name || o.waiting == 0 {
			continue
		}
		others++
		switch {
		case o.group != me.group && s.groups[o.group] < s.groups[me.group]:
			group++
		case o.group == me.group && o.priority < me.priority:
			share, best = share+1, min(best, o.priority)
		}
	}
	text := fmt.Sprintf(
		"the pool counts it for %s (%d running, %d waiting)", batch.OneLine(name, batch.MaxName), me.running,
		me.waiting,
	)
	if others == 0 {
		return text + "; nobody else waits"
	}
	text += fmt.Sprintf("; %s %s too", plural(others, "other user"), verb(others, "waits", "wait"))
	if group+share == 0 {
		return text + ", and none goes before"
	}
	var why []string
	if group > 0 {
		why = append(why, fmt.Sprintf("%d whose group is served first", group))
	}
	if share > 0 {
		why = append(why, fmt.Sprintf(
			"%d who used less of late (priority from %.0f, yours is %.0f, less is better)", share, best, me.priority,
		))
	}
	return fmt.Sprintf(
		"%s, and %d %s before: %s", text, group+share, verb(group+share, "goes", "go"), strings.Join(why, ", "),
	)
}
