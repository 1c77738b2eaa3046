package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// limited are a profile of everybody, the default that is one group's, and one that is one user's.
func limited() catalog.Catalogue {
	profile := func(name string) catalog.Profile {
		return catalog.Profile{Name: name, Kind: spawner.Lab, Images: []string{"notebook"}, CPUs: 1, Memory: 1 << 30}
	}
	c := catalog.Catalogue{
		Images: []catalog.ImageChoice{{Name: "notebook", Ref: "notebook"}}, Profiles: []catalog.Profile{profile("gpu"), profile("small"), profile("own")},
	}
	c.Profiles[0].Default, c.Profiles[0].Groups, c.Profiles[2].Users = true, []string{"higgs"}, []string{"alice"}
	return c
}

// members lets alice in by her name, and those of the group higgs.
func members(hub string, user spawner.User, p catalog.Profile) (bool, error) {
	return hub == "main" && (slices.Contains(p.Users, string(user)) || slices.Contains(p.Groups, "higgs") && user == "carla"), nil
}

func TestOffers(t *testing.T) {
	s := newService(t)
	s.kill()
	s.parts.Catalogue, s.parts.Member = limited(), members
	s.start()
	for _, tc := range []struct{ hub, user, names, standard string }{
		{"main", "alice", "small own", "small"},
		{"main", "carla", "gpu small", "gpu"},
		{"main", "bob", "small", "small"},
		{"other", "alice", "small", "small"},
		{"main", "", "small", "small"},
	} {
		c := s.Offers(tc.hub, spawner.User(tc.user))
		standard, _ := c.Default()
		if got := strings.Join(c.Names(), " "); got != tc.names || standard.Name != tc.standard {
			t.Errorf("%s of %s: %s, by default %s", tc.user, tc.hub, got, standard.Name)
		}
	}
}

func TestWhyAProfileIsNotOffered(t *testing.T) {
	open := func(p catalog.Profile) (bool, error) { return p.Name == "small", nil }
	all := limited()
	for name, tc := range map[string]struct {
		c      catalog.Catalogue
		choice string
		kind   errs.Kind
		says   string
	}{
		"of a group": {all.Only(open), "gpu", errs.Forbidden, "profile gpu is not open to you: it is for members of higgs: ask your administrator to be one, or choose one of small"},
		"of a user":  {all.Only(open), "own", errs.Forbidden, "profile own is not open to you: ask your administrator for it, or choose one of small"},
		"none":       {all.Only(func(catalog.Profile) (bool, error) { return false, nil }), "", errs.Forbidden, "no profile is open to you: ask your administrator for one"},
		"unknown":    {all.Only(open), "huge", errs.Invalid, "one of small"},
	} {
		_, _, err := tc.c.Resolve(map[string]any{"profile": tc.choice})
		if !errs.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "alice") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(all.Names()) != 3 {
		t.Error("the site's own catalogue has changed")
	}
}

// TestUnknownIsNotNo: where a Hub does not say who is in its groups, nobody hears that she is in none, and nobody gets
// another profile than the one that may be hers.
func TestUnknownIsNotNo(t *testing.T) {
	silent := errors.New("the Hub does not say")
	only := func(sure ...string) catalog.Catalogue { // the first is hers, the others are surely not; of the rest the Hub does not say it
		return limited().Only(func(p catalog.Profile) (bool, error) {
			if at := slices.Index(sure, p.Name); at >= 0 {
				return at == 0, nil
			}
			return false, silent
		})
	}
	for name, tc := range map[string]struct {
		c            catalog.Catalogue
		choice, gets string
		kind         errs.Kind
		says         string
	}{
		"by its name":             {only("small", "own"), "gpu", "", errs.Unavailable, "whether profile gpu is open to you is not known: the Hub does not say: try again in a moment, or choose one of small"},
		"the default":             {only("small", "own"), "", "", errs.Unavailable, "whether profile gpu is open to you"},
		"another that is open":    {only("small", "own"), "small", "small", 0, ""},
		"in place of the default": {only("own", "gpu"), "", "", errs.Unavailable, "whether profile small is open to you"},
		"behind the one that is":  {only("small", "gpu"), "", "small", 0, ""},
		"nothing is known":        {only(), "", "", errs.Unavailable, "whether profile gpu is open to you is not known: the Hub does not say: try again in a moment"},
	} {
		_, spec, err := tc.c.Resolve(map[string]any{"profile": tc.choice})
		if spec.Profile != tc.gets || (err != nil) != (tc.gets == "") || err != nil && (!errs.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: %s, %v", name, spec.Profile, err)
		}
		if p, ok := tc.c.Default(); tc.choice == "" && (ok != (tc.gets != "") || p.Name != tc.gets) {
			t.Errorf("%s: %q by default", name, p.Name)
		}
	}
}

// TestUnknownRightsStartNothing: the engine starts what is surely open, and says of the rest that it is not known.
func TestUnknownRightsStartNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		s.kill()
		s.parts.Catalogue, s.parts.Member = limited(), func(string, spawner.User, catalog.Profile) (bool, error) {
			return true, errors.New("the Hub does not say")
		}
		s.start()
		r := request("carla", "", "l1")
		r.Spec.Profile = "gpu"
		if _, err := s.StartSession(t.Context(), hub, r); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "the Hub does not say") {
			t.Error(err)
		}
		r.Spec.Profile = "small"
		s.startSession(r)
	})
}

// TestRightsHoldAtTheStart: whoever makes the request, and whatever was offered to her, the engine starts only what is
// open to the user.
func TestRightsHoldAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		s.kill()
		s.parts.Catalogue, s.parts.Member = limited(), members
		s.start()
		ask := func(user, profile, launch string) error {
			r := request(user, "", launch)
			r.Spec.Profile = profile
			_, err := s.StartSession(t.Context(), hub, r)
			return err
		}
		for _, profile := range []string{"gpu", "own"} {
			if err := ask("bob", profile, "l1"); !errs.Is(err, errs.Forbidden) || !strings.Contains(err.Error(), "not open to you") {
				t.Errorf("bob starts %s: %v", profile, err)
			}
		}
		if all, _ := s.List(t.Context(), spawner.Caller{System: true}); len(all) != 0 {
			t.Errorf("left behind: %+v", all)
		}
		for user, profile := range map[string]string{"bob": "small", "alice": "own", "carla": "gpu"} {
			if err := ask(user, profile, "l1"); err != nil {
				t.Errorf("%s starts %s: %v", user, profile, err)
			}
		}
	})
}

// TestWhoLeavesAGroup keeps what runs, and starts no more of it.
func TestWhoLeavesAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		in := true
		s.kill()
		s.parts.Catalogue, s.parts.Member = limited(), func(string, spawner.User, catalog.Profile) (bool, error) { return in, nil }
		s.start()
		r := request("carla", "", "l1")
		r.Spec.Profile = "gpu"
		w := s.reach(s.startSession(r).ID, spawner.Running)
		in = false
		s.restart()
		s.reach(w.ID, spawner.Running)
		carla := spawner.Caller{User: "carla", Hub: "main"}
		if _, err := s.Stop(t.Context(), carla, w.ID); err != nil {
			t.Fatal(err)
		}
		s.reach(w.ID, spawner.Stopped)
		r.Launch = "l2"
		if _, err := s.StartSession(t.Context(), hub, r); !errs.Is(err, errs.Forbidden) {
			t.Errorf("it is started again: %v", err)
		}
	})
}
