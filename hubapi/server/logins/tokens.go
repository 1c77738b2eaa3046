package logins

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/web"
	"slipway/internal/accesstokens"
	"slipway/internal/devicelogin"
	"slipway/internal/errs"
	"slipway/spawner"
)

// Config is what a Room needs.
type Config struct {
	Web    *web.Core
	Hubs   *hubs.Set
	Logins *devicelogin.Logins
	Tokens *accesstokens.Tokens // nil: the service gives none out
}

// Room serves logins for access tokens, and the tokens.
type Room struct{ cfg Config }

// New makes a Room.
func New(cfg Config) *Room { return &Room{cfg} }

// Open has the routes for which nobody needs to be known: logins are nobody's yet.
func (s *Room) Open(r chi.Router) {
	r.Method("POST", hubapi.Base+"/login/device", web.Serve(s.cfg.Web, 200, s.begin))
	r.Method("POST", hubapi.Base+"/login/token", web.Serve(s.cfg.Web, 200, s.poll))
}

// Routes has the routes of a user's tokens.
func (s *Room) Routes(r chi.Router) {
	r.Method("GET", "/tokens", web.Serve(s.cfg.Web, 200, s.list))
	r.Method("DELETE", "/tokens/{id}", web.Serve(s.cfg.Web, 204, s.revoke))
}

func (s *Room) here() error {
	if s.cfg.Tokens != nil {
		return nil
	}
	return errs.New(errs.Missing, "this service gives out no access tokens").
		With("use a token of your Hub (its menu: Token)")
}

// begin lets anybody ask for a token, which a user is to confirm. A hub must be meant: what is asked of one must not be
// confirmed at another, where the same name may be somebody else's.
func (s *Room) begin(r *http.Request, in hubapi.DeviceLoginRequest) (hubapi.DeviceLogin, error) {
	if err := s.here(); err != nil {
		return hubapi.DeviceLogin{}, err
	}
	page, err := Page(Pages(r, s.cfg.Hubs, s.cfg.Logins), in.Hub)
	if err != nil {
		return hubapi.DeviceLogin{}, err
	}
	l, err := s.cfg.Logins.Begin(devicelogin.Ask{
		Purpose: devicelogin.AccessToken, Hub: page.Hub, Computer: in.Computer, Program: in.Program,
		Address: s.cfg.Web.AddressOf(r), Peer: s.cfg.Web.PeerOf(r),
	})
	return Wire(l, page), err
}

// poll tells what has become of a login. A login that there never was is one that is over.
func (s *Room) poll(r *http.Request, in hubapi.DeviceLoginPoll) (hubapi.DeviceLoginState, error) {
	if err := s.here(); err != nil {
		return hubapi.DeviceLoginState{}, err
	}
	interval, inTime := s.cfg.Logins.Looked(in.ID)
	out := hubapi.DeviceLoginState{Status: hubapi.LoginSlowDown, Interval: int(interval.Seconds())}
	if !inTime {
		return out, nil
	}
	l, confirmed, err := s.cfg.Logins.Take(in.ID, devicelogin.AccessToken)
	switch {
	case errs.Is(err, errs.Forbidden):
		out.Status = hubapi.LoginDenied
	case errs.Is(err, errs.NotFound):
		out.Status = hubapi.LoginExpired
	case err != nil:
		return out, err
	case !confirmed:
		out.Status = hubapi.LoginPending
	default:
		return s.issue(r, l)
	}
	return out, nil
}

func (s *Room) issue(r *http.Request, l devicelogin.Confirmed) (hubapi.DeviceLoginState, error) {
	made, text, err := s.cfg.Tokens.Issue(r.Context(), l)
	if err != nil {
		s.cfg.Logins.PutBack(l)
		return hubapi.DeviceLoginState{}, err
	}
	e := audit.Of(r.Context())
	e.Caller, e.Door = spawner.Caller{Hub: made.Hub, User: spawner.User(made.User)}, audit.DoorPage
	audit.Note(
		r.Context(), "an access token is issued", "token", made.ID, "expires", made.Expires, "computer", made.Computer,
		"program", made.Program, "from", s.cfg.Web.AddressOf(r),
	)
	return hubapi.DeviceLoginState{Status: hubapi.LoginApproved, Token: text.Reveal(), Access: &made}, nil
}

func (s *Room) list(r *http.Request, _ web.None) (hubapi.AccessTokens, error) {
	out := hubapi.AccessTokens{Tokens: []hubapi.AccessToken{}}
	if err := s.here(); err != nil {
		return out, err
	}
	owner, err := Owner(web.CallerOf(r.Context()))
	if err == nil {
		out.Tokens = append(out.Tokens, s.cfg.Tokens.List(owner)...)
	}
	return out, err
}

func (s *Room) revoke(r *http.Request, _ web.None) (web.None, error) {
	if err := s.here(); err != nil {
		return web.None{}, err
	}
	owner, err := Owner(web.CallerOf(r.Context()))
	if err != nil {
		return web.None{}, err
	}
	id, err := web.Param(r, "id")
	if err != nil {
		return web.None{}, err
	}
	return web.None{}, s.cfg.Tokens.Revoke(r.Context(), owner, id)
}
