package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// Hub is what a load asks of a Hub: of each method one call is one thing that a user waits for.
type Hub interface {
	// Active returns the names of the users who have a server.
	Active(ctx context.Context) ([]string, error)
	// Create makes users who are not there yet. An error tells nothing of which of them were made.
	Create(ctx context.Context, users []string) error
	// Token makes a token that is the user's.
	Token(ctx context.Context, user string) (secret.Text, error)
	// Start asks for the user's server, as often and as late as a busy Hub wants: it is ready, or else pending.
	Start(ctx context.Context, user string) (ready bool, err error)
	// Await waits until a pending server is ready. An error says why it will not be.
	Await(ctx context.Context, user string) error
	// Visit opens the server as its user's browser would.
	Visit(ctx context.Context, user string, token secret.Text) error
	// Stop stops the server and waits until it is gone. None there is success.
	Stop(ctx context.Context, user string) error
	// Delete removes the user. None there is success.
	Delete(ctx context.Context, user string) error
}

// Config says what load there is to be. All fields without a stated default are required.
type Config struct {
	Hub         Hub
	Users       int
	Rate        float64       // starts asked for in a second; 0: as fast as Concurrency allows
	Concurrency int           // users at once who wait for an answer
	Hold        time.Duration // between the last start and the first stop
	Limit       time.Duration // of all but the clearing up. Zero: Longest
	Shared      bool          // the Hub may have other users at work
	Name        string        // tells the users of this load from others'
	Tell        func(State)   // is told now and then how it goes. Nil: nobody
}

// The bounds of a load.
const (
	MostUsers = 5000
	MostWays  = 500 // of Concurrency
	Longest   = time.Hour
	clearTime = 15 * time.Minute
	tellEach  = 2 * time.Second
	batch     = 100 // users made with one request
)

// Prefix begins the name of every user that a load makes.
const Prefix = "bench-"

// Check says what is wrong with a load.
func (c Config) Check() error {
	var all []error
	note := func(wrong bool, field string, value any, remedy string) {
		if wrong {
			all = append(all, errs.Bad(field, value, remedy))
		}
	}
	note(c.Users < 1 || c.Users > MostUsers, "users", c.Users, fmt.Sprintf("1 to %d", MostUsers))
	note(!(c.Rate >= 0 && c.Rate <= 1000), "rate", c.Rate, "0 to 1000 starts a second; 0: as fast as they are answered")
	note(c.Concurrency < 1 || c.Concurrency > MostWays, "concurrency", c.Concurrency, fmt.Sprintf("1 to %d", MostWays))
	note(c.Hold < 0 || c.Hold > Longest, "hold", c.Hold, "0 to 1h")
	note(c.Limit < 0 || c.Limit > Longest, "limit", c.Limit, "up to 1h")
	note(c.Name == "" || strings.ContainsFunc(
		c.Name, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') },
	),
		"name", c.Name, "lower-case letters and digits")
	return errors.Join(all...)
}

// users returns the names of the load's users.
func (c Config) users() []string {
	names := make([]string, c.Users)
	for i := range names {
		names[i] = fmt.Sprintf("%s%s-%04d", Prefix, c.Name, i)
	}
	return names
}

// alone refuses a Hub at which others work, unless they were asked for.
func (c Config) alone(ctx context.Context) error {
	active, err := c.Hub.Active(ctx)
	if err != nil {
		return fmt.Errorf("look who uses the Hub: %w", err)
	}
	if len(active) > 0 && !c.Shared {
		return errs.New(errs.Conflict, "%d users have a server at this Hub, %s among them", len(active), active[0]).
			With("a load makes the Hub slow for them; choose another Hub, or repeat with --yes")
	}
	return nil
}
