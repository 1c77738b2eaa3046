package pages

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"slipway/internal/errs"
)

// themeCookie has whether a visitor wants pages light or dark. Scripts of servers may set it, too: it is worth nothing.
const themeCookie = "slipway-theme"

// themeTime is how long that is remembered.
const themeTime = 365 * 24 * time.Hour

// themeOf returns what a visitor has chosen: light, dark, or nothing.
func themeOf(r *http.Request) string {
	for _, c := range r.CookiesNamed(themeCookie) {
		if c.Value == "light" || c.Value == "dark" {
			return c.Value
		}
	}
	return ""
}

// setTheme remembers what a visitor chooses, and leads back to the page where it was chosen.
func (p *Pages) setTheme(w http.ResponseWriter, r *http.Request) {
	p.act(func(r *http.Request, v visitor) (string, error) {
		theme := r.PostForm.Get("theme")
		if theme != "light" && theme != "dark" {
			return "", errs.Bad("theme", theme, "light or dark")
		}
		p.setCookie(w, r, themeCookie, theme, themeTime)
		from, err := url.Parse(r.Referer())
		if err != nil {
			return "", nil
		}
		rest, _ := strings.CutPrefix(from.EscapedPath(), v.hub.PagesPrefix)
		if rest == from.EscapedPath() {
			return "", nil
		}
		if from.RawQuery != "" {
			rest += "?" + from.RawQuery
		}
		return rest, nil
	})(w, r)
}
