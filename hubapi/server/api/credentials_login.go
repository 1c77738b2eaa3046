package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/web"
	"slipway/internal/credentials"
	"slipway/internal/errs"
)

// issuerLogins are the logins at issuers that users have begun here. Each is waited for in the background: who has
// confirmed it is logged in, also when nobody looks any more.
type issuerLogins struct {
	mu  sync.Mutex
	all map[string]*issuerLogin
}

// issuerLogin is one of them.
type issuerLogin struct {
	principal string
	told      hubapi.CredentialLogin
	done      chan struct{} // closed once the fields below are set
	entry     credentials.Entry
	err       error
}

// loginKept is how long after its time what has become of a login can be asked for.
const loginKept = 10 * time.Minute

func newIssuerLogins() *issuerLogins { return &issuerLogins{all: map[string]*issuerLogin{}} }

func (l *issuerLogins) add(login *issuerLogin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, each := range l.all {
		if time.Since(each.told.Expires) > loginKept {
			delete(l.all, id)
		}
	}
	l.all[login.told.ID] = login
}

// find returns a login of a user's.
func (l *issuerLogins) find(principal, id string) (*issuerLogin, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if login := l.all[id]; login != nil && login.principal == principal {
		return login, nil
	}
	return nil, errs.New(errs.NotFound, "there is no such login, or its time is over").With("begin it once more")
}

// beginLogin begins a login at an issuer, and waits for it in the background.
func (s *CredentialHandlers) beginLogin(ctx context.Context, principal, issuer string) (hubapi.CredentialLogin, error) {
	g, err := s.credentials.BeginDevice(ctx, principal, issuer)
	if err != nil {
		return hubapi.CredentialLogin{}, err
	}
	login := &issuerLogin{
		principal: principal, done: make(chan struct{}),
		told: hubapi.CredentialLogin{ID: g.ID, Issuer: issuer, URL: g.URL, Code: g.Code, Expires: g.Expires.UTC()},
	}
	s.issuerLogins.add(login)
	caller, request := web.CallerOf(ctx), web.TraceOf(ctx).ID
	s.web.Background(func(ctx context.Context) {
		defer close(login.done)
		login.entry, login.err = s.credentials.Device(ctx, principal, g.ID)
		if login.err == nil {
			s.audit.Write(ctx, caller, "issuer", "issuer login", "a login at an issuer is confirmed", nil,
				"credential", issuer, "subject", login.entry.Subject, "request", request)
		}
	})
	return login.told, nil
}

// IssuerLogin returns a login of a user's, whether it has ended, and why it has failed. It does not wait.
func (s *CredentialHandlers) IssuerLogin(principal, id string) (told hubapi.CredentialLogin, ended bool, err error) {
	login, err := s.issuerLogins.find(principal, id)
	if err != nil {
		return hubapi.CredentialLogin{}, false, err
	}
	select {
	case <-login.done:
		return login.told, true, login.err
	default:
		return login.told, false, nil
	}
}

func (s *CredentialHandlers) BeginCredentialLogin(r *http.Request, _ web.None) (hubapi.CredentialLogin, error) {
	principal, err := s.Principal(r, "", Manage)
	if err != nil {
		return hubapi.CredentialLogin{}, err
	}
	name, err := web.Param(r, "name")
	if err != nil {
		return hubapi.CredentialLogin{}, err
	}
	return s.beginLogin(r.Context(), principal, name)
}

// loginWait is how long a look at a login waits.
const loginWait = 20 * time.Second

func (s *CredentialHandlers) awaitCredentialLogin(r *http.Request, _ web.None) (hubapi.CredentialLoginState, error) {
	principal, err := s.Principal(r, "", Manage)
	if err != nil {
		return hubapi.CredentialLoginState{}, err
	}
	id, err := web.Param(r, "id")
	if err != nil {
		return hubapi.CredentialLoginState{}, err
	}
	login, err := s.issuerLogins.find(principal, id)
	if err != nil {
		return hubapi.CredentialLoginState{}, err
	}
	select {
	case <-login.done:
	case <-time.After(loginWait):
		return hubapi.CredentialLoginState{Pending: true}, nil
	case <-r.Context().Done():
		return hubapi.CredentialLoginState{}, r.Context().Err()
	case <-s.web.Ending():
		return hubapi.CredentialLoginState{}, errs.New(errs.Unavailable, "the service is ending").
			With("begin the login once more in a moment")
	}
	if login.err != nil {
		return hubapi.CredentialLoginState{}, login.err
	}
	wired := convert.Credential(login.entry)
	return hubapi.CredentialLoginState{Credential: &wired}, nil
}
