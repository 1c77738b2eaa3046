package server

import (
	"testing"
	"time"

	"slipway/spawner"
	"slipway/spawner/catalog"
)

func TestFlavors(t *testing.T) {
	mine := outpostSession("s-a", "main", "ann", "a", spawner.Pending)
	mine.Spec.Profile = "small"
	hers := outpostSession("s-b", "other", "bea", "b", spawner.Running)
	hers.Spec.Profile = "small"
	over := ended("s-c", "c", nil)
	over.Spec.Profile = "small"
	for _, tc := range []struct {
		free       int
		lacks      string
		fresh, old string // of a profile without sessions, and of one with
	}{
		{3, "", `"max":3`, `"max":4`},
		{0, "1 CPU asked, 0 of 4 free", `"max":0`, `"max":1`},
		{2, "others wait in line", `"max":0`, `"max":1`},
		{-1, "", `"max":-1`, `"max":-1`},
	} {
		fake := newFake(mine, hers, over)
		fake.room = &spawner.Room{Most: 4, Free: tc.free, Lacks: tc.lacks}
		h := withOutpost(t, fake, func(cfg *Config) {
			first := cfg.Catalogue.Profiles[0]
			first.Name, first.Title, first.Description, first.Default, first.Life.MaxAge = "gpu", "A GPU", "Much", false, 36*time.Hour
			cfg.Catalogue.Profiles = append([]catalog.Profile{first}, cfg.Catalogue.Profiles...)
		})
		want := `{"gpu":{"display_name":"A GPU","description":"Much","weight":20,` + tc.fresh +
			`,"maxPerUser":-1,"runtime":{"hours":36},"resources":{"cpus":1,"memory":"2G"},"current":0},` +
			`"small":{"display_name":"small","description":"","weight":30,` + tc.old +
			`,"maxPerUser":-1,"runtime":{},"resources":{"cpus":1,"memory":"2G"},"current":1}}`
		for _, target := range []string{"/flavors", "/flavors/"} {
			if status, got := h.ask(t, "GET", target, "", ""); status != 200 || got != want {
				t.Errorf("%s: %d %s\nwant %s", target, status, got, want)
			}
		}
		for _, target := range []string{"/userflavors", "/userflavors/"} {
			if status, got := h.ask(t, "POST", target, "", `{"name":"ann","groups":["g"],"access_token":"t"}`); status != 200 || got != want {
				t.Errorf("%s: %d %s", target, status, got)
			}
		}
	}
}
