package sshclientconfig

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/errs"
)

// NewKey makes a key: the private half in OpenSSH's format, and the public one as a line of authorized_keys.
func NewKey(comment string) (private []byte, public string, err error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, "", err
	}
	block, err := ssh.MarshalPrivateKey(key, comment)
	if err != nil {
		return nil, "", err
	}
	line, err := ssh.NewPublicKey(pub)
	if err != nil {
		return nil, "", err
	}
	return pem.EncodeToMemory(block), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(line))), nil
}

// checked returns the certificate as it is written, if it is one for the key.
func (c Credential) checked() ([]byte, error) {
	signer, err := ssh.ParsePrivateKey(c.Key)
	if err != nil {
		return nil, err
	}
	cert, err := parseCertificate([]byte(c.Certificate))
	if err == nil && (cert.CertType != ssh.UserCert || !bytes.Equal(cert.Key.Marshal(), signer.PublicKey().Marshal())) {
		err = errors.New("it is for another key")
	}
	if err != nil {
		return nil, errs.New(errs.Invalid, "the service's certificate is not good: %w", err).
			With("tell its administrator")
	}
	return ssh.MarshalAuthorizedKey(cert), nil
}

func parseCertificate(text []byte) (*ssh.Certificate, error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		return nil, err
	}
	if cert, ok := key.(*ssh.Certificate); ok {
		return cert, nil
	}
	return nil, errors.New("it is a key")
}

// Expires tells until when a service's certificate is good.
func (f *Files) Expires(name string) (time.Time, error) {
	cert, err := f.kept(name)
	if err != nil {
		return time.Time{}, err
	}
	return time.Unix(int64(min(cert.ValidBefore, 1<<62)), 0), nil
}

// Serial tells by which number a service knows its certificate.
func (f *Files) Serial(name string) (uint64, error) {
	cert, err := f.kept(name)
	if err != nil {
		return 0, err
	}
	return cert.Serial, nil
}

// Sign signs words with a service's key, in the name of which its certificate is withdrawn. The key is given as a file
// .pub has it.
func (f *Files) Sign(name string, words []byte) (key string, s *ssh.Signature, err error) {
	text, err := os.ReadFile(f.Key(name))
	if err != nil {
		return "", nil, err
	}
	signer, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return "", nil, err
	}
	s, err = signer.Sign(rand.Reader, words)
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))), s, err
}

func (f *Files) kept(name string) (*ssh.Certificate, error) {
	text, err := os.ReadFile(f.Certificate(name))
	if err != nil {
		return nil, err
	}
	return parseCertificate(text)
}
