package server

import (
	"net/url"
	"strings"
	"testing"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// twoImages has a second image, which another profile alone offers.
func twoImages(c *Config) {
	c.Catalogue.Images = append(c.Catalogue.Images, catalog.ImageChoice{Name: "root", Ref: "slipway/root:1"}, catalog.ImageChoice{Name: "again", Ref: "slipway/notebook:1"})
	c.Catalogue.Profiles = append(c.Catalogue.Profiles,
		catalog.Profile{Name: "heavy", Kind: spawner.Lab, Images: []string{"root"}, CPUs: 1, Memory: 1 << 30},
		catalog.Profile{Name: "both", Kind: spawner.Lab, Images: []string{"root", "again"}, CPUs: 1, Memory: 1 << 30})
}

func TestStartFromAnEnvironment(t *testing.T) {
	for name, tc := range map[string]struct {
		options    map[string]any
		from       string // empty: from the image alone
		image, why string
	}{
		"nothing said":                {nil, "", "slipway/notebook:1", ""},
		"the empty word":              {map[string]any{"environment": " "}, "", "slipway/notebook:1", ""},
		"null":                        {map[string]any{"environment": nil}, "", "slipway/notebook:1", ""},
		"by name":                     {map[string]any{"environment": "mine:v 1"}, theDigest, "slipway/notebook:1", ""},
		"by digest, with its image":   {map[string]any{"environment": theDigest, "image": "notebook"}, theDigest, "slipway/notebook:1", ""},
		"not the profile's first one": {map[string]any{"environment": theDigest, "profile": "both"}, theDigest, "slipway/notebook:1", ""},
		"another image":               {map[string]any{"environment": theDigest, "profile": "both", "image": "root"}, "", "", "mine stands on the image slipway/notebook:1, but image root is slipway/root:1"},
		"a profile without its image": {map[string]any{"environment": theDigest, "profile": "heavy"}, "", "", "which profile heavy does not offer"},
		"a profile there is not":      {map[string]any{"environment": theDigest, "profile": "huge"}, "", "", "profile"},
		"an image there is not":       {map[string]any{"environment": theDigest, "image": "huge"}, "", "", "image"},
		"somebody else's":             {map[string]any{"environment": "carol/secret"}, "", "", "no environment"},
		"a number":                    {map[string]any{"environment": 7.0}, "", "", "options.environment"},
	} {
		t.Run(name, func(t *testing.T) {
			engine := newFake()
			h := start(t, engine, twoImages)
			s, err := h.client(t, spawnerToken).StartSession(t.Context(), hubapi.SessionRequest{
				User: "alice", Launch: "l", Prefix: "/user/alice/", Argv: []string{"x"}, Options: tc.options,
			})
			if tc.why != "" {
				if err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(tc.why, "mine ")) || len(engine.started) > 0 {
					t.Errorf("%v, %d started", err, len(engine.started))
				}
				return
			}
			if err != nil || s.Environment != tc.from || s.Image != tc.image || engine.started[0].Spec.Environment != tc.from {
				t.Errorf("%+v %v", s, err)
			}
		})
	}
}

// TestStartGoesOn has a session whose environment is not its user's any more.
func TestStartGoesOn(t *testing.T) {
	gone := "sha256:" + strings.Repeat("9", 64)
	kept := lab("s-kept", "alice", "/user/alice/")
	kept.Phase, kept.Spec.Image, kept.Spec.Environment = spawner.Stopped, "slipway/notebook:1", gone
	engine := newFake(kept)
	h := start(t, engine, twoImages)
	ask := hubapi.SessionRequest{User: "alice", Launch: "l", Prefix: "/user/alice/", Argv: []string{"x"}, Options: map[string]any{"environment": gone, "profile": "both"}}
	if s, err := h.client(t, spawnerToken).StartSession(t.Context(), ask); err != nil || s.Environment != gone || s.Image != "slipway/notebook:1" {
		t.Errorf("%+v %v", s, err)
	}
	ask.User, ask.Prefix = "bob", "/user/bob/"
	if _, err := h.client(t, spawnerToken).StartSession(t.Context(), ask); !errs.Is(err, errs.NotFound) {
		t.Errorf("another user's: %v", err)
	}
	page := h.form(t, url.Values{"user": {"alice"}, "name": {""}, "options": {`{"environment":"` + gone + `"}`}})
	if !strings.Contains(page, `value="`+gone+`"`) || strings.Contains(page, "is not offered any more") {
		t.Error("the kept changes cannot be reached from the form")
	}
}

func TestSpawnFormOffersEnvironments(t *testing.T) {
	h := start(t, newFake(), nil)
	options := func(user, options string) (values []string, chosen string) {
		for _, s := range elements(t, h.form(t, url.Values{"user": {user}, "options": {options}}), "select") {
			for o := range s.Descendants() {
				if attribute(s, "name") == "environment" && o.Data == "option" {
					values = append(values, attribute(o, "value"))
					for _, a := range o.Attr {
						if a.Key == "selected" {
							chosen = attribute(o, "value")
						}
					}
				}
			}
		}
		return values, chosen
	}
	if got, chosen := options("alice", `{"environment":"mine:v 1"}`); strings.Join(got, " ") != " "+theDigest+" sha256:ddeeff" || chosen != theDigest {
		t.Errorf("%q, chosen %q", got, chosen)
	}
	if got, _ := options("bob", ""); len(got) > 0 {
		t.Errorf("bob is offered %q", got)
	}
}

func TestNoEnvironmentsKept(t *testing.T) {
	h := start(t, newFake(), func(c *Config) { c.Environments = nil })
	ask := hubapi.SessionRequest{User: "alice", Launch: "l", Prefix: "/user/alice/", Argv: []string{"x"}, Options: map[string]any{"environment": "mine"}}
	if _, err := h.client(t, spawnerToken).StartSession(t.Context(), ask); !errs.Is(err, errs.Missing) {
		t.Error(err)
	}
	h.form(t, url.Values{"user": {"alice"}, "options": {`{"environment":"mine"}`}})
}
