package webui

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"slipway/internal/devicelogin"
)

// DeviceAsk is a login that waits for the visitor to confirm it.
type DeviceAsk struct{ devicelogin.Waiting }

// ForToken reports whether it asks for an access token.
func (a DeviceAsk) ForToken() bool { return a.Purpose == devicelogin.AccessToken }

// From says where it comes from. An invalid address is that of a proxy, which has said so.
func (a DeviceAsk) From() string {
	switch {
	case !a.Address.IsValid():
		return "not known: it came through a proxy"
	case a.Address.IsLoopback():
		return fmt.Sprintf("this server itself (%s), or a forward or proxy on it", a.Address)
	}
	return a.Address.String()
}

// DeviceLoginView is what the page of a login is made of.
type DeviceLoginView struct {
	Asks []DeviceAsk   // whose code the visitor has typed
	Life time.Duration // of certificates
	Hub  string        // the page's, where there are several: who is let in gets to the sessions there

	Status int    // of the answer; 0: 200
	Wrong  string // what was wrong with the code that was typed; empty: nothing
}

type deviceLoginBody struct {
	DeviceLoginView
	Visit Visit
	Back  string // as in row: these forms send none
}

// DeviceLoginPage asks for the code of a login, and for those whose code was typed whether they are to be let in.
func DeviceLoginPage(w http.ResponseWriter, v Visit, view DeviceLoginView) error {
	return write(
		w, cmp.Or(view.Status, http.StatusOK), "device-login.html",
		frame{Title: "Log in a computer", Visit: v, Body: deviceLoginBody{DeviceLoginView: view, Visit: v}},
	)
}
