package hub

import (
	"context"
	"net/http"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// Event is one step of a start for a Hub whose Spawner waits to be told (jupyterhub-forwardbasespawner). The Hub shows
// HTML as it is, and Message too where there is no HTML: so all in HTML must be escaped, and one that has text to tell
// gives both. Where HTML begins with <details><summary> the Hub puts the time into the summary. Failed ends the start:
// the Hub cancels it and stops the server, and answers only then.
type Event struct {
	Percent int    `json:"progress"`
	Message string `json:"message,omitempty"`
	HTML    string `json:"html_message,omitempty"`
	Failed  bool   `json:"failed,omitempty"`
}

// PostEvent tells the Hub of one step of a server's start, once; token is that server's. Invalid: the Hub does not take
// this event, which is empty or filtered there. NotFound: it does not know the server, or has no such door. Both are
// final. A Hub that is stopping the server takes the event and drops it. Trying again is the caller's matter, because
// it knows what is still worth telling.
//
// The Spawner names an address for this in the server's environment (JUPYTERHUB_EVENTS_URL). It is not used: it came
// with a request, and whoever can name addresses must not be able to send a credential, or the service, anywhere else.
// What it says beyond the Hub's API is the user and the server, which are known.
func (c *Client) PostEvent(ctx context.Context, user, server string, token secret.Text, e Event) error {
	if user == "" {
		return errs.Bad("user", user, "name a user of the Hub")
	}
	path := userPath("progress", "events", segment(user))
	if server != "" {
		path += "/" + segment(server)
	}
	patience := askTime
	if e.Failed {
		patience = slowTime
	}
	_, err := c.ask(ctx, call{
		method: http.MethodPost, path: path, token: token, body: e,
		what:  "tell the Hub of the start of " + serverName(user, server),
		scope: "access:servers", careful: true, time: patience,
	}, nil)
	return err
}

// PostFlavors tells a Hub what can be started here, and how much of it is left. The address is the administrator's
// (/hub/api/outpostflavors/<name>); the service's token needs the scope custom:outpostflavors:set.
func (c *Client) PostFlavors(ctx context.Context, address string, flavors any) error {
	k, err := c.owned(call{
		method: http.MethodPost, url: address, body: flavors, what: "tell the Hub of the flavors",
		scope: "custom:outpostflavors:set",
	})
	if err != nil {
		return err
	}
	_, err = c.ask(ctx, k, nil)
	return err
}
