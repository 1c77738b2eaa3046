package sshauth

import (
	"context"

	"golang.org/x/crypto/ssh"

	"slipway/internal/devicelogin"
)

// State is what has become of a login.
type State struct {
	Pending     bool
	Pass        Pass        // whom it lets in
	Certificate Certificate // its Serial is 0 where none was asked for
}

// Begin lets somebody ask for a login: for a certificate where a key is given, else for one connection.
func (a *Authority) Begin(ask devicelogin.Ask) (devicelogin.Login, error) {
	ask.Purpose, ask.Computer = devicelogin.SSHConnection, devicelogin.Label(ask.Computer)
	if ask.Key != "" {
		key, _, err := ParseKey(ask.Key)
		if err != nil {
			return devicelogin.Login{}, err
		}
		ask.Purpose, ask.Fingerprint = devicelogin.SSHCertificate, ssh.FingerprintSHA256(key)
	}
	if ask.Login != "" {
		ask.Allows = func(user string) bool { _, fits := Target(ask.Login, user); return fits }
	}
	return a.cfg.Logins.Begin(ask)
}

// Poll returns what has become of a login: errs.Forbidden where it was refused, errs.NotFound where it is over. What
// was confirmed is given once.
func (a *Authority) Poll(ctx context.Context, id string) (State, error) {
	l, ok, err := a.cfg.Logins.Take(id, devicelogin.SSHConnection, devicelogin.SSHCertificate)
	if err != nil || !ok {
		return State{Pending: err == nil}, err
	}
	s := State{Pass: Pass{Owner: l.Owner, Session: AnySession}}
	if l.Key == "" {
		return s, nil
	}
	s.Certificate, err = a.Issue(ctx, l.Owner, Request{Key: l.Key, Session: AnySession, Computer: l.Computer})
	if err != nil {
		a.cfg.Logins.PutBack(l)
		return State{}, err
	}
	s.Pass.Key, s.Pass.Serial, s.Pass.Expires = s.Certificate.Fingerprint, s.Certificate.Serial, s.Certificate.Expires
	return s, nil
}

// Await is Poll for who can wait: it returns when the login is decided or over. When ctx ends, so does the login.
func (a *Authority) Await(ctx context.Context, id string) (State, error) {
	if err := a.cfg.Logins.Wait(ctx, id); err != nil {
		return State{}, err
	}
	return a.Poll(ctx, id)
}
