package api

import (
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/logins"
	"slipway/hubapi/server/offers"
	"slipway/hubapi/server/web"
	"slipway/internal/devicelogin"
	"slipway/internal/errs"
	"slipway/internal/sshauth"
	"slipway/spawner"
)

// SSHHandlers serve what lets users in by ssh: keys, certificates and logins.
type SSHHandlers struct {
	web       *web.Core
	hubs      *hubs.Set
	offers    *offers.Offers
	workloads Workloads
	authority *sshauth.Authority
	logins    *devicelogin.Logins
}

// OpenSSH has the routes for which nobody needs to be known: what everybody may know, and logins, which are nobody's
// yet.
func (s *SSHHandlers) OpenSSH(r chi.Router) {
	r.Method("GET", hubapi.Base+"/ssh", web.Serve(s.web, 200, s.sshService))
	r.Method("POST", hubapi.Base+"/ssh/logins", web.Serve(s.web, 200, s.beginSSHLogin))
	r.Method("GET", hubapi.Base+"/ssh/logins/{id}", web.GetOnly(s.web.Plain(s.pollSSHLogin)))
	r.Method("POST", hubapi.Base+"/ssh/logouts", web.Serve(s.web, 204, s.logOutSSH))
}

// sshRoutes are the routes below /ssh for users.
func (s *SSHHandlers) sshRoutes(r chi.Router) {
	r.Method("GET", "/", web.Serve(s.web, 200, s.sshService))
	r.Method("GET", "/keys", web.Serve(s.web, 200, s.listSSHKeys))
	r.Method("POST", "/keys", web.Serve(s.web, 200, audit.Told(s.AddSSHKey, AuditKeyAdded)))
	r.Method("DELETE", "/keys/{fingerprint}", web.Serve(s.web, 204, audit.Told(s.removeSSHKey, auditKeyRemoved)))
	r.Method("GET", "/certificates", web.Serve(s.web, 200, s.listSSHCertificates))
	r.Method("POST", "/certificates", web.Serve(s.web, 200, audit.Told(s.issueSSHCertificate, auditIssued)))
	r.Method(
		"DELETE", "/certificates/{serial}",
		web.Serve(s.web, 204, audit.Told(s.revokeSSHCertificate, auditRevoked)),
	)
	r.Method("DELETE", "/connections", web.Serve(s.web, 204, audit.Told(s.EndSSH, AuditEnded)))
}

func noSSH() error {
	return errs.New(errs.Missing, "this service has no ssh").
		With("its administrator switches it on: ssh.listen in its configuration")
}

// SSHOwner returns the user whose keys the caller may see and change.
func (s *SSHHandlers) SSHOwner(c spawner.Caller) (sshauth.Owner, error) {
	if s.authority == nil {
		return sshauth.Owner{}, noSSH()
	}
	return logins.Owner(c)
}

func (s *SSHHandlers) sshService(r *http.Request, _ web.None) (hubapi.SSHService, error) {
	a := s.authority
	if a == nil {
		return hubapi.SSHService{KnownHosts: []string{}, Fingerprints: []string{}, Pages: []hubapi.SSHPage{}}, nil
	}
	out := hubapi.SSHService{
		On: true, Host: a.Host(), Port: a.Port(), KnownHosts: a.KnownHosts(), Authority: a.HostAuthority(),
		Fingerprints: a.Fingerprints(),
		Pages:        []hubapi.SSHPage{},
	}
	for _, p := range logins.Pages(r, s.hubs, s.logins) {
		out.Pages = append(out.Pages, hubapi.SSHPage{Hub: p.Hub, URL: p.URL})
	}
	return out, nil
}

func (s *SSHHandlers) listSSHKeys(r *http.Request, _ web.None) (hubapi.SSHKeys, error) {
	list := hubapi.SSHKeys{Keys: []hubapi.SSHKey{}}
	owner, err := s.SSHOwner(web.CallerOf(r.Context()))
	if err != nil {
		return list, err
	}
	for _, k := range s.authority.Keys(owner) {
		list.Keys = append(list.Keys, convert.SSHKey(k))
	}
	return list, nil
}

func (s *SSHHandlers) AddSSHKey(r *http.Request, in hubapi.SSHKeyRequest) (hubapi.SSHKey, error) {
	owner, err := s.SSHOwner(web.CallerOf(r.Context()))
	if err != nil {
		return hubapi.SSHKey{}, err
	}
	k, err := s.authority.AddKey(r.Context(), owner, in.Key, in.Comment)
	return convert.SSHKey(k), err
}

func (s *SSHHandlers) removeSSHKey(r *http.Request, _ web.None) (web.None, error) {
	owner, err := s.SSHOwner(web.CallerOf(r.Context()))
	if err != nil {
		return web.None{}, err
	}
	fingerprint, err := web.Param(r, "fingerprint")
	if err != nil {
		return web.None{}, err
	}
	return web.None{}, s.authority.RemoveKey(r.Context(), owner, fingerprint)
}

func (s *SSHHandlers) listSSHCertificates(r *http.Request, _ web.None) (hubapi.SSHCertificates, error) {
	list := hubapi.SSHCertificates{Certificates: []hubapi.SSHCertificate{}}
	owner, err := s.SSHOwner(web.CallerOf(r.Context()))
	if err != nil {
		return list, err
	}
	for _, c := range s.authority.Certificates(owner) {
		c.Text = ""
		list.Certificates = append(list.Certificates, convert.SSHCertificate(c))
	}
	return list, nil
}

func (s *SSHHandlers) issueSSHCertificate(r *http.Request, in hubapi.SSHCertificateRequest) (hubapi.SSHCertificate, error) {
	owner, err := s.SSHOwner(web.CallerOf(r.Context()))
	if err != nil {
		return hubapi.SSHCertificate{}, err
	}
	c, err := s.authority.Issue(r.Context(), owner, sshauth.Request{
		Key: in.Key, Session: in.Session, Computer: in.Computer,
	})
	return convert.SSHCertificate(c), err
}

func (s *SSHHandlers) revokeSSHCertificate(r *http.Request, _ web.None) (web.None, error) {
	owner, err := s.SSHOwner(web.CallerOf(r.Context()))
	if err != nil {
		return web.None{}, err
	}
	serial, err := SerialOf(chi.URLParam(r, "serial"))
	if err != nil {
		return web.None{}, err
	}
	return web.None{}, s.authority.Revoke(r.Context(), owner, serial)
}

// logOutSSH withdraws a certificate for who has its key: who logs out may have no token any more.
func (s *SSHHandlers) logOutSSH(r *http.Request, in hubapi.SSHLogout) (web.None, error) {
	if s.authority == nil {
		return web.None{}, noSSH()
	}
	owner, err := s.authority.Withdraw(r.Context(), sshauth.Withdrawal{
		Serial: in.Serial, Key: in.Key, Words: in.Words(), Format: in.Format, Signature: in.Signature,
	})
	if owner != (sshauth.Owner{}) {
		caller := spawner.Caller{Hub: owner.Hub, User: spawner.User(owner.User)}
		e := audit.Of(r.Context())
		e.Caller, e.Door = caller, audit.DoorSSHKey
		audit.Note(
			r.Context(), "an ssh certificate is withdrawn by its key", "serial", in.Serial, "from",
			s.web.AddressOf(r),
		)
	}
	return web.None{}, err
}

// EndSSH ends the connections of a user's, those too that she has let in by her browser, which no key and no
// certificate stands for.
func (s *SSHHandlers) EndSSH(r *http.Request, _ web.None) (web.None, error) {
	owner, err := s.SSHOwner(web.CallerOf(r.Context()))
	if err == nil {
		s.authority.End(owner)
	}
	return web.None{}, err
}

func SerialOf(text string) (uint64, error) {
	serial, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, errs.Bad("serial", text, "the serial of a certificate, as the list of yours has it")
	}
	return serial, nil
}

func AuditKeyAdded(_ *http.Request, _ hubapi.SSHKeyRequest, out hubapi.SSHKey) (string, []any) {
	what := "an ssh key is added"
	if out.Already {
		what = "an ssh key is added that is there, and has this comment now"
	}
	return what, []any{"key", out.Fingerprint, "type", out.Type, "comment", out.Comment}
}

func auditKeyRemoved(r *http.Request, _, _ web.None) (string, []any) {
	fingerprint, _ := web.Param(r, "fingerprint")
	return "an ssh key is removed", []any{"key", fingerprint}
}

func auditIssued(_ *http.Request, _ hubapi.SSHCertificateRequest, out hubapi.SSHCertificate) (string, []any) {
	return issuedWords, []any{
		"serial", out.Serial, "key", out.Fingerprint, "session", out.Session, "expires", out.Expires,
	}
}

const issuedWords = "an ssh certificate is issued"

func auditRevoked(r *http.Request, _, _ web.None) (string, []any) {
	return "an ssh certificate is revoked", []any{"serial", chi.URLParam(r, "serial")}
}

func AuditEnded(*http.Request, web.None, web.None) (string, []any) {
	return "all ssh connections are ended", nil
}
