package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"slipway/internal/programs/install"
	"slipway/spawner"
	"slipway/spawner/catalog"
	"slipway/spawner/launch"
)

// HomeMounts finds the directories of users' workloads, and knows how full they are.
type HomeMounts struct {
	Homes *homes.Homes     // looks
	Home  homes.Template   // where users' homes are; of zero: below the directory of the homes
	Areas []homes.Template // likewise, in the order of the configuration
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

// NewHomeMounts reads the templates, which were checked. Directories are looked at by a program that has the command
// for it.
func NewHomeMounts(cfg config.Config, program string) (h *HomeMounts, err error) {
	h = &HomeMounts{Homes: homes.New(homes.Config{Program: []string{program, programs.LookHome}}), known: map[string]occupancy{}}
	if path := cfg.Users.Home.Path; path != "" {
		if h.Home, err = homes.Parse("users.home.path", path); err != nil {
			return nil, err
		}
	}
	for _, a := range cfg.Data.Areas {
		t, err := homes.Parse("data.areas.path", a.Path)
		if err != nil {
			return nil, err
		}
		h.Areas = append(h.Areas, t)
	}
	return h, nil
}

// makeHomeMounts refuses to serve where homes cannot be: one that does not answer is a matter of the hour, and told at
// each start.
func (s *service) makeHomeMounts(ctx context.Context) error {
	s.lean = install.FindJobProgram(s.self, s.log)
	mounts, err := NewHomeMounts(s.cfg, s.lean)
	if err != nil {
		return err
	}
	s.homeMounts = mounts
	if s.homeMounts.alarm, err = s.recallAlarm(ctx); err != nil || s.homeMounts.Home.Personal() {
		return err
	}
	checks := homes.Checks{Create: true, Guarded: true}
	_, err = s.homeMounts.Homes.Find(ctx, homes.Want{Template: homes.Below(s.cfg.Users.Homes), Checks: checks})
	if errs.Is(err, errs.Unavailable) {
		s.log.Warn("the directory of the homes is not at hand: sessions and jobs start when it is", "error", err)
		return nil
	}
	return err
}

// who fills templates with a user.
func (s *service) who(hub string, user spawner.User, a spawner.Account) homes.Who {
	return homes.Who{Name: string(user), Realm: s.realms[hub], Login: a.Login, UID: a.UID, GID: a.GID}
}

// homeOf says where a user's home is, and what it must be.
func (s *service) homeOf(hub string, user spawner.User, a spawner.Account) homes.Want {
	checks := homes.Checks{Create: s.cfg.Users.Home.Create, Hers: true}
	w := homes.Want{Template: s.homeMounts.Home, Who: s.who(hub, user, a), Groups: groupIDs(a), Checks: checks}
	if !w.Template.Personal() {
		names := []string{identity.DirName(string(user))}
		if realm := s.realms[hub]; realm != identity.Site {
			names = append([]string{"@" + realm}, names...)
		}
		w.Template = homes.Below(s.cfg.Users.Homes, names...)
	}
	return w
}

// homeNow is the same, for who looks at it as it is.
func (s *service) homeNow(hub string, user spawner.User, a spawner.Account) homes.Want {
	w := s.homeOf(hub, user, a)
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
func (s *service) areaOf(i int, hub string, user spawner.User, a spawner.Account) homes.Want {
	area := s.cfg.Data.Areas[i]
	checks := homes.Checks{Create: area.Create, Hers: s.homeMounts.Areas[i].Personal(), Mounted: area.Mounted}
	return homes.Want{Template: s.homeMounts.Areas[i], Who: s.who(hub, user, a), Groups: groupIDs(a), Checks: checks}
}

// house is the engine's Config.House.
func (s *service) house(ctx context.Context, w spawner.Workload, a spawner.Account, tell func(string)) (launch.HomeMounts, error) {
	if w.Remote && !s.cfg.HTCondor.HomeDirs {
		return launch.HomeMounts{}, nil
	}
	home, err := s.homeMounts.Homes.Find(ctx, s.homeOf(w.Hub, w.Owner, a))
	if err != nil {
		return launch.HomeMounts{}, fmt.Errorf("find the home: %w", err)
	}
	out := launch.HomeMounts{HomeDir: home.Path, Follows: home.Propagates}
	rows := []hubapi.Quota{QuotaOf(homeName, a.Home, home, nil)}
	if !w.Remote {
		more, err := s.houseAreas(ctx, w, a, &out, tell)
		if err != nil {
			return launch.HomeMounts{}, err
		}
		rows = append(rows, more...)
	}
	s.homeMounts.note(s.principal(w.Hub, w.Owner), rows)
	for _, row := range rows {
		if words := s.fullWords(w, row); words != "" {
			tell(words)
		}
	}
	return out, nil
}

// houseAreas adds the areas that are there, all looked at at once, and tells of the others.
func (s *service) houseAreas(ctx context.Context, w spawner.Workload, a spawner.Account, out *launch.HomeMounts, tell func(string)) ([]hubapi.Quota, error) {
	var rows []hubapi.Quota
	var failed []error
	for i, found := range s.lookAtAreas(ctx, w.Hub, w.Owner, a, true) {
		area := s.cfg.Data.Areas[i]
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
func (s *service) lookAtAreas(ctx context.Context, hub string, user spawner.User, a spawner.Account, create bool) []*sight {
	out := make([]*sight, len(s.cfg.Data.Areas))
	var work sync.WaitGroup
	for i, area := range s.cfg.Data.Areas {
		if len(area.AllowedUsers)+len(area.AllowedGroups) > 0 {
			if is, err := s.member(hub, user, catalog.Profile{Users: area.AllowedUsers, Groups: area.AllowedGroups}); err != nil {
				out[i] = &sight{err: err}
				continue
			} else if !is {
				continue
			}
		}
		work.Go(func() {
			want := s.areaOf(i, hub, user, a)
			want.Create = want.Create && create
			found, err := s.homeMounts.Homes.Find(ctx, want)
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
		q.Kind, q.Used, q.Limit, q.Files, q.FilesLimit, q.Percent = tight.Kind, tight.Used, tight.Most, tight.Files, tight.MostFiles, tight.Percent()
	}
	return q
}

func full(q hubapi.Quota) bool {
	return homes.Limit{Used: q.Used, Most: q.Limit, Files: q.Files, MostFiles: q.FilesLimit}.Full()
}

// fullWords says of a directory at a start what its user should know; empty: nothing. That it fills up she is told
// once, in a session: of a job's events nobody may look at.
func (s *service) fullWords(w spawner.Workload, q hubapi.Quota) string {
	passed := w.Kind.Session() && s.passes(w.Hub, w.Owner, q) > 0
	switch {
	case q.ReadOnly && q.Name == homeName:
		return "Your home cannot be written to now: its file system is mounted read-only" + s.rescueHint(w)
	case full(q) && q.Name == homeName:
		return "Your home is full: " + hubapi.QuotaWords(q) + s.rescueHint(w)
	case passed:
		return q.Path + " is filling up: " + hubapi.QuotaWords(q)
	}
	return ""
}

// rescueHint names the profile that comes up all the same.
func (s *service) rescueHint(w spawner.Workload) string {
	profile, ok := s.rescueProfile(w)
	switch {
	case w.Spec.Rescue:
		return ". This is a rescue session: `slipway home usage` in a terminal shows what is big"
	case !w.Kind.Session() || !ok:
		return ". Make room in it"
	}
	return fmt.Sprintf(". If this session does not come up, start the profile “%s”, and make room", cmp.Or(profile.Title, profile.Name))
}

// rescueProfile returns one that is open to the owner of a session.
func (s *service) rescueProfile(w spawner.Workload) (catalog.Profile, bool) {
	all := s.workloads.Offers(w.Hub, w.Owner).Profiles
	i := slices.IndexFunc(all, func(p catalog.Profile) bool { return p.Rescue })
	if i < 0 {
		return catalog.Profile{}, false
	}
	return all[i], true
}

// ailment is the engine's Config.Ailment: it looks at the home once more, for a session that has failed may have filled
// it.
func (s *service) ailment(w spawner.Workload) (why, remedy string) {
	if w.Remote || w.Account.UID == 0 { // of zero: its start has not come as far as its home
		return "", ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), homes.LookTime+time.Second)
	defer cancel()
	found, err := s.homeMounts.Homes.Find(ctx, s.homeNow(w.Hub, w.Owner, w.Account))
	q := QuotaOf(homeName, w.Account.Home, found, err)
	switch {
	case q.Trouble != "":
		return "your home is not at hand: " + q.Trouble, "try again in a few minutes; if this lasts, tell your administrator"
	case q.ReadOnly:
		why = "your home cannot be written to: its file system is mounted read-only"
	case full(q):
		why = "your home is full: " + hubapi.QuotaWords(q)
	default:
		return "", ""
	}
	return why, strings.TrimPrefix(cmp.Or(s.ailmentRemedy(w), "make room in your home, by a way that does not need a session"), ". ")
}

func (s *service) ailmentRemedy(w spawner.Workload) string {
	profile, ok := s.rescueProfile(w)
	if !ok || w.Spec.Rescue {
		return ""
	}
	return fmt.Sprintf("start the profile “%s”, which comes up with a full home, and make room; then start this one again", cmp.Or(profile.Title, profile.Name))
}

func (h *HomeMounts) note(principal string, rows []hubapi.Quota) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known[principal] = occupancy{rows, time.Now()}
}
