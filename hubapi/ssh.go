package hubapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// SSHService says how sessions are reached by ssh. Nobody needs to be known to ask for it.
type SSHService struct {
	On           bool      `json:"on"` // false: this service has no ssh, and the rest is empty
	Host         string    `json:"host"`
	Port         int       `json:"port"`
	KnownHosts   []string  `json:"known_hosts"`  // lines for a known_hosts file: first that of the authority, then one for each host key
	Authority    string    `json:"authority"`    // the key that signs the host keys, as in an authorized_keys file
	Fingerprints []string  `json:"fingerprints"` // of the host keys, such as "SHA256:... (ED25519)"
	Pages        []SSHPage `json:"pages"`
}

// SSHPage is where users of a hub confirm a login.
type SSHPage struct {
	Hub string `json:"hub"`
	URL string `json:"url"`
}

// SSHKey is a public key by which its user is known.
type SSHKey struct {
	Fingerprint string     `json:"fingerprint"` // such as "SHA256:..."
	Type        string     `json:"type"`        // such as "ssh-ed25519"
	Comment     string     `json:"comment"`
	Key         string     `json:"key"` // as in an authorized_keys file, without the comment
	Added       time.Time  `json:"added"`
	Used        *time.Time `json:"used"` // to the minute; null: never
	From        string     `json:"from"` // the address that it was last used from
	// Already says, in the answer to adding it, that it was there.
	Already bool `json:"already,omitempty"`
}

// SSHKeys is the answer of a list of keys.
type SSHKeys struct {
	Keys []SSHKey `json:"keys"`
}

// SSHKeyRequest adds a key.
type SSHKeyRequest struct {
	Key     string `json:"key"`     // one public key, as ssh-keygen writes it
	Comment string `json:"comment"` // empty: the key's own
}

// AnySession stands for all sessions of a user where the name of one server could stand.
const AnySession = "*"

// SSHCertificateRequest asks for a certificate of a public key.
type SSHCertificateRequest struct {
	Key     string `json:"key"`
	Session string `json:"session"` // the name of the server that it is good for; empty: the default one; AnySession: all
	// Computer is where it is asked for, as its page calls it; empty: it is not named.
	Computer string `json:"computer,omitempty"`
}

// SSHCertificate is a certificate that holds now. Certificate, which only its issue tells, is as ssh wants it in a file
// -cert.pub.
type SSHCertificate struct {
	Serial      uint64    `json:"serial"`
	Certificate string    `json:"certificate"`
	Fingerprint string    `json:"fingerprint"` // of the key that it is for
	Session     string    `json:"session"`
	Computer    string    `json:"computer"` // where it was asked for, as the asker said; empty: it was not said
	Issued      time.Time `json:"issued"`
	Expires     time.Time `json:"expires"`
}

// SSHCertificates is the answer of a list of certificates.
type SSHCertificates struct {
	Certificates []SSHCertificate `json:"certificates"`
}

// SSHLoginRequest begins a login that a user confirms in her browser.
type SSHLoginRequest struct {
	Key      string `json:"key"`      // the public key that the certificate is to be for
	Computer string `json:"computer"` // shown to the user when she confirms
	Hub      string `json:"hub"`      // empty where the service has one alone
}

// SSHLoginState is what has become of a login. What was confirmed is told once.
type SSHLoginState struct {
	Pending     bool            `json:"pending"`
	Hub         string          `json:"hub"`
	User        string          `json:"user"`
	Certificate *SSHCertificate `json:"certificate"` // null while it is pending
	// Targets are what may stand behind the + of the login name: the profiles that she may use and her named servers.
	// The asker has no token to find them out.
	Targets []string `json:"targets"`
}

// SSHLogout withdraws a certificate in the name of the key that it is for.
type SSHLogout struct {
	Serial    uint64 `json:"serial"`
	Key       string `json:"key"`       // as in a file .pub
	Format    string `json:"format"`    // of the signature, such as ssh-ed25519
	Signature []byte `json:"signature"` // of Words by the key
}

// Words are what is signed.
func (l SSHLogout) Words() []byte {
	return []byte("slipway ssh logout of certificate " + strconv.FormatUint(l.Serial, 10))
}

// LogOutSSH withdraws a certificate, and ends the connections that were opened with it. No token is needed.
func (c *Client) LogOutSSH(ctx context.Context, l SSHLogout) error {
	return c.call(ctx, http.MethodPost, "/ssh/logouts", l, nil)
}

// SSH tells how sessions are reached by ssh.
func (c *Client) SSH(ctx context.Context) (SSHService, error) {
	return fetch[SSHService](ctx, c, http.MethodGet, "/ssh", nil)
}

// SSHKeys lists the caller's keys.
func (c *Client) SSHKeys(ctx context.Context) ([]SSHKey, error) {
	list, err := fetch[SSHKeys](ctx, c, http.MethodGet, "/ssh/keys", nil)
	return list.Keys, err
}

// AddSSHKey adds a public key to the caller's. Adding it again changes its comment.
func (c *Client) AddSSHKey(ctx context.Context, r SSHKeyRequest) (SSHKey, error) {
	return fetch[SSHKey](ctx, c, http.MethodPost, "/ssh/keys", r)
}

// RemoveSSHKey takes a key away, and ends the connections that were opened with it.
func (c *Client) RemoveSSHKey(ctx context.Context, fingerprint string) error {
	return c.call(ctx, http.MethodDelete, path("ssh", "keys", fingerprint), nil, nil)
}

// IssueSSHCertificate returns a certificate for a public key of the caller's.
func (c *Client) IssueSSHCertificate(ctx context.Context, r SSHCertificateRequest) (SSHCertificate, error) {
	return fetch[SSHCertificate](ctx, c, http.MethodPost, "/ssh/certificates", r)
}

// SSHCertificates lists the caller's certificates that hold now.
func (c *Client) SSHCertificates(ctx context.Context) ([]SSHCertificate, error) {
	list, err := fetch[SSHCertificates](ctx, c, http.MethodGet, "/ssh/certificates", nil)
	return list.Certificates, err
}

// RevokeSSHCertificate ends a certificate, and the connections that were opened with it.
func (c *Client) RevokeSSHCertificate(ctx context.Context, serial uint64) error {
	return c.call(ctx, http.MethodDelete, path("ssh", "certificates", strconv.FormatUint(serial, 10)), nil, nil)
}

// EndSSHConnections ends all ssh connections of the caller's. Her keys and certificates stay.
func (c *Client) EndSSHConnections(ctx context.Context) error {
	return c.call(ctx, http.MethodDelete, "/ssh/connections", nil, nil)
}

// BeginSSHLogin begins a login that the user confirms in her browser. No token is needed.
func (c *Client) BeginSSHLogin(ctx context.Context, r SSHLoginRequest) (DeviceLogin, error) {
	return fetch[DeviceLogin](ctx, c, http.MethodPost, "/ssh/logins", r)
}

// PollSSHLogin looks whether a login is confirmed: errs.Forbidden where the user has refused it, errs.NotFound where
// its time is over.
func (c *Client) PollSSHLogin(ctx context.Context, id string) (SSHLoginState, error) {
	return fetch[SSHLoginState](ctx, c, http.MethodGet, "/ssh/logins/"+url.PathEscape(id), nil)
}
