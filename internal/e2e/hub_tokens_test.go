package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/hubtest"
	"slipway/internal/testenv/oidcissuer"
)

// keepingTokens has the Hub keep a refresh token of each user who logs in, as OAuthenticator does.
const keepingTokens = `
from jupyterhub.auth import DummyAuthenticator

class Keeping(DummyAuthenticator):
    async def authenticate(self, handler, data=None):
        name = await super().authenticate(handler, data)
        return name and {"name": name, "auth_state": {"token_response": {"refresh_token": %q}, "ldap": {"uidNumber": {"alice": 41001}.get(name)}}}

c.JupyterHub.authenticator_class = Keeping
c.Authenticator.enable_auth_state = True
c.CryptKeeper.keys = ["%064d"]
c.JupyterHub.load_roles[1]["scopes"].append("admin:auth_state")
`

// TestTokenOfTheHub: who has logged in at the Hub has her token in her session, without doing anything.
func TestTokenOfTheHub(t *testing.T) {
	t.Parallel()
	i := oidcissuer.New(t)
	granted := i.Grant("alice@example")
	secretFile := filepath.Join(filepath.Dir(i.CAFile), "client")
	service := fmt.Sprintf("credentials: {issuers: [{name: wlcg, issuer: %q, client_id: %s, client_secret_file: %q, ca_file: %q, hub_key: token_response.refresh_token}]}\n"+
		"identities: {subjects: [{issuer: wlcg, match: '^([a-z]+)@example$', user: '$1'}]}",
		i.URL, oidcissuer.ClientID, secretFile, i.CAFile)
	if err := os.WriteFile(secretFile, []byte(oidcissuer.ClientSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newHubSite(t, hubOptions{major: 6, spawner: hubtest.Slipway, config: fmt.Sprintf(keepingTokens, granted, 7), service: service, users: ", accounts: hub, hub_account: {uid: ldap.uidNumber}"})
	s.hub.Browse("alice") // she logs in
	s.startOnly("alice", "", nil)
	s.answers("alice", "")
	id := s.sessionOf("alice", "").ID
	s.eventually("her token is in her session", func() bool {
		out, err := exec.Command("docker", "exec", "slipway-"+id, "sh", "-c", "cat /run/slipway/credentials/token").Output()
		return err == nil && strings.Count(string(out), ".") == 2
	})
	listed := string(s.as("alice", http.MethodGet, "/credentials", nil).body)
	if !strings.Contains(listed, `"from":"hub"`) || !strings.Contains(listed, `"subject":"alice@example"`) || i.Asked("refresh alice@example") != 1 {
		t.Errorf("refreshed %d times: %s", i.Asked("refresh alice@example"), listed)
	}
	if out, err := exec.Command("docker", "exec", "slipway-"+id, "id", "-u").Output(); err != nil || strings.TrimSpace(string(out)) != "41001" {
		t.Errorf("her session runs as %s, %v: want the number that the Hub has", out, err)
	}
	me := string(s.as("alice", http.MethodGet, "/whoami", nil).body)
	if !strings.Contains(me, `"uid":41001`) || !strings.Contains(me, `"rule":"identities.subjects, rule 1"`) || !strings.Contains(me, `"accounts":"hub"`) {
		t.Errorf("who she is: %s", me)
	}
	s.hub.Browse("bob") // of whom the Hub has no number
	s.startOnly("bob", "", nil)
	if why := s.failed("bob", ""); !strings.Contains(why, "ldap.uidNumber") {
		t.Errorf("why bob has no session: %s", why)
	}
	secrets := map[string]string{}
	for n, secret := range i.Given() {
		secrets[fmt.Sprintf("secret %d of the issuer", n)] = secret
	}
	s.noSecretShows(secrets)
}
