// Package logins serves what lets programs on users' own computers in: logins that a user confirms on a page, and the
// access tokens that the programs get. It says for logins by ssh, too, who may confirm one, and on which page.
//
// It promises that a token is told to whoever began the login alone, and once. It must not know what a token permits.
package logins

import (
	"net/http"
	"slices"
	"strings"

	"slipway/hubapi"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/web"
	"slipway/internal/devicelogin"
	"slipway/internal/errs"
	"slipway/spawner"
)

// Owner returns the user for whom the caller may let others in, and take that away again: the caller, where it is
// a user. A session or job is not let in though it acts as its owner: what runs in it may be somebody else's, and a key
// lets in for ever.
func Owner(c spawner.Caller) (devicelogin.Owner, error) {
	switch {
	case c.Workload != "":
		return devicelogin.Owner{}, errs.New(
			errs.Forbidden,
			"what lets in as you is not seen or changed out of a session or job, in which others' code may run",
		).With("use the pages of your Hub's Slipway, or `slipway` on your own computer")
	case c.Spawner || c.System || c.User == "":
		return devicelogin.Owner{}, errs.New(errs.Forbidden, "only a user has keys and access tokens").
			With(web.TokenRemedy)
	}
	return devicelogin.Owner{Hub: c.Hub, User: string(c.User)}, nil
}

// Pages are those of the hubs that a request may be of.
func Pages(r *http.Request, all *hubs.Set, l *devicelogin.Logins) []devicelogin.Page {
	served := all.Of(r.Context())
	return slices.DeleteFunc(l.Pages(), func(p devicelogin.Page) bool {
		return !slices.ContainsFunc(served, func(h hubs.Hub) bool { return h.Name == p.Hub })
	})
}

// Page finds the page of a hub; where none is named, the only one.
func Page(pages []devicelogin.Page, hub string) (devicelogin.Page, error) {
	var names []string
	for _, p := range pages {
		if p.Hub == hub || hub == "" && len(pages) == 1 {
			return p, nil
		}
		names = append(names, p.Hub)
	}
	if len(names) == 0 {
		return devicelogin.Page{}, errs.New(
			errs.Missing, "no hub of this service has pages on which a login could be confirmed",
		).With("use a token of your Hub, or add a public key with `slipway ssh-key add`; an administrator sets hubs.token_file for pages")
	}
	return devicelogin.Page{}, errs.Bad("hub", hub, "one of "+strings.Join(names, ", "))
}

// Wire makes the API's form of a login.
func Wire(l devicelogin.Login, page devicelogin.Page) hubapi.DeviceLogin {
	return hubapi.DeviceLogin{
		ID: l.ID, Code: l.Code, URL: page.URL, Interval: int(l.Interval.Seconds()), Expires: l.Expires.UTC(),
	}
}
