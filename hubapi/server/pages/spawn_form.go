package pages

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/internal/webui"
	"slipway/spawner"
)

// roomTime is how long a spawn form may ask for the counts anew.
const roomTime = 8 * time.Hour

// SpawnForm gives the fragment for the Hub's spawn page. It must not fail for what was chosen earlier.
func (p *Pages) SpawnForm(w http.ResponseWriter, r *http.Request) error {
	c, q := web.CallerOf(r.Context()), r.URL.Query()
	user := spawner.User(q.Get("user"))
	offers := p.cfg.Offers.Of(c.Hub, user)
	form := webui.Form{
		Catalogue: offers, Rooms: p.cfg.Offers.Rooms(c.Hub, user, offers.Profiles),
		Active: p.cfg.Offers.ActiveByImage(c.Hub), Refresh: p.roomAddress(c.Hub, user),
		GPUs: p.cfg.API.GPUs.Inventory().Public(),
	}
	_ = json.Unmarshal([]byte(q.Get("options")), &form.Chosen) // what cannot be read was not chosen
	if q.Has("user") {
		all, err := p.cfg.Workloads.SessionsOf(r.Context(), c, user, q.Get("name"))
		if err != nil {
			return err
		}
		form.Kept = slices.DeleteFunc(
			all, func(w spawner.Workload) bool { return w.Phase != spawner.Stopped || w.Want == spawner.WantGone },
		)
		form.Environments = p.cfg.API.Sessions.Startable(r.Context(), c, user, form.Kept)
		p.cfg.API.Sessions.ChosenEnvironment(r.Context(), c, user, form.Chosen)
	}
	var page bytes.Buffer
	if err := webui.SpawnForm(&page, form); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = page.WriteTo(w)
	return nil
}

// roomAddress is where a spawn form asks for the counts: below the hub's pages, as the form lies on the Hub's origin.
// Empty when there are no pages. Who reads the form need not be logged in here, so the address itself permits it.
func (p *Pages) roomAddress(hub string, user spawner.User) string {
	h := p.cfg.Hubs.Named(hub)
	if !h.HasPages() {
		return ""
	}
	until := strconv.FormatInt(time.Now().Add(roomTime).Unix(), 10)
	return h.PagesPrefix + "room?key=" + url.QueryEscape(p.seal([]byte(until+" "+string(user)), "room "+hub))
}

// roomLine is what a spawn form shows of a profile.
type roomLine struct {
	Words string `json:"words"`
	Full  bool   `json:"full"`
}

// room answers a spawn form's script.
func (p *Pages) room(w http.ResponseWriter, r *http.Request) {
	h := hubOfPage(r.Context())
	plain, err := p.unseal(r.URL.Query().Get("key"), "room "+h.Name)
	words, user, _ := strings.Cut(string(plain), " ")
	until, bad := strconv.ParseInt(words, 10, 64)
	if err != nil || bad != nil || time.Now().Unix() > until {
		p.cfg.Web.Refuse(
			w, r, errs.New(errs.Forbidden, "the address has come of age").With("load the spawn page again"),
		)
		return
	}
	answer := struct {
		Profiles map[string]roomLine `json:"profiles"`
		Images   map[string]string   `json:"images"`
	}{map[string]roomLine{}, map[string]string{}}
	offers := p.cfg.Offers.Of(h.Name, spawner.User(user))
	rooms := p.cfg.Offers.Rooms(h.Name, spawner.User(user), offers.Profiles)
	for _, profile := range offers.Profiles {
		room := rooms[profile.Name]
		answer.Profiles[profile.Name] = roomLine{Words: webui.RoomOf(p.cfg.Catalogue, profile, room), Full: room.Full()}
	}
	active := p.cfg.Offers.ActiveByImage(h.Name)
	for _, i := range p.cfg.Catalogue.Images {
		answer.Images[i.Name] = webui.ImageCount(i, active[i.Name])
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	web.WriteJSON(w, http.StatusOK, answer)
}
