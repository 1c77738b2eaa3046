package x509proxy

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
)

const (
	// mostBytes of a file. One with the memberships of several organisations has some 20 kB.
	mostBytes = 128 << 10
	// mostCertificates in it: a proxy of a proxy of a proxy, with all of its authorities.
	mostCertificates = 20
	fewestRSA        = 2048
	mostRSA          = 8192 // a signature by more takes the service long
	fewestCurve      = 256
)

// parts is what lies in a file.
type parts struct {
	key          signer
	certificates []*x509.Certificate // as they lie: the proxy first
}

// signer is a private key, and how it was written.
type signer struct {
	crypto.Signer
	block *pem.Block
}

// split reads a file.
func split(text string) (parts, error) {
	var p parts
	switch {
	case len(text) > mostBytes:
		return p, refuse(
			"send the proxy alone: the file that voms-proxy-info -path names", "the file is larger than %d kB",
			mostBytes>>10,
		)
	case strings.TrimSpace(text) == "":
		return p, refuse(again, "the file is empty")
	}
	// A key that must not be sent is told of before anything else.
	blocks := blocksOf(text)
	for _, wanted := range []bool{true, false} {
		for _, block := range blocks {
			if strings.HasSuffix(block.Type, "PRIVATE KEY") != wanted {
				continue
			}
			if err := p.take(block); err != nil {
				return parts{}, err
			}
		}
	}
	switch {
	case len(p.certificates) == 0:
		return p, refuse(
			"send the file that voms-proxy-info -path names",
			"there is no certificate in the file: a proxy is text with lines such as -----BEGIN CERTIFICATE-----",
		)
	case p.key.block == nil:
		return p, refuse(
			"send the file that voms-proxy-info -path names, with all that is in it",
			"there is no private key in the file, and without it the proxy is of no use",
		)
	}
	return p, p.readKey()
}

func blocksOf(text string) []*pem.Block {
	var all []*pem.Block
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return all
		}
		all = append(all, block)
	}
}

func (p *parts) take(block *pem.Block) error {
	switch block.Type {
	case "CERTIFICATE", "X509 CERTIFICATE":
		return p.takeCertificate(block)
	case "ENCRYPTED PRIVATE KEY":
		return encrypted()
	case "RSA PRIVATE KEY", "EC PRIVATE KEY", "PRIVATE KEY":
		if strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") || block.Headers["DEK-Info"] != "" {
			return encrypted()
		}
		if p.key.block != nil {
			return refuse("send the proxy's file alone", "there are two private keys in the file")
		}
		p.key.block = &pem.Block{Type: block.Type, Bytes: block.Bytes}
	case "EC PARAMETERS": // openssl writes them before a key, which names its curve itself
	default:
		return refuse(again, "the file has a part of type %q, which no proxy has", short(block.Type))
	}
	return nil
}

func encrypted() error {
	return refuse("never send that one; make a proxy of it: voms-proxy-init, with -voms and your organisation where you have one",
		"the private key has a passphrase, so it is your certificate's own and not a proxy's")
}

func (p *parts) takeCertificate(block *pem.Block) error {
	if len(p.certificates) == mostCertificates {
		return refuse(again, "there are more than %d certificates in the file", mostCertificates)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return refuse(again, "certificate %d of the file cannot be read: %s", len(p.certificates)+1, short(err.Error()))
	}
	p.certificates = append(p.certificates, c)
	return strong(c)
}

// strong refuses keys that are too weak to be trusted, and those that take long.
func strong(c *x509.Certificate) error {
	remedy := "make a new one with a larger key: voms-proxy-init -bits 2048"
	switch key := c.PublicKey.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < fewestRSA {
			return refuse(
				remedy, "the RSA key of %s has %d bits, and others find out such a key: %d are needed",
				nameOf(c.Subject), bits, fewestRSA,
			)
		} else if bits > mostRSA {
			return refuse(
				"make a new one: voms-proxy-init -bits 4096",
				"the RSA key of %s has %d bits, more than the %d that are taken", nameOf(c.Subject), bits, mostRSA,
			)
		}
	case *ecdsa.PublicKey:
		if bits := key.Curve.Params().BitSize; bits < fewestCurve {
			return refuse(
				remedy, "the key of %s is on a curve of %d bits: %d are needed", nameOf(c.Subject), bits, fewestCurve,
			)
		}
	case ed25519.PublicKey:
	default:
		return refuse(
			remedy, "the key of %s is of a kind that is not taken: RSA, ECDSA and Ed25519 are", nameOf(c.Subject),
		)
	}
	return nil
}

// readKey reads the private key. Its error must not tell what was in it.
func (p *parts) readKey() error {
	var key any
	var err error
	switch p.key.block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(p.key.block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(p.key.block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(p.key.block.Bytes)
	}
	signs, ok := key.(crypto.Signer)
	if err != nil || !ok {
		return refuse(again, "the private key in the file cannot be read")
	}
	p.key.Signer = signs
	return nil
}
