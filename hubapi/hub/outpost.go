package hub

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// Event is one step of a start for a Hub whose Spawner waits to be told (jupyterhub-forwardbasespawner). One of Message and HTML
// is given. HTML is shown as it is, so all in it must be escaped; where it begins with <details><summary> the Hub puts the time
// into the summary. Failed ends the start: the Hub cancels it and stops the server.
type Event struct {
	Percent int    `json:"progress"`
	Message string `json:"message,omitempty"`
	HTML    string `json:"html_message,omitempty"`
	Failed  bool   `json:"failed,omitempty"`
}

// eventsDoor is where below its API such a Hub takes events: /users/progress/events/<user>[/<server>].
const eventsDoor = "/users/progress/events/"

// PostEvent tells the Hub of one step, once. The address is the one that the Hub named for the server (JUPYTERHUB_EVENTS_URL), and
// token is the server's. Invalid: the address is none of a Hub, or the Hub does not take the event, which is empty or filtered
// there. NotFound: the Hub does not know the server, or has no such door. Both are final; a Hub that is stopping the server takes
// the event and drops it. Trying again is the caller's matter, because it knows what is still worth telling.
//
// The address came with a request, so only the user and the server are taken from it: whoever can name addresses must not
// be able to send a credential, or the service, anywhere else.
func (c *Client) PostEvent(ctx context.Context, address string, token secret.Text, e Event) error {
	path, err := eventsPath(address)
	if err != nil {
		return err
	}
	k := call{
		method: http.MethodPost, path: path, token: token, body: e, what: "tell the Hub of a start's progress", scope: "access:servers", careful: true,
	}
	_, err = c.ask(ctx, k, nil)
	return err
}

// eventsPath gives the part of an events address below the Hub's API.
func eventsPath(address string) (string, error) {
	const example = "an address such as http://hub:8081/hub/api" + eventsDoor + "USER/SERVER"
	u, err := url.Parse(address)
	if err != nil {
		return "", errs.New(errs.Invalid, "JUPYTERHUB_EVENTS_URL is no URL").With(example)
	}
	bad := errs.Bad("JUPYTERHUB_EVENTS_URL", (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), example) // no user, no query
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", bad
	}
	_, rest, found := strings.Cut(u.EscapedPath(), eventsDoor)
	user, server, _ := strings.Cut(rest, "/")
	if !found || !plain(user) || server != "" && !plain(server) {
		return "", bad
	}
	return eventsDoor + rest, nil
}

// plain reports whether an escaped segment is a name, and no step in a path.
func plain(segment string) bool {
	name, err := url.PathUnescape(segment)
	return err == nil && name != "" && name != "." && name != ".." && !strings.Contains(segment, "/")
}

// PostFlavors tells a Hub what can be started here, and how much of it is left. The address is the administrator's
// (/hub/api/outpostflavors/<name>); the service's token needs the scope custom:outpostflavors:set.
func (c *Client) PostFlavors(ctx context.Context, address string, flavors any) error {
	k, err := c.owned(call{
		method: http.MethodPost, url: address, body: flavors, what: "tell the Hub of the flavors", scope: "custom:outpostflavors:set",
	})
	if err != nil {
		return err
	}
	_, err = c.ask(ctx, k, nil)
	return err
}
