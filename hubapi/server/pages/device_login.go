package pages

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/logins"
	"slipway/hubapi/server/web"
	"slipway/internal/devicelogin"
	"slipway/internal/errs"
	"slipway/internal/webui"
)

// deviceLoginPages are where users confirm that a program on another computer is let in. A code is only ever typed: an
// address with one in it would have people confirm what somebody else has begun.
func (p *Pages) deviceLoginPages(r chi.Router) {
	r.Get("/login", p.show(p.deviceLoginPage))
	r.Post("/login", p.typedCode)
	r.Post("/login/decide", p.act(p.decideLogin))
	r.Get("/login/confirmed", p.show(p.done(
		webui.Notice{Title: "Let in", Text: "What you have begun goes on by itself."}, "", "Sessions and jobs",
	)))
	r.Get("/login/refused", p.show(p.done(
		webui.Notice{Title: "Refused", Text: "Nobody was let in."}, "", "Sessions and jobs",
	)))
	// Its address of before, which people have noted.
	r.Get("/ssh/login", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, hubOfPage(r.Context()).PagesPrefix+"login", http.StatusFound)
	})
}

func (p *Pages) deviceLoginPage(w http.ResponseWriter, _ *http.Request, v visitor) error {
	owner, err := logins.Owner(v.caller)
	if err != nil {
		return err
	}
	var asks []webui.DeviceAsk
	for _, f := range p.cfg.Logins.Found(owner) {
		asks = append(asks, webui.DeviceAsk{Waiting: f})
	}
	view := p.loginView(owner)
	view.Asks = asks
	return webui.DeviceLoginPage(w, p.view(v), view)
}

func (p *Pages) loginView(owner devicelogin.Owner) webui.DeviceLoginView {
	hub := ""
	if len(p.cfg.Logins.Pages()) > 1 {
		hub = owner.Hub
	}
	view := webui.DeviceLoginView{Hub: hub}
	if p.cfg.SSH != nil {
		view.Life = p.cfg.SSH.Life()
	}
	return view
}

// typedCode looks for the login of a code. One that is wrong is asked for again.
func (p *Pages) typedCode(w http.ResponseWriter, r *http.Request) {
	var v visitor
	_, err := p.acted(w, r, func(r *http.Request, who visitor) (string, error) {
		v = who
		return "", p.findLogin(r, who)
	})
	if errs.Is(err, errs.NotFound) {
		err = p.codeAgain(w, r, v, err)
	} else if err == nil {
		http.Redirect(w, r, hubOfPage(r.Context()).PagesPrefix+"login", http.StatusSeeOther)
	}
	if err != nil {
		p.problem(w, r, err)
	}
}

func (p *Pages) findLogin(r *http.Request, v visitor) error {
	owner, err := logins.Owner(v.caller)
	if err != nil {
		return err
	}
	_, err = p.cfg.Logins.Find(owner, r.PostForm.Get("code"))
	return err
}

// codeAgain is the page with the field for a code, and what was wrong with the one that was typed.
func (p *Pages) codeAgain(w http.ResponseWriter, r *http.Request, v visitor, wrong error) error {
	owner, err := logins.Owner(v.caller)
	if err != nil {
		return err
	}
	said := p.cfg.Web.ErrorBody(r, wrong).Error
	view := p.loginView(owner)
	view.Status, view.Wrong = http.StatusNotFound, web.Sentence(said.Message)+" "+web.Sentence(said.Remedy)
	return webui.DeviceLoginPage(w, p.view(v), view)
}

func (p *Pages) decideLogin(r *http.Request, v visitor) (string, error) {
	owner, err := logins.Owner(v.caller)
	if err != nil {
		return "", err
	}
	answer := r.PostForm.Get("answer")
	if answer != "yes" && answer != "no" {
		return "", errs.Bad("answer", answer, "yes or no")
	}
	f, err := p.cfg.Logins.Decide(owner, r.PostForm.Get("code"), answer == "yes")
	if err != nil {
		return "", err
	}
	what, to, done := "an ssh login", "login/refused", " is refused"
	if answer == "yes" {
		to, done = "login/confirmed", " is confirmed"
	}
	which := []any{"computer", f.Computer, "from", f.Address}
	if f.Purpose == devicelogin.AccessToken {
		what, which = "a login for an access token", append(which, "program", f.Program)
	} else {
		which = append([]any{"login", f.Login, "key", f.Fingerprint}, which...)
	}
	audit.Note(r.Context(), what+done, which...)
	return to, nil
}

// done says what was done, and leads to another page.
func (p *Pages) done(n webui.Notice, to, label string) func(http.ResponseWriter, *http.Request, visitor) error {
	return func(w http.ResponseWriter, r *http.Request, v visitor) error {
		n := n
		n.Status, n.Next, n.Link, n.Label = http.StatusOK, "You can close this page.", v.hub.PagesPrefix+to, label
		webui.Tell(w, r, n)
		return nil
	}
}
