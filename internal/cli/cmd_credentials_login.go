package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"slipway/hubapi"
	"slipway/internal/cli/render"
	"slipway/internal/errs"
)

// login has the user confirm at an issuer's own page.
func (s *credentialsCall) login(ctx context.Context, issuer string) error {
	client, err := connect(s.env)
	if err != nil {
		return err
	}
	begun, err := client.BeginCredentialLogin(ctx, issuer)
	if err != nil {
		return err
	}
	fmt.Fprintf(
		s.env.Stderr, "Open  %s\nand see that the code is  %s\n", render.Printable(begun.URL),
		render.Printable(begun.Code),
	)
	if !s.noBrowser {
		openBrowser(s.env, begun.URL)
	}
	c, err := s.await(ctx, client, begun)
	if ctx.Err() != nil {
		return errs.New(
			errs.Conflict, "interrupted; confirmed on the page before the code ends, the login counts all the same",
		)
	}
	if err != nil {
		return err
	}
	return s.tell(c, "is there")
}

// await looks until the login is confirmed, and says now and then that it does. A service that is away for a moment is
// no end.
func (s *credentialsCall) await(
	ctx context.Context, client *hubapi.Client, begun hubapi.CredentialLogin,
) (hubapi.Credential, error) {
	for told := time.Now(); ; {
		state, err := client.AwaitCredentialLogin(ctx, begun.ID)
		switch {
		case err != nil && (!errs.Is(err, errs.Unavailable) || time.Now().After(begun.Expires)):
			return hubapi.Credential{}, err
		case err == nil && !state.Pending && state.Credential == nil:
			return hubapi.Credential{}, errors.New("the service has confirmed the login without a credential")
		case err == nil && !state.Pending:
			return *state.Credential, nil
		}
		if time.Since(told) >= 30*time.Second {
			told = time.Now()
			fmt.Fprintf(
				s.env.Stderr, "credentials login: waiting; the code is good for %s\n", left(&begun.Expires, told),
			)
		}
		if err := shortly(ctx); err != nil {
			return hubapi.Credential{}, err
		}
	}
}

// shortly waits a second.
func shortly(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Second):
		return nil
	}
}
