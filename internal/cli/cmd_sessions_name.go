package cli

import (
	"context"
	"regexp"

	"slipway/hubapi"
	"slipway/internal/errs"
)

// defaultServer is what the default server is called where a word must stand for it: its own name is empty.
const defaultServer = "default"

// sessionID matches the IDs that the service gives; `self` is the session that asks.
var sessionID = regexp.MustCompile(`^(s-[a-z0-9]{16}|self)$`)

// here returns the word for the session that is meant where none is named: the one around this program, else the default.
func here(env Env) string {
	if inSession(env) {
		return hubapi.Self
	}
	return defaultServer
}

// namedOrHere returns the ID of the session that --session names, for a command that is for the session around it.
func namedOrHere(ctx context.Context, env Env, client *hubapi.Client, word, command string) (string, error) {
	if word == hubapi.Self && !inSession(env) {
		return "", errs.New(errs.Invalid, "there is no session here").
			With("name the session: `" + command + " --session default`")
	}
	return idOf(ctx, client, word, true)
}

// idOf returns the ID of the session that a word means: an ID itself, or the name of a server of the user's. What means
// neither is left to the service to refuse.
func idOf(ctx context.Context, client *hubapi.Client, word string, active bool) (string, error) {
	if sessionID.MatchString(word) {
		return word, nil
	}
	me, err := client.Me(ctx)
	if err != nil {
		return "", err
	}
	all, err := client.Sessions(ctx, me.User, "")
	if err != nil {
		return "", err
	}
	return namedSession(all, me.User, word, active)
}

// namedSession finds the one session of a user's server of that name. active: one that can be stopped is meant before
// those that are.
func namedSession(all []hubapi.Session, user, word string, active bool) (string, error) {
	name := serverName(all, user, word)
	var found, running []hubapi.Session
	for _, s := range all {
		switch {
		case s.ID == word:
			return word, nil
		case s.User != user || s.Want == "gone" || s.Name != name:
			continue
		case s.Phase != "stopped":
			running = append(running, s)
		}
		found = append(found, s)
	}
	if active && len(running) > 0 {
		found = running
	}
	switch len(found) {
	case 0:
		return word, nil
	case 1:
		return found[0].ID, nil
	}
	var several []errs.Detail
	for _, s := range found {
		several = append(several, errs.Detail{What: s.ID + ": " + s.Phase + ", " + s.Profile})
	}
	return "", errs.New(errs.Conflict, "%d of your sessions are called %q", len(found), word).Naming(several).
		With("name one by its ID")
}

// serverName returns the name of the server that a word means: `default` is the default one, unless a server of hers
// has that name.
func serverName(all []hubapi.Session, user, word string) string {
	if word != defaultServer {
		return word
	}
	for _, s := range all {
		if s.User == user && s.Name == defaultServer && s.Want != "gone" {
			return word
		}
	}
	return ""
}
