// Package homemounts finds the directories that a user's sessions and jobs have, their home and the site's shared
// areas, and knows how full they are: it tells users when one fills up, and says whether the home kept a session from
// starting.
//
// It promises that an area is looked at for its users alone, that nothing is made for those who only look, and that
// users are told of each mark once, also across restarts. How a path is made safe is up to package homes; this one must
// not touch a directory itself.
package homemounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"slipway/hubapi"
	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/homes"
	"slipway/internal/identity"
	"slipway/internal/metrics"
	"slipway/internal/programs"
	"slipway/internal/store"
	"slipway/spawner"
	"slipway/spawner/catalog"
	"slipway/spawner/launch"
)

// Places are where the directories are, and what looks at them.
type Places struct {
	Homes *homes.Homes     // looks
	Home  homes.Template   // where users' homes are; of zero: below the directory of the homes
	Areas []homes.Template // likewise, in the order of the configuration
}

// PlacesOf reads the templates of a configuration, which were checked. Directories are looked at by a program that has
// the command for it.
func PlacesOf(cfg config.Config, program string) (p Places, err error) {
	p.Homes = homes.New(homes.Config{Program: []string{program, programs.LookHome}})
	if path := cfg.Users.Home.Path; path != "" {
		if p.Home, err = homes.Parse("users.home.path", path); err != nil {
			return Places{}, err
		}
	}
	for _, a := range cfg.Data.Areas {
		t, err := homes.Parse("data.areas.path", a.Path)
		if err != nil {
			return Places{}, err
		}
		p.Areas = append(p.Areas, t)
	}
	return p, nil
}

// Config is what Mounts need.
type Config struct {
	Site      config.Config
	Program   string // that looks at directories
	Store     *store.Store
	Realms    map[string]string // of the Hubs
	Principal func(hub string, user spawner.User) string
	Account   func(ctx context.Context, hub string, user spawner.User) (spawner.Account, error)
	Member    func(hub string, user spawner.User, p catalog.Profile) (bool, error) // whether a profile is for a user
	Offers    func(hub string, user spawner.User) catalog.Catalogue                // what a user may start
	Workloads func(ctx context.Context) []spawner.Workload
	Tell      func(ctx context.Context, id spawner.ID, text string) // tells the user in a session
	Logger    *slog.Logger
}

// Mounts find the directories of users' workloads, and know how full they are. They are safe for concurrent use.
type Mounts struct {
	cfg Config
	Places
	alarm *homes.Alarm

	mu      sync.Mutex // guards the fields below
	known   map[string]occupancy
	counts  metrics.Homes
	looking singleflight.Group
}

// occupancy is what was found of a user's directories.
type occupancy struct {
	rows []hubapi.Quota
	at   time.Time
}

// New makes Mounts. It fails where homes cannot be: a directory that does not answer is a matter of the hour, and told
// at each start.
func New(ctx context.Context, cfg Config) (*Mounts, error) {
	places, err := PlacesOf(cfg.Site, cfg.Program)
	if err != nil {
		return nil, err
	}
	m := &Mounts{cfg: cfg, Places: places, known: map[string]occupancy{}}
	if m.alarm, err = m.recallAlarm(ctx); err != nil || m.Home.Personal() {
		return m, err
	}
	checks := homes.Checks{Create: true, Guarded: true}
	_, err = m.Homes.Find(ctx, homes.Want{Template: homes.Below(cfg.Site.Users.Homes), Checks: checks})
	if errs.Is(err, errs.Unavailable) {
		cfg.Logger.Warn("the directory of the homes is not at hand: sessions and jobs start when it is", "error", err)
		return m, nil
	}
	return m, err
}

// who fills templates with a user.
func (m *Mounts) who(hub string, user spawner.User, a spawner.Account) homes.Who {
	return homes.Who{Name: string(user), Realm: m.cfg.Realms[hub], Login: a.Login, UID: a.UID, GID: a.GID}
}

// homeOf says where a user's home is, and what it must be.
func (m *Mounts) homeOf(hub string, user spawner.User, a spawner.Account) homes.Want {
	checks := homes.Checks{Create: m.cfg.Site.Users.Home.Create, Hers: true}
	w := homes.Want{Template: m.Home, Who: m.who(hub, user, a), Groups: groupIDs(a), Checks: checks}
	if !w.Template.Personal() {
		names := []string{identity.DirName(string(user))}
		if realm := m.cfg.Realms[hub]; realm != identity.Site {
			names = append([]string{"@" + realm}, names...)
		}
		w.Template = homes.Below(m.cfg.Site.Users.Homes, names...)
	}
	return w
}

// homeNow is the same, for who looks at it as it is.
func (m *Mounts) homeNow(hub string, user spawner.User, a spawner.Account) homes.Want {
	w := m.homeOf(hub, user, a)
	w.Create = false
	return w
}

func groupIDs(a spawner.Account) []int {
	var ids []int
	for _, g := range a.Groups {
		ids = append(ids, g.ID)
	}
	return ids
}

// areaOf says the same of an area.
func (m *Mounts) areaOf(i int, hub string, user spawner.User, a spawner.Account) homes.Want {
	area := m.cfg.Site.Data.Areas[i]
	checks := homes.Checks{Create: area.Create, Hers: m.Areas[i].Personal(), Mounted: area.Mounted}
	return homes.Want{Template: m.Areas[i], Who: m.who(hub, user, a), Groups: groupIDs(a), Checks: checks}
}

// Prepare returns what a workload is to see of its user's directories, and makes what the site makes of them. What is
// not there, or full, is told.
func (m *Mounts) Prepare(
	ctx context.Context, w spawner.Workload, a spawner.Account, tell func(string),
) (launch.HomeMounts, error) {
	if w.Remote && !m.cfg.Site.BatchOf(w.Backend).HomeDirs {
		return launch.HomeMounts{}, nil
	}
	home, err := m.Homes.Find(ctx, m.homeOf(w.Hub, w.Owner, a))
	if err != nil {
		return launch.HomeMounts{}, fmt.Errorf("find the home: %w", err)
	}
	out := launch.HomeMounts{HomeDir: home.Path, Follows: home.Propagates}
	rows := []hubapi.Quota{QuotaOf(homeName, a.Home, home, nil)}
	if !w.Remote {
		more, err := m.houseAreas(ctx, w, a, &out, tell)
		if err != nil {
			return launch.HomeMounts{}, err
		}
		rows = append(rows, more...)
	}
	m.note(m.cfg.Principal(w.Hub, w.Owner), rows)
	for _, row := range rows {
		if words := m.fullWords(w, row); words != "" {
			tell(words)
		}
	}
	return out, nil
}

// houseAreas adds the areas that are there, all looked at at once, and tells of the others.
func (m *Mounts) houseAreas(
	ctx context.Context, w spawner.Workload, a spawner.Account, out *launch.HomeMounts, tell func(string),
) ([]hubapi.Quota, error) {
	var rows []hubapi.Quota
	var failed []error
	for i, found := range m.lookAtAreas(ctx, w.Hub, w.Owner, a, true) {
		area := m.cfg.Site.Data.Areas[i]
		switch {
		case found == nil: // not hers
			continue
		case found.err != nil && area.Required:
			failed = append(failed, fmt.Errorf("find the area %s: %w", area.Name, found.err))
			continue
		case found.err != nil:
			tell(fmt.Sprintf("%s is not there: %s", area.Where(), errs.Brief(found.err)))
		default:
			if area.Write && found.ReadOnly {
				tell(area.Where() + " cannot be written to now: its file system is mounted read-only")
			}
			out.Areas = append(out.Areas, spawner.Area{
				Name: area.Name, Source: found.Path, Target: area.Where(), Write: area.Write, Follows: found.Propagates,
			})
		}
		if area.Write {
			rows = append(rows, QuotaOf(area.Name, area.Where(), found.Found, found.err))
		}
	}
	return rows, errors.Join(failed...)
}

// sight is what a look has found.
type sight struct {
	homes.Found
	err error
}

// lookAtAreas looks at all areas of a user at once, and makes what the site has made for each; nil stands for one that
// is not hers.
func (m *Mounts) lookAtAreas(
	ctx context.Context, hub string, user spawner.User, a spawner.Account, create bool,
) []*sight {
	out := make([]*sight, len(m.cfg.Site.Data.Areas))
	var work sync.WaitGroup
	for i, area := range m.cfg.Site.Data.Areas {
		if len(area.AllowedUsers)+len(area.AllowedGroups) > 0 {
			is, err := m.cfg.Member(hub, user, catalog.Profile{Users: area.AllowedUsers, Groups: area.AllowedGroups})
			if err != nil {
				out[i] = &sight{err: err}
			}
			if err != nil || !is {
				continue
			}
		}
		work.Go(func() {
			want := m.areaOf(i, hub, user, a)
			want.Create = want.Create && create
			found, err := m.Homes.Find(ctx, want)
			out[i] = &sight{found, err}
		})
	}
	work.Wait()
	return out
}

// homeName is what the home is called among areas.
const homeName = "home"

// QuotaOf returns what users are told of a directory.
func QuotaOf(name, inside string, found homes.Found, err error) hubapi.Quota {
	q := hubapi.Quota{Name: name, Path: inside, ReadOnly: found.ReadOnly}
	if err != nil {
		q.Trouble = errs.Brief(err)
		return q
	}
	if tight, ok := homes.Tightest(found.Limits); ok {
		q.Kind, q.Used, q.Limit, q.Percent = tight.Kind, tight.Used, tight.Most, tight.Percent()
		q.Files, q.FilesLimit = tight.Files, tight.MostFiles
	}
	return q
}

func full(q hubapi.Quota) bool {
	return homes.Limit{Used: q.Used, Most: q.Limit, Files: q.Files, MostFiles: q.FilesLimit}.Full()
}

// fullWords says of a directory at a start what its user should know; empty: nothing. That it fills up she is told
// once, in a session: of a job's events nobody may look at.
func (m *Mounts) fullWords(w spawner.Workload, q hubapi.Quota) string {
	passed := w.Kind.Session() && m.passes(w.Hub, w.Owner, q) > 0
	switch {
	case q.ReadOnly && q.Name == homeName:
		return "Your home cannot be written to now: its file system is mounted read-only" + m.rescueHint(w)
	case full(q) && q.Name == homeName:
		return "Your home is full: " + hubapi.QuotaWords(q) + m.rescueHint(w)
	case passed:
		return q.Path + " is filling up: " + hubapi.QuotaWords(q)
	}
	return ""
}

// rescueHint names the profile that comes up all the same.
func (m *Mounts) rescueHint(w spawner.Workload) string {
	profile, ok := m.rescueProfile(w)
	switch {
	case w.Spec.Rescue:
		return ". This is a rescue session: `slipway home usage` in a terminal shows what is big"
	case w.Kind.Batch() || !ok:
		return ". Make room in it"
	}
	return fmt.Sprintf(
		". If this session does not come up, start the profile “%s”, and make room",
		cmp.Or(profile.Title, profile.Name),
	)
}

// rescueProfile returns one that is open to the owner of a session.
func (m *Mounts) rescueProfile(w spawner.Workload) (catalog.Profile, bool) {
	all := m.cfg.Offers(w.Hub, w.Owner).Profiles
	i := slices.IndexFunc(all, func(p catalog.Profile) bool { return p.Rescue })
	if i < 0 {
		return catalog.Profile{}, false
	}
	return all[i], true
}

// Ailment says why a session may have failed for its home, and what to do; empty: it has not. It looks at the home once
// more, for the session may have filled it.
func (m *Mounts) Ailment(w spawner.Workload) (why, remedy string) {
	if w.Remote || w.Account.UID == 0 { // of zero: its start has not come as far as its home
		return "", ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), homes.LookTime+time.Second)
	defer cancel()
	found, err := m.Homes.Find(ctx, m.homeNow(w.Hub, w.Owner, w.Account))
	q := QuotaOf(homeName, w.Account.Home, found, err)
	switch {
	case q.Trouble != "":
		return "your home is not at hand: " + q.Trouble,
			"try again in a few minutes; if this lasts, tell your administrator"
	case q.ReadOnly:
		why = "your home cannot be written to: its file system is mounted read-only"
	case full(q):
		why = "your home is full: " + hubapi.QuotaWords(q)
	default:
		return "", ""
	}
	return why, strings.TrimPrefix(
		cmp.Or(m.ailmentRemedy(w), "make room in your home, by a way that does not need a session"), ". ",
	)
}

func (m *Mounts) ailmentRemedy(w spawner.Workload) string {
	profile, ok := m.rescueProfile(w)
	if !ok || w.Spec.Rescue {
		return ""
	}
	return fmt.Sprintf(
		"start the profile “%s”, which comes up with a full home, and make room; then start this one again",
		cmp.Or(profile.Title, profile.Name),
	)
}

func (m *Mounts) note(principal string, rows []hubapi.Quota) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[principal] = occupancy{rows, time.Now()}
}
