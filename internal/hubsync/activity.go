package hubsync

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner"
)

const (
	activityEvery = time.Minute
	// activitySpread is the part of that time over which the users are told of, one after the other.
	activitySpread = 0.8
	// enough failures in a row are a Hub that is down, or a token that it does not take: the rest waits for the next
	// minute.
	enough = 3
)

// postActivity tells the Hub of activity. What was told is remembered by session; what is to be told is asked of the
// engine each time, so nothing can pile up and the newest is always told.
func (s *Syncer) postActivity(ctx context.Context) {
	told := stamps{}
	t := trouble{log: s.log, what: "tell the Hub of activity"}
	for wait := rand.N(activityEvery); clock.Sleep(ctx, wait); {
		begun := time.Now()
		t.note(ctx, s.activityRound(ctx, told))
		wait = max(activityEvery-time.Since(begun), time.Second)
	}
}

// stamps are the times that the Hub has been told of.
type stamps map[spawner.Server]time.Time

// news returns by user what the Hub has not been told, and forgets sessions that do not run. A stamp is never later
// than now: a clock that was set back must not make a session look busy.
func (t stamps) news(sessions []spawner.ActiveSession, now time.Time) map[spawner.User]map[string]time.Time {
	fresh, runs := map[spawner.User]map[string]time.Time{}, map[spawner.Server]bool{}
	for _, a := range sessions {
		at, server := a.Active, spawner.Server{User: a.User, Name: a.Name}
		if at.After(now) {
			at = now
		}
		if runs[server] = true; !at.After(t[server]) {
			continue
		}
		if fresh[a.User] == nil {
			fresh[a.User] = map[string]time.Time{}
		}
		fresh[a.User][a.Name] = at
	}
	maps.DeleteFunc(t, func(s spawner.Server, _ time.Time) bool { return !runs[s] })
	return fresh
}

// activityRound tells of all users with news, spread over the minute. It gives the last error, nil when there was none.
func (s *Syncer) activityRound(ctx context.Context, told stamps) error {
	news := told.news(s.cfg.Engine.LastActive(s.cfg.Name), time.Now())
	users := slices.Collect(maps.Keys(news)) // in another order each time: nobody is always the last
	gap := time.Duration(float64(activityEvery) * activitySpread / float64(len(users)+1))
	var last error
	failed := 0
	for _, user := range users {
		if !clock.Sleep(ctx, gap) {
			return nil
		}
		err := s.postUser(ctx, told, user, news[user])
		if err == nil {
			failed = 0
			continue
		}
		if last = err; !errs.Is(err, errs.Invalid) {
			failed++
		}
		if failed == enough {
			break
		}
	}
	return last
}

// postUser tells of one user. The Hub takes all of a user's servers or none, so that one it does not know is left out
// at a second try; that one has been told of as well as it can.
func (s *Syncer) postUser(ctx context.Context, told stamps, user spawner.User, servers map[string]time.Time) error {
	err := s.cfg.Hub.PostActivity(ctx, string(user), servers)
	if errs.Is(err, errs.NotFound) && len(servers) > 1 {
		for name, at := range servers {
			if err := s.postUser(ctx, told, user, map[string]time.Time{name: at}); err != nil {
				return err
			}
		}
		return nil
	}
	if errs.Is(err, errs.NotFound) {
		s.log.Debug("the Hub does not know a session's server", "user", user, "err", err)
		err = nil
	}
	if err != nil {
		return err
	}
	for name, at := range servers {
		told[spawner.Server{User: user, Name: name}] = at
	}
	return nil
}
