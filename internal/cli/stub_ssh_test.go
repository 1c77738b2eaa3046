package cli_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/hubapi"
)

// stubSSH is the ssh part of the service: it signs what alice asks for, and has her confirm a login at its second look.
type stubSSH struct {
	service hubapi.SSHService
	key     hubapi.SSHKey
	profile hubapi.Profile
	logouts atomic.Int32

	mu    sync.Mutex
	looks map[string]int // by the login's id
	asked map[string]hubapi.SSHLoginRequest
}

// public are the routes that need no token.
func (s *stubSSH) public() http.Handler {
	mux := http.NewServeMux()
	const api = hubapi.Base
	mux.HandleFunc("GET "+api+"/ssh", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.service) })
	mux.HandleFunc("POST "+api+"/ssh/logins", s.begin)
	mux.HandleFunc("GET "+api+"/ssh/logins/{id}", s.poll)
	mux.HandleFunc("POST "+api+"/ssh/logouts", s.logOut)
	return mux
}

// logOut takes who signs for who holds the key, but for the second time, when it refuses.
func (s *stubSSH) logOut(w http.ResponseWriter, r *http.Request) {
	var out hubapi.SSHLogout
	_ = json.NewDecoder(r.Body).Decode(&out)
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(out.Key))
	signed := err == nil && key.Verify(out.Words(), &ssh.Signature{Format: out.Format, Blob: out.Signature}) == nil
	switch n := s.logouts.Add(1); {
	case !signed || n == 2:
		refuse(w, 403, "forbidden", "the certificate is for another key", "")
	default:
		w.WriteHeader(204)
	}
}

// begin begins a login. How it ends is told by the hub that is asked for: main is confirmed, the others are what they
// say.
func (s *stubSSH) begin(w http.ResponseWriter, r *http.Request) {
	var req hubapi.SSHLoginRequest
	_ = json.NewDecoder(r.Body).Decode(&req)
	s.mu.Lock()
	defer s.mu.Unlock()
	id := "secret-" + req.Hub
	s.asked[id], s.looks[id] = req, 0
	answer(w, hubapi.DeviceLogin{ID: id, Code: "BCDF-GHJK", URL: s.service.Pages[0].URL, Interval: 1, Expires: time.Now().Add(10 * time.Minute)})
}

func (s *stubSSH) poll(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.PathValue("id")
	s.looks[id]++
	switch {
	case id == "secret-refused":
		refuse(w, 403, "forbidden", "she has refused it", "")
	case id == "secret-late":
		refuse(w, 404, "not_found", "there is no such login", "")
	case s.looks[id] < 2:
		w.WriteHeader(http.StatusAccepted)
		answer(w, hubapi.SSHLoginState{Pending: true})
	default:
		cert, err := certificateFor(s.asked[id].Key)
		if err != nil {
			refuse(w, 422, "invalid", err.Error(), "")
			return
		}
		answer(w, hubapi.SSHLoginState{User: "alice", Hub: "main", Certificate: &cert, Targets: []string{"small", "gpu10", "two words"}})
	}
}

// routes are alice's.
func (s *stubSSH) routes(mine func(string, http.HandlerFunc)) {
	const api = hubapi.Base
	mine("GET "+api+"/profiles", func(w http.ResponseWriter, _ *http.Request) { answer(w, []hubapi.Profile{s.profile}) })
	mine("GET "+api+"/ssh/keys", func(w http.ResponseWriter, _ *http.Request) { answer(w, hubapi.SSHKeys{Keys: s.keys()}) })
	mine("POST "+api+"/ssh/keys", func(w http.ResponseWriter, r *http.Request) {
		var req hubapi.SSHKeyRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || !strings.HasPrefix(req.Key, "ssh-ed25519 ") {
			refuse(w, 422, "invalid", "key: it is not valid", "one public key, as ssh-keygen writes it")
			return
		}
		added := s.key
		added.Comment, added.Already = req.Comment, req.Comment == "again"
		answer(w, added)
	})
	mine("DELETE "+api+"/ssh/keys/{fingerprint}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	mine("POST "+api+"/ssh/certificates", func(w http.ResponseWriter, r *http.Request) {
		var req hubapi.SSHCertificateRequest
		_ = json.NewDecoder(r.Body).Decode(&req)
		cert, err := certificateFor(req.Key)
		if err != nil || req.Session != hubapi.AnySession || req.Computer == "" {
			refuse(w, 422, "invalid", "not what was expected", "")
			return
		}
		answer(w, cert)
	})
	mine("DELETE "+api+"/ssh/certificates/{serial}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("serial") != "1" {
			refuse(w, 404, "not_found", "there is no such certificate", "")
			return
		}
		w.WriteHeader(204)
	})
	mine("DELETE "+api+"/ssh/connections", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	mine("POST "+api+"/servers", func(w http.ResponseWriter, r *http.Request) {
		var req hubapi.ServerRequest
		_ = json.NewDecoder(r.Body).Decode(&req)
		asked, _ := json.Marshal(req)
		event(w, hubapi.EventProgress, hubapi.Progress{Message: "asked: " + string(asked)})
		event(w, hubapi.EventDone, hubapi.Session{
			Workload: hubapi.Workload{Meta: hubapi.Meta{ID: "s-again", Name: req.Name}},
			Prefix:   "/user/alice/" + req.Name,
		})
	})
}

// keys are the example and two of one comment.
func (s *stubSSH) keys() []hubapi.SSHKey {
	list := []hubapi.SSHKey{s.key, s.key, s.key}
	for i := range list {
		used := recently()
		list[i].Added, list[i].Used = used, &used
	}
	list[1].Fingerprint, list[1].Comment = "SHA256:one", "both"
	list[2].Fingerprint, list[2].Comment = "SHA256:two", "both"
	return list
}

// certificateFor signs a public key, with a key that nobody knows.
func certificateFor(line string) (hubapi.SSHCertificate, error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return hubapi.SSHCertificate{}, err
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return hubapi.SSHCertificate{}, err
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return hubapi.SSHCertificate{}, err
	}
	until := time.Date(2099, 1, 2, 3, 4, 5, 0, time.UTC)
	c := &ssh.Certificate{Key: key, Serial: 1, CertType: ssh.UserCert, ValidPrincipals: []string{"alice"}, ValidBefore: uint64(until.Unix())}
	if err := c.SignCert(rand.Reader, signer); err != nil {
		return hubapi.SSHCertificate{}, err
	}
	return hubapi.SSHCertificate{Serial: 1, Certificate: string(ssh.MarshalAuthorizedKey(c)), Session: hubapi.AnySession, Expires: until}, nil
}
