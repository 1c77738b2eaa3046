package sshauth

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"slipway/internal/devicelogin"

	"golang.org/x/crypto/ssh"
)

// hostLife is how long a host certificate is good. It is made anew whenever the service starts.
const hostLife = 5 * 365 * 24 * time.Hour

// skew is how far the clocks of others may be apart from this one.
const skew = 2 * time.Minute

// keyring is what lies in the files.
type keyring struct {
	hosts     []ssh.Signer // the host keys
	certified []ssh.Signer // the same with their certificates
	host      ssh.Signer   // the authority of the host keys
	user      ssh.Signer   // the authority of users' certificates
}

func openKeyring(dir, host string, log *slog.Logger) (keyring, error) {
	var k keyring
	if err := makeDir(dir); err != nil {
		return k, err
	}
	for _, f := range keyFiles() {
		key, err := f.open(dir, log)
		if err != nil {
			return k, err
		}
		switch f.name {
		case hostAuthority:
			k.host = key
		case userAuthority:
			k.user = key
		default:
			certified, err := certifyHost(key, k.host, host)
			if err != nil {
				return k, err
			}
			k.hosts, k.certified = append(k.hosts, key), append(k.certified, certified)
		}
	}
	return k, nil
}

// certifyHost returns a host key with a certificate for the name that users type.
func certifyHost(key, authority ssh.Signer, host string) (ssh.Signer, error) {
	now := time.Now()
	c := &ssh.Certificate{
		Key: key.PublicKey(), CertType: ssh.HostCert, KeyId: "slipway at " + host, ValidPrincipals: []string{host},
		ValidAfter: uint64(now.Add(-skew).Unix()), ValidBefore: uint64(now.Add(hostLife).Unix()),
	}
	if err := c.SignCert(rand.Reader, authority); err != nil {
		return nil, fmt.Errorf("certify a host key: %w", err)
	}
	return ssh.NewCertSigner(c, key)
}

// HostKeys are what a server shows: each host key with its certificate, and without.
func (a *Authority) HostKeys() []ssh.Signer {
	return append(append([]ssh.Signer{}, a.files.certified...), a.files.hosts...)
}

// Host and Port are what users type.
func (a *Authority) Host() string { return a.cfg.Host }

// Port is the port beside it.
func (a *Authority) Port() int { return a.cfg.Port }

// Life is how long certificates are good.
func (a *Authority) Life() time.Duration { return a.cfg.Certificate }

// HostAuthority is the key that signs the host keys, as an authorized_keys file has it.
func (a *Authority) HostAuthority() string { return plain(a.files.host.PublicKey()) }

// KnownHosts are the lines by which a client knows the service: of the authority first, then of each host key.
func (a *Authority) KnownHosts() []string {
	at := a.cfg.Host
	if a.cfg.Port != 22 {
		at = "[" + a.cfg.Host + "]:" + strconv.Itoa(a.cfg.Port)
	}
	lines := []string{"@cert-authority " + at + " " + a.HostAuthority()}
	for _, k := range a.files.hosts {
		lines = append(lines, at+" "+plain(k.PublicKey()))
	}
	return lines
}

// Fingerprints are those of the host keys, as clients show them.
func (a *Authority) Fingerprints() (list []string) {
	for _, k := range a.files.hosts {
		words := strings.ToUpper(strings.Split(strings.TrimPrefix(k.PublicKey().Type(), "ssh-"), "-")[0])
		list = append(list, fmt.Sprintf("%s (%s)", ssh.FingerprintSHA256(k.PublicKey()), words))
	}
	return list
}

// odd are characters that ssh clients or shells take for something else in a login name.
const odd = "'\"`$\\;&<>|(){}%*?[]#!~^,"

// Line is what is typed to reach a server of a user's; empty where its name cannot be typed.
func (a *Authority) Line(user, server string) string {
	login, ok := LoginName(user, server)
	if !ok {
		return ""
	}
	words := login + "@" + a.cfg.Host
	if strings.Contains(login, " ") {
		words = "'" + words + "'"
	}
	if a.cfg.Port != 22 {
		return fmt.Sprintf("ssh -p %d %s", a.cfg.Port, words)
	}
	return "ssh " + words
}

// LoginName is the login name for a server of a user's; false where it is none that clients take.
func LoginName(user, server string) (string, bool) {
	login := user
	if server != "" {
		login += "+" + server
	}
	return login, user != "" && login[0] != '-' && !strings.ContainsAny(login, odd) && login == devicelogin.Label(login) &&
		!strings.Contains(login, " -")
}
