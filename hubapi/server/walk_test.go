package server

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/internal/testenv"
	"slipway/spawner"
)

// walked has, for every route of the API, a request that aims at what is alice's, made by bob. Refused routes must
// answer 403 or 404; the others must not show anything of hers. A route that is missing here fails the test.
var walked = map[string]struct {
	path    string
	body    string
	refused bool
}{
	"GET /me":                               {path: "/me"},
	"GET /whoami":                           {path: "/whoami"},
	"GET /accounts":                         {path: "/accounts", refused: true},
	"DELETE /accounts/{principal}":          {path: "/accounts/alice", refused: true},
	"GET /profiles":                         {path: "/profiles?user=alice"},
	"GET /spawn-form":                       {path: "/spawn-form?user=alice"},
	"GET /sessions":                         {path: "/sessions?user=alice"},
	"POST /sessions":                        {path: "/sessions", refused: true, body: `{"user":"alice","launch":"x","prefix":"/user/alice/","argv":["sh"],"options":{}}`},
	"POST /servers":                         {path: "/servers", body: `{"name":"","options":{}}`},
	"DELETE /sessions":                      {path: "/sessions?user=alice&name=", refused: true},
	"GET /sessions/{id}":                    {path: "/sessions/s-alice", refused: true},
	"DELETE /sessions/{id}":                 {path: "/sessions/s-alice", refused: true},
	"GET /sessions/{id}/wait":               {path: "/sessions/s-alice/wait", refused: true},
	"POST /sessions/{id}/keep":              {path: "/sessions/s-alice/keep", refused: true, body: `{"for":"4h"}`},
	"POST /sessions/{id}/stop":              {path: "/sessions/s-alice/stop", refused: true},
	"GET /sessions/{id}/events":             {path: "/sessions/s-alice/events", refused: true},
	"GET /sessions/{id}/log":                {path: "/sessions/s-alice/log", refused: true},
	"POST /sessions/{id}/freeze":            {path: "/sessions/s-alice/freeze", refused: true, body: `{}`},
	"GET /gpus":                             {path: "/gpus"},
	"GET /gpus/pool":                        {path: "/gpus/pool"},
	"POST /gpus/{gpu}/drain":                {path: "/gpus/0/drain", refused: true, body: `{"why":"x"}`},
	"POST /gpus/{gpu}/resume":               {path: "/gpus/0/resume", refused: true},
	"GET /data":                             {path: "/data"},
	"GET /quota":                            {path: "/quota?user=alice"},
	"GET /kernelspecs":                      {path: "/kernelspecs?user=alice"},
	"POST /kernelspecs/{name}/switch":       {path: "/kernelspecs/python/switch?user=alice", body: `{"gpu":"default"}`},
	"GET /data/url":                         {path: "/data/url?lfn=eos:a"},
	"GET /data/plan":                        {path: "/data/plan", refused: true},
	"GET /data/issuers/{name}":              {path: "/data/issuers/wlcg"},
	"GET /sessions/{id}/data-check":         {path: "/sessions/s-alice/data-check", refused: true},
	"PUT /sessions/{id}/data-check":         {path: "/sessions/s-alice/data-check", refused: true, body: `{"checks":[]}`},
	"POST /sessions/{id}/data-check":        {path: "/sessions/s-alice/data-check", refused: true},
	"GET /credentials":                      {path: "/credentials"},
	"PUT /credentials/x509":                 {path: "/credentials/x509", body: `{"proxy":"good"}`},
	"PUT /credentials/{name}/refresh-token": {path: "/credentials/wlcg/refresh-token", body: `{"refresh_token":"refresh-hidden"}`},
	"POST /credentials/{name}/renew":        {path: "/credentials/hers/renew?user=alice", refused: true},
	"DELETE /credentials/{name}":            {path: "/credentials/wlcg?user=alice", refused: true},
	"POST /credentials/{name}/login":        {path: "/credentials/wlcg/login"},
	"GET /credential-logins/{id}":           {path: "/credential-logins/grant-of-main:alice", refused: true},
	"GET /environments":                     {path: "/environments"},
	"GET /environments/{ref}/":              {path: "/environments/sha256:aabbcc", refused: true},
	"DELETE /environments/{ref}/":           {path: "/environments/alice%2Fmine:v%201", refused: true},
	"GET /environments/{ref}/details":       {path: "/environments/sha256:aabbcc/details", refused: true},
	"GET /environments/{ref}/history":       {path: "/environments/sha256:aabbcc/history", refused: true},
	"GET /environments/{ref}/diff":          {path: "/environments/sha256:aabbcc/diff?from=sha256:aabbcc", refused: true},
	"GET /environments/{ref}/sbom":          {path: "/environments/alice%2Fmine:v%201/sbom", refused: true},
	"POST /environments/{ref}/verify":       {path: "/environments/sha256:aabbcc/verify", refused: true},
	"POST /environments/{ref}/tags":         {path: "/environments/sha256:aabbcc/tags", refused: true, body: `{"name":"bobs"}`},
	"POST /environments/{ref}/share":        {path: "/environments/sha256:aabbcc/share", refused: true, body: `{"with":"public"}`},
	"GET /environments/{ref}/export":        {path: "/environments/sha256:aabbcc/export?as=sif", refused: true},
	"POST /environments/{ref}/push":         {path: "/environments/sha256:aabbcc/push", refused: true, body: `{"to":"registry.example/bob/x:1"}`},
	"POST /environment-pulls":               {path: "/environment-pulls", body: `{"from":"registry.example/x/y:1"}`},
	"POST /environment-credentials":         {path: "/environment-credentials", refused: true, body: `{"workload":"j-alice"}`},
	"GET /environment-usage":                {path: "/environment-usage?user=alice"},
	"POST /environment-sweep":               {path: "/environment-sweep?dry=true", refused: true},
	"GET /tokens":                           {path: "/tokens"},
	"DELETE /tokens/{id}":                   {path: "/tokens/alices", refused: true},
	"GET /ssh/":                             {path: "/ssh/"},
	"GET /ssh/keys":                         {path: "/ssh/keys"},
	"POST /ssh/keys":                        {path: "/ssh/keys", body: `{"key":"` + freeKey + `","comment":"x"}`},
	"DELETE /ssh/keys/{fingerprint}":        {path: "/ssh/keys/" + url.PathEscape(alicesPrint), refused: true},
	"GET /ssh/certificates":                 {path: "/ssh/certificates"},
	"POST /ssh/certificates":                {path: "/ssh/certificates", body: `{"key":"` + freeKey + `","session":"*"}`},
	"DELETE /ssh/certificates/{serial}":     {path: "/ssh/certificates/1", refused: true},
	"DELETE /ssh/connections":               {path: "/ssh/connections"},
	"GET /usage":                            {path: "/usage?user=alice"},
	"GET /usage/site":                       {path: "/usage/site", refused: true},
	"GET /sessions/{id}/usage":              {path: "/sessions/s-alice/usage", refused: true},
	"GET /jobs/{id}/usage":                  {path: "/jobs/j-alice/usage", refused: true},
	"GET /scans/{id}/progress":              {path: "/scans/scan-alice/progress", refused: true},
	"GET /sessions/{id}/gpu":                {path: "/sessions/s-alice/gpu", refused: true},
	"GET /jobs/{id}/gpu":                    {path: "/jobs/j-alice/gpu", refused: true},
	"GET /jobs":                             {path: "/jobs"},
	"POST /jobs":                            {path: "/jobs", body: `{"environment":"sha256:aabbcc","argv":["true"]}`}, // the engine resolves the environment as bob
	"GET /jobs/usage":                       {path: "/jobs/usage?user=alice"},
	"POST /jobs/check":                      {path: "/jobs/check", body: `{"argv":["true"]}`},
	"GET /jobs/{id}":                        {path: "/jobs/j-alice", refused: true},
	"DELETE /jobs/{id}":                     {path: "/jobs/j-alice", refused: true},
	"POST /jobs/{id}/cancel":                {path: "/jobs/j-alice/cancel", refused: true},
	"POST /jobs/{id}/hold":                  {path: "/jobs/j-alice/hold", refused: true},
	"POST /jobs/{id}/release":               {path: "/jobs/j-alice/release", refused: true},
	"POST /jobs/{id}/requeue":               {path: "/jobs/j-alice/requeue", refused: true},
	"GET /jobs/{id}/why":                    {path: "/jobs/j-alice/why", refused: true},
	"GET /scans/{id}":                       {path: "/scans/scan-alice", refused: true},
	"DELETE /scans/{id}":                    {path: "/scans/scan-alice", refused: true},
	"POST /scans/{id}/cancel":               {path: "/scans/scan-alice/cancel", refused: true},
	"POST /scans/{id}/hold":                 {path: "/scans/scan-alice/hold", refused: true},
	"POST /scans/{id}/release":              {path: "/scans/scan-alice/release", refused: true},
	"POST /scans/{id}/requeue":              {path: "/scans/scan-alice/requeue", refused: true},
	"GET /scans/{id}/why":                   {path: "/scans/scan-alice/why", refused: true},
	"GET /scans/{id}/events":                {path: "/scans/scan-alice/events", refused: true},
	"POST /jobs/{id}/retry":                 {path: "/jobs/j-alice/retry", refused: true, body: `{"request_id":"x"}`},
	"POST /scans/{id}/retry":                {path: "/scans/scan-alice/retry", refused: true, body: `{"request_id":"x"}`},
	"POST /jobs/{id}/resubmit":              {path: "/jobs/j-alice/resubmit", refused: true, body: `{"request_id":"x"}`},
	"POST /scans/{id}/resubmit":             {path: "/scans/scan-alice/resubmit", refused: true, body: `{"request_id":"x"}`},
	"PUT /blobs/{digest}":                   {path: "/blobs/sha256:ab", body: "bytes"}, // each has a store of her own
	"HEAD /blobs/{digest}":                  {path: "/blobs/sha256:cd", refused: true},
	"GET /jobs/{id}/events":                 {path: "/jobs/j-alice/events", refused: true},
	"GET /jobs/{id}/log":                    {path: "/jobs/j-alice/log", refused: true},
	"GET /jobs/{id}/files":                  {path: "/jobs/j-alice/files", refused: true},
	"GET /jobs/{id}/files/{name}":           {path: "/jobs/j-alice/files/out%20put.bin", refused: true},
}

// outside are the routes that are nobody's.
var outside = map[string]bool{
	"GET /healthz": true, "GET /readyz": true, "GET /metrics": true,
	"GET /api/v1/ssh": true, "POST /api/v1/ssh/logins": true, "GET /api/v1/ssh/logins/{id}": true, // see TestSSHLogin
	"POST /api/v1/login/device": true, "POST /api/v1/login/token": true, // see TestDeviceLogin
	"POST /api/v1/ssh/logouts": true,                           // see TestSSHLogout
	"GET /api/v1/openapi.json": true, "GET /api/v1/docs": true, // the same for everybody
}

func TestNoRouteGivesAnothersThings(t *testing.T) {
	servers := &fakeServers{}
	hers := job("j-alice", "alice")
	hers.Scan = "scan-alice"
	h := start(t, newFake(lab("s-alice", "alice", "/user/alice/"), hers), func(cfg *Config) {
		cfg.Hubs[0].Servers, cfg.Pool, cfg.SSH = servers, fakePool{}, authority(t, cfg.Logins)
		add(t, cfg.SSH, "alice", alicesKey)
		cfg.Tokens = accessTokens(t)
		newCredentials("main:alice").with(cfg)
	})
	seen := map[string]bool{}
	err := chi.Walk(h.Public().(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if outside[method+" "+route] {
			return nil
		}
		name := method + " " + strings.TrimPrefix(route, hubapi.Base)
		tc, ok := walked[name]
		if !ok {
			t.Errorf("the walk does not know %q: add how another user's things are asked for by it", name)
			return nil
		}
		seen[name] = true
		h.walk(t, name, method, tc.path, tc.body, tc.refused)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range walked {
		if !seen[name] {
			t.Errorf("there is no route %q any more", name)
		}
	}
	for _, c := range h.engine.callers {
		if c.User == "alice" || c.Spawner || (c.Admin && c.User != "slipway") {
			t.Errorf("the engine was asked as %+v", c)
		}
	}
	if !slices.Equal(servers.asked, []string{"bob/"}) {
		t.Errorf("servers were started: %q", servers.asked)
	}
	if len(h.engine.work) < 2 || h.engine.work["s-alice"].Phase != spawner.Running || h.engine.work["j-alice"].Phase != spawner.Running {
		t.Error("something of hers was changed")
	}
}

func (h *harness) walk(t *testing.T, name, method, path, body string, refused bool) {
	t.Helper()
	for _, token := range []string{"bob-token", ""} {
		req, _ := http.NewRequest(method, h.front.URL+hubapi.Base+path, strings.NewReader(body))
		if token != "" {
			req.Header.Set("Authorization", "token "+token)
		}
		patience := http.Client{Timeout: testenv.Hang} // a stream that is let through would not end
		resp, err := patience.Do(req)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		switch {
		case token == "" && resp.StatusCode != http.StatusUnauthorized:
			t.Errorf("%s without a token: %d", name, resp.StatusCode)
		case token != "" && refused && resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusNotFound:
			t.Errorf("%s: %d %s", name, resp.StatusCode, got)
		case token != "" && !refused && (resp.StatusCode >= 300 || strings.Contains(string(got), "alice")):
			t.Errorf("%s: %d %s", name, resp.StatusCode, got)
		}
	}
}
