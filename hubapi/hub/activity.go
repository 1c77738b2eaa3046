package hub

import (
	"context"
	"net/http"
	"strings"
	"time"

	"slipway/internal/errs"
)

// stampFormat is a time as the Hub writes it.
const stampFormat = "2006-01-02T15:04:05.000000Z"

// PostActivity tells the Hub when a user's servers were last active. NotFound: the Hub knows no such user, or one of
// the servers is unknown to it, and then it has taken none of them. A stamp that is older than the Hub's own is ignored
// by it.
func (c *Client) PostActivity(ctx context.Context, user string, servers map[string]time.Time) error {
	k, err := c.ofUser(user, call{
		method: http.MethodPost, path: userPath(user, "activity"), what: "tell the Hub of the activity of " + user,
		scope: "users:activity",
	})
	if err != nil {
		return err
	}
	k.body = activityOf(servers)
	_, err = c.ask(ctx, k, nil)
	if errs.Is(err, errs.Invalid) && strings.Contains(err.Error(), "No such server") {
		return errs.New(errs.NotFound, "%w", err)
	}
	return err
}

type stamp struct {
	LastActivity string `json:"last_activity"`
}

type activity struct {
	LastActivity string           `json:"last_activity"` // of the user
	Servers      map[string]stamp `json:"servers"`
}

func activityOf(servers map[string]time.Time) activity {
	a, last := activity{Servers: map[string]stamp{}}, time.Time{}
	for name, at := range servers {
		a.Servers[name] = stamp{at.UTC().Format(stampFormat)}
		if at.After(last) {
			last = at
		}
	}
	a.LastActivity = last.UTC().Format(stampFormat)
	return a
}
