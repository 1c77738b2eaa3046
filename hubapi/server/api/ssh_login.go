package api

import (
	"net/http"
	"slices"
	"strings"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/logins"
	"slipway/hubapi/server/web"
	"slipway/internal/devicelogin"
	"slipway/internal/errs"
	"slipway/spawner"
)

// beginSSHLogin lets anybody ask for a certificate, which a user is to confirm. A hub must be meant: what is asked of
// one must not be confirmed at another, where the same name may be somebody else's.
func (s *SSHHandlers) beginSSHLogin(r *http.Request, in hubapi.SSHLoginRequest) (hubapi.DeviceLogin, error) {
	if s.authority == nil {
		return hubapi.DeviceLogin{}, noSSH()
	}
	page, err := logins.Page(logins.Pages(r, s.hubs, s.logins), in.Hub)
	if err != nil {
		return hubapi.DeviceLogin{}, err
	}
	if strings.TrimSpace(in.Key) == "" {
		return hubapi.DeviceLogin{}, errs.Bad("key", "", "the public key that the certificate is to be for")
	}
	l, err := s.authority.Begin(devicelogin.Ask{
		Hub: page.Hub, Key: in.Key, Computer: in.Computer, Address: s.web.AddressOf(r),
		Peer: s.web.PeerOf(r),
	})
	if err != nil {
		return hubapi.DeviceLogin{}, err
	}
	return logins.Wire(l, page), nil
}

// pollSSHLogin tells what has become of a login: 202 while it waits.
func (s *SSHHandlers) pollSSHLogin(w http.ResponseWriter, r *http.Request) error {
	if s.authority == nil {
		return noSSH()
	}
	id, err := web.Param(r, "id")
	if err != nil {
		return err
	}
	state, err := s.authority.Poll(r.Context(), id)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	if state.Pending {
		web.WriteJSON(w, http.StatusAccepted, hubapi.SSHLoginState{Pending: true, Targets: []string{}})
		return nil
	}
	c, owner := state.Certificate, state.Pass.Owner
	caller := spawner.Caller{Hub: owner.Hub, User: spawner.User(owner.User)}
	e := audit.Of(r.Context())
	e.Caller, e.Door = caller, audit.DoorSSHKey
	audit.Note(r.Context(), issuedWords,
		"serial", c.Serial, "key", c.Fingerprint, "session", c.Session, "expires", c.Expires, "computer", c.Computer, "from", s.web.AddressOf(r))
	wired := convert.SSHCertificate(c)
	web.WriteJSON(
		w, http.StatusOK,
		hubapi.SSHLoginState{Hub: owner.Hub, User: owner.User, Certificate: &wired, Targets: s.SSHTargets(r, caller)},
	)
	return nil
}

// SSHTargets are what a user's login names may end in: the profiles, and her servers with a name that run.
func (s *SSHHandlers) SSHTargets(r *http.Request, c spawner.Caller) []string {
	targets := []string{}
	for _, p := range s.offers.Of(c.Hub, c.User).Profiles {
		targets = append(targets, p.Name)
	}
	all, err := s.workloads.List(r.Context(), c)
	if err != nil {
		return targets
	}
	for _, w := range all {
		if w.Owner == c.User && w.Kind.HubServer() && w.Name != "" && w.Phase.Active() &&
			!slices.Contains(targets, w.Name) {
			targets = append(targets, w.Name)
		}
	}
	return targets
}
