package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"slipway/internal/hubtest"
)

// hubKernels has the site offer kernels.
const hubKernels = `kernels: {specs: [{name: python, profile: small}]}`

// kernelOfAHubsToken starts a kernel and runs a cell by REST and websocket, with a token of the Hub's that may reach
// the service and nothing else.
func (s *hubSite) kernelOfAHubsToken(t *testing.T) {
	token := func(user string, scopes ...string) string {
		t.Helper()
		s.hub.AddUser(user)
		var made struct{ Token string }
		s.hub.Read(s.hub.Call(http.MethodPost, "/users/"+user+"/tokens", map[string]any{"note": "kernels", "scopes": scopes}), http.StatusCreated, &made)
		return made.Token
	}
	const reach = "access:services!service=slipway"
	alice := &jupyter{T: t, url: s.url + "/kernels", token: token("alice", reach)}
	by := func(token string) string { return "?token=" + token }
	id := alice.do(http.MethodPost, "/api/kernels"+by(alice.token), `{"name": "python"}`, http.StatusCreated)["id"].(string)
	n := alice.open(id)
	if got := n.until("stream", n.run("print(6*7)")); !strings.Contains(got, "42") {
		t.Errorf("6*7: %s", got)
	}
	for who, refused := range map[string]struct {
		token string
		want  int
	}{
		"bob":                            {token("bob", reach), http.StatusNotFound},
		"a token that may not reach it":  {token("alice", "read:users:name!user=alice"), http.StatusForbidden},
		"a token that nobody has made":   {strings.Repeat("0", 32), http.StatusUnauthorized},
		"the one who takes the kernel's": {id, http.StatusUnauthorized},
	} {
		if got := hubtest.Ask(t, refused.token, http.MethodGet, fmt.Sprintf("%s/kernels/api/kernels/%s", s.url, id), nil); got.Status != refused.want {
			t.Errorf("%s: %s", who, got.Text())
		}
	}
	alice.do(http.MethodDelete, "/api/kernels/"+id+by(alice.token), "", http.StatusNoContent)
}
