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

// sshLabel is the name of the page of keys and certificates where others lead to it.
const sshLabel = "Your keys and computers"

// sshPages are the pages of keys, certificates and connections.
func (p *Pages) sshPages(r chi.Router) {
	r.Get("/ssh", p.show(p.sshPage))
	r.Get("/ssh/keys", p.show(p.sshPage)) // where a key is that was not taken
	r.Post("/ssh/keys", p.typedKey)
	r.Post("/ssh/keys/remove", p.act(p.removeKey))
	r.Post("/ssh/certificates/revoke", p.act(p.revokeCertificate))
	r.Post("/ssh/connections/end", p.act(p.endConnections))
	r.Get("/ssh/connections/ended", p.show(p.done(
		webui.Notice{Title: "Ended", Text: "Your ssh connections are ended. Your sessions go on."}, "ssh", sshLabel,
	)))
}

func (p *Pages) sshPage(w http.ResponseWriter, r *http.Request, v visitor) error {
	view, err := p.sshView(r, v)
	if err != nil {
		return err
	}
	return webui.SSHPage(w, p.view(v), view)
}

func (p *Pages) sshView(r *http.Request, v visitor) (webui.SSHView, error) {
	owner, err := p.cfg.API.SSH.SSHOwner(v.caller)
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
		Targets:    p.cfg.API.SSH.SSHTargets(r, v.caller),
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
	for _, target := range p.cfg.API.SSH.SSHTargets(r, v.caller) {
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
	owner, err := p.cfg.API.SSH.SSHOwner(v.caller)
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
	_, err = audit.Told(p.cfg.API.SSH.AddSSHKey, api.AuditKeyAdded)(r, hubapi.SSHKeyRequest{
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
	_, err = audit.Told(p.cfg.API.SSH.EndSSH, api.AuditEnded)(r, web.None{})
	return "ssh/connections/ended", err
}
