package pages

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/api"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/internal/sshauth"
	"slipway/internal/sshclientconfig"
	"slipway/internal/webui"
	"slipway/spawner/catalog"
)

// sshPages are the pages of keys and of logins by ssh. A code is only ever typed: an address with one in it would have
// people confirm what somebody else has begun.
func (p *Pages) sshPages(r chi.Router) {
	r.Get("/ssh", p.show(p.sshPage))
	r.Get("/ssh/keys", p.show(p.sshPage)) // where a key is that was not taken
	r.Post("/ssh/keys", p.typedKey)
	r.Post("/ssh/keys/remove", p.act(p.removeKey))
	r.Post("/ssh/certificates/revoke", p.act(p.revokeCertificate))
	r.Post("/ssh/connections/end", p.act(p.endConnections))
	r.Get("/ssh/connections/ended", p.show(p.sshDone("Ended", "Your ssh connections are ended. Your sessions go on.")))
	r.Get("/ssh/login", p.show(p.sshLoginPage))
	r.Post("/ssh/login", p.typedCode)
	r.Post("/ssh/login/decide", p.act(p.decideLogin))
	r.Get("/ssh/login/confirmed", p.show(p.sshDone("Let in", "What you have begun goes on by itself.")))
	r.Get("/ssh/login/refused", p.show(p.sshDone("Refused", "Nobody was let in.")))
}

func (p *Pages) sshPage(w http.ResponseWriter, r *http.Request, v visitor) error {
	view, err := p.sshView(r, v)
	if err != nil {
		return err
	}
	return webui.SSHPage(w, p.view(v), view)
}

func (p *Pages) sshView(r *http.Request, v visitor) (webui.SSHView, error) {
	owner, err := p.cfg.API.SSHOwner(v.caller)
	if err != nil {
		return webui.SSHView{}, err
	}
	a := p.cfg.SSH
	view := webui.SSHView{
		Life: a.Life(), Fingerprints: a.Fingerprints(), KnownHosts: a.KnownHosts()[0], Config: p.sshConfig(r, v),
		Command: loginCommand(v.hub),
		Places:  p.sshPlaces(r, v),
	}
	for _, k := range a.Keys(owner) {
		view.Keys = append(view.Keys, convert.SSHKey(k))
	}
	for _, c := range a.Certificates(owner) {
		view.Certificates = append(view.Certificates, convert.SSHCertificate(c))
	}
	return view, nil
}

// loginCommand logs a computer in; empty where the service's own address is not known, which the Hub's is not.
func loginCommand(h hubs.Hub) string {
	if h.Address == "" {
		return ""
	}
	return "slipway ssh login " + h.Address
}

// sshConfig returns the entries for ssh's configuration; empty where the visitor's name cannot be written there.
func (p *Pages) sshConfig(r *http.Request, v visitor) string {
	text, err := sshclientconfig.Service{
		Name: "slipway", Host: p.cfg.SSH.Host(), Port: p.cfg.SSH.Port(), User: string(v.caller.User),
		Targets:    p.cfg.API.SSHTargets(r, v.caller),
		KnownHosts: p.cfg.SSH.KnownHosts(),
	}.Plain()
	if err != nil {
		return ""
	}
	return text
}

// sshPlaces are where the visitor gets by ssh. A server with the name of a profile is reached like it.
func (p *Pages) sshPlaces(r *http.Request, v visitor) []webui.SSHPlace {
	user := string(v.caller.User)
	profiles := p.cfg.Offers.Of(v.caller.Hub, v.caller.User).Profiles
	places := []webui.SSHPlace{{Title: "Your default server", Line: p.cfg.SSH.Line(user, "")}}
	for _, target := range p.cfg.API.SSHTargets(r, v.caller) {
		place := webui.SSHPlace{Title: target, Detail: "your server of this name", Line: p.cfg.SSH.Line(user, target)}
		if i := slices.IndexFunc(profiles, func(each catalog.Profile) bool { return each.Name == target }); i >= 0 {
			place.Title, place.Detail = cmp.Or(profiles[i].Title, profiles[i].Name), profiles[i].Description
		}
		places = append(places, place)
	}
	return places
}

// posted returns what a form has sent, and who has, for the log too.
func (p *Pages) posted(r *http.Request, v visitor) (*http.Request, sshauth.Owner, error) {
	owner, err := p.cfg.API.SSHOwner(v.caller)
	return r.WithContext(web.WithCaller(r.Context(), v.caller)), owner, err
}

// typedKey adds a key. What is wrong with one is said where it was typed.
func (p *Pages) typedKey(w http.ResponseWriter, r *http.Request) {
	var v visitor
	_, err := p.acted(w, r, func(r *http.Request, who visitor) (string, error) {
		v = who
		return "", p.addKey(r, who)
	})
	switch kind := errs.KindOf(err); {
	case err == nil:
		http.Redirect(w, r, hubOfPage(r.Context()).PagesPrefix+"ssh", http.StatusSeeOther)
		return
	case v.key != "" && (kind == errs.Invalid || kind == errs.Conflict || kind == errs.OverQuota):
		err = p.keyAgain(w, r, v, err)
	}
	if err != nil {
		p.problem(w, r, err)
	}
}

func (p *Pages) addKey(r *http.Request, v visitor) error {
	r, _, err := p.posted(r, v)
	if err != nil {
		return err
	}
	_, err = audit.Told(p.cfg.API.AddSSHKey, api.AuditKeyAdded)(r, hubapi.SSHKeyRequest{
		Key: r.PostForm.Get("key"), Comment: r.PostForm.Get("comment"),
	})
	return err
}

// keyAgain is the page with what was wrong with a key. What was typed is not on it: it may be a private key.
func (p *Pages) keyAgain(w http.ResponseWriter, r *http.Request, v visitor, wrong error) error {
	view, err := p.sshView(r, v)
	if err != nil {
		return err
	}
	said := p.cfg.Web.ErrorBody(r, wrong).Error
	view.Status, view.Comment = errs.RowOf(errs.KindOf(wrong)).Status, r.PostForm.Get("comment")
	view.Wrong = web.Sentence(said.Message) + " " + web.Sentence(said.Remedy)
	return webui.SSHPage(w, p.view(v), view)
}

func (p *Pages) removeKey(r *http.Request, v visitor) (string, error) {
	r, owner, err := p.posted(r, v)
	if err != nil {
		return "", err
	}
	fingerprint := r.PostForm.Get("fingerprint")
	if err := p.cfg.SSH.RemoveKey(r.Context(), owner, fingerprint); err != nil {
		return "", err
	}
	audit.Note(r.Context(), "an ssh key is removed", "key", fingerprint)
	return "ssh", nil
}

func (p *Pages) revokeCertificate(r *http.Request, v visitor) (string, error) {
	r, owner, err := p.posted(r, v)
	if err != nil {
		return "", err
	}
	serial, err := api.SerialOf(r.PostForm.Get("serial"))
	if err != nil {
		return "", err
	}
	if err := p.cfg.SSH.Revoke(r.Context(), owner, serial); err != nil {
		return "", err
	}
	audit.Note(r.Context(), "an ssh certificate is revoked", "serial", serial)
	return "ssh", nil
}

func (p *Pages) endConnections(r *http.Request, v visitor) (string, error) {
	r, _, err := p.posted(r, v)
	if err != nil {
		return "", err
	}
	_, err = audit.Told(p.cfg.API.EndSSH, api.AuditEnded)(r, web.None{})
	return "ssh/connections/ended", err
}

func (p *Pages) sshLoginPage(w http.ResponseWriter, _ *http.Request, v visitor) error {
	owner, err := p.cfg.API.SSHOwner(v.caller)
	if err != nil {
		return err
	}
	var asks []webui.SSHAsk
	for _, f := range p.cfg.SSH.Found(owner) {
		asks = append(asks, webui.SSHAsk{
			Code: f.Code, Login: f.Login, Computer: f.Computer, Fingerprint: f.Fingerprint, Address: f.Address,
		})
	}
	view := p.loginView(owner)
	view.Asks = asks
	return webui.SSHLoginPage(w, p.view(v), view)
}

func (p *Pages) loginView(owner sshauth.Owner) webui.SSHLoginView {
	hub := ""
	if len(p.cfg.SSH.Pages()) > 1 {
		hub = owner.Hub
	}
	return webui.SSHLoginView{Life: p.cfg.SSH.Life(), Hub: hub}
}

// typedCode looks for the login of a code. One that is wrong is asked for again.
func (p *Pages) typedCode(w http.ResponseWriter, r *http.Request) {
	var v visitor
	_, err := p.acted(w, r, func(r *http.Request, who visitor) (string, error) {
		v = who
		return "", p.findLogin(r, who)
	})
	if errs.Is(err, errs.NotFound) && p.cfg.SSH != nil {
		err = p.codeAgain(w, r, v, err)
	} else if err == nil {
		http.Redirect(w, r, hubOfPage(r.Context()).PagesPrefix+"ssh/login", http.StatusSeeOther)
	}
	if err != nil {
		p.problem(w, r, err)
	}
}

func (p *Pages) findLogin(r *http.Request, v visitor) error {
	_, owner, err := p.posted(r, v)
	if err != nil {
		return err
	}
	_, err = p.cfg.SSH.Find(owner, r.PostForm.Get("code"))
	return err
}

// codeAgain is the page with the field for a code, and what was wrong with the one that was typed.
func (p *Pages) codeAgain(w http.ResponseWriter, r *http.Request, v visitor, wrong error) error {
	owner, err := p.cfg.API.SSHOwner(v.caller)
	if err != nil {
		return err
	}
	said := p.cfg.Web.ErrorBody(r, wrong).Error
	view := p.loginView(owner)
	view.Status, view.Wrong = http.StatusNotFound, web.Sentence(said.Message)+" "+web.Sentence(said.Remedy)
	return webui.SSHLoginPage(w, p.view(v), view)
}

func (p *Pages) decideLogin(r *http.Request, v visitor) (string, error) {
	r, owner, err := p.posted(r, v)
	if err != nil {
		return "", err
	}
	answer := r.PostForm.Get("answer")
	if answer != "yes" && answer != "no" {
		return "", errs.Bad("answer", answer, "yes or no")
	}
	f, err := p.cfg.SSH.Decide(owner, r.PostForm.Get("code"), answer == "yes")
	if err != nil {
		return "", err
	}
	what, to := "an ssh login is refused", "ssh/login/refused"
	if answer == "yes" {
		what, to = "an ssh login is confirmed", "ssh/login/confirmed"
	}
	audit.Note(r.Context(), what, "login", f.Login, "key", f.Fingerprint, "computer", f.Computer, "from", f.Address)
	return to, nil
}

// sshDone says what was done.
func (p *Pages) sshDone(title, text string) func(http.ResponseWriter, *http.Request, visitor) error {
	return func(w http.ResponseWriter, r *http.Request, v visitor) error {
		webui.Tell(w, r, webui.Notice{
			Status: http.StatusOK, Title: title, Text: text, Next: "You can close this page.",
			Link: v.hub.PagesPrefix + "ssh", Label: "Your keys and computers",
		})
		return nil
	}
}
