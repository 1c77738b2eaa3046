package e2e

import (
	"net/http"
	"strings"
)

// tokens has a job on a worker watch its user's token, which is renewed over its link, also after the service was
// killed; and looks that nothing of it is with the pool.
func (s *farSite) tokens() {
	given := s.call("alice", http.MethodPut, "/api/v1/credentials/wlcg/refresh-token", map[string]any{"refresh_token": s.issuer.Grant("alice@example")})
	if given.status != http.StatusOK {
		s.t.Fatalf("a refresh token is given: %d %s", given.status, given.body)
	}
	job := s.job("cat > w.py <<'END'" + keepWatch + "END\nstat -c '%a' $BEARER_TOKEN_FILE 2>/dev/null; exec python3 w.py 60 3")
	s.runs(job)
	s.kill()
	s.serve()
	ended := s.ended("alice", job)
	log := s.log("alice", job)
	if ended["state"] != "done" || strings.Contains(log, "half") || strings.Count(log, "new") < 2 {
		s.t.Errorf("%v: the job saw\n%s", ended["state"], log)
	}
	if r := s.call("alice", http.MethodDelete, "/api/v1/credentials/wlcg", nil); r.status/100 != 2 {
		s.t.Errorf("remove: %d %s", r.status, r.body)
	}
	s.eventually("the issuer was told", func() bool { return s.issuer.Ended("alice@example") })
	classads := s.pool.Admin(s.t, "condor_history", "-long")
	for _, secret := range s.issuer.Given() {
		if strings.Contains(log+classads, secret) {
			s.t.Errorf("the job's log or the pool's records hold %.12s...", secret)
		}
	}
}
