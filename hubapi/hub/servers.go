package hub

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"slipway/internal/errs"
)

// Server is one of a user's servers as the Hub sees it.
type Server struct {
	Name         string    `json:"name"`
	Ready        bool      `json:"ready"`
	Pending      Pending   `json:"pending"`
	Stopped      bool      `json:"stopped"`
	URL          string    `json:"url"`      // its path below the Hub's public address
	FullURL      string    `json:"full_url"` // with that address, where the Hub knows it
	Started      time.Time `json:"started"`
	LastActivity time.Time `json:"last_activity"`
}

// Pending is what the Hub is about to do with a server: spawn, stop, check or rename; empty when nothing.
type Pending string

// UnmarshalJSON reads the word. The Hub says null where nothing is pending; false and other values mean the same.
func (p *Pending) UnmarshalJSON(b []byte) error {
	var word string
	if json.Unmarshal(b, &word) != nil {
		word = ""
	}
	*p = Pending(word)
	return nil
}

// serverName says in errors which server it is.
func serverName(user, server string) string {
	if server == "" {
		return "the default server of " + user
	}
	return "server " + user + "/" + server
}

// Server looks at one server; NotFound when the Hub has no such user or server. It works with every Hub from 2 on.
func (c *Client) Server(ctx context.Context, user, server string) (Server, error) {
	what := "look at " + serverName(user, server)
	k, err := c.ofUser(user, call{method: http.MethodGet, path: userPath(user), what: what, scope: "read:servers"})
	if err != nil {
		return Server{}, err
	}
	k.query = url.Values{"include_stopped_servers": {"1"}}
	var u User
	if _, err := c.ask(ctx, k, &u); err != nil {
		return Server{}, err
	}
	s, ok := u.Servers[server]
	if !ok {
		return Server{}, errs.New(errs.NotFound, "%s: the Hub has no such server", what)
	}
	return s, nil
}

// startTime bounds a start with its waiting for a Hub that is busy.
const startTime = 10 * time.Minute

// StartServer asks for the start of a server with the user's options, which may be nil. It reports whether the server
// is up; when not, it is being started, and Progress tells how it goes. A Hub that throttles starts is asked again when
// it says. Conflict: the server runs or is being stopped. OverQuota: the user has all the named servers that she may
// have. NoCapacity: the Hub takes no more servers. Unavailable: the Hub is down, or the start has failed already, with
// the reason.
//
// The options are sent bare: Hubs before 6 know no other form, and later ones take it.
func (c *Client) StartServer(ctx context.Context, user, server string, options map[string]any) (up bool, err error) {
	what := "start " + serverName(user, server)
	k, err := c.ofUser(
		user, call{method: http.MethodPost, path: serverPath(user, server), what: what, scope: "servers"},
	)
	if err != nil {
		return false, err
	}
	if options != nil {
		k.body = options
	}
	k.careful, k.time = true, startTime
	status, err := c.ask(ctx, k, nil)
	return status == http.StatusCreated, sortStart(err)
}

// sortStart gives the reasons of a refused start, which the Hub tells apart by words alone, their kinds.
func sortStart(err error) error {
	if !errs.Is(err, errs.Invalid) {
		return err
	}
	said := err.Error()
	switch {
	case strings.Contains(said, "already running") || strings.Contains(said, "is pending"):
		return errs.New(errs.Conflict, "%w", err)
	case strings.Contains(said, "maximum of"):
		return errs.New(errs.OverQuota, "%w", err)
	default:
		return err
	}
}

// StopServer asks for the stop of a server, and with remove that the Hub forgets a named one. It reports whether the
// server has stopped; when not, it is being stopped. Stopping what the Hub does not know is success.
func (c *Client) StopServer(ctx context.Context, user, server string, remove bool) (gone bool, err error) {
	what := "stop " + serverName(user, server)
	k, err := c.ofUser(
		user, call{method: http.MethodDelete, path: serverPath(user, server), what: what, scope: "delete:servers"},
	)
	if err != nil {
		return false, err
	}
	if k.time = slowTime; remove {
		k.body = map[string]bool{"remove": true}
	}
	status, err := c.ask(ctx, k, nil)
	if errs.Is(err, errs.NotFound) {
		return true, nil
	}
	return err == nil && status != http.StatusAccepted, err
}
