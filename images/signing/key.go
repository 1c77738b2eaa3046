package signing

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"time"

	"slipway/internal/errs"
)

// Key is the public half of a key whose signatures count here.
type Key struct {
	ID      string    // "SHA256:...", the fingerprint that `ssh-keygen -l` shows
	Site    string    // of a foreign key: the name under which it is trusted; empty for own keys
	Created time.Time // of own keys; the zero time for others
	Signs   bool      // this is the key that signs now

	private bool // its private half lies here
	name    string
	public  *ecdsa.PublicKey
	sum     [sha256.Size]byte
}

// Own tells whether the key is this site's.
func (k Key) Own() bool { return k.Site == "" }

// PEM returns the public key as `apptainer verify --key` and Trust take it.
func (k Key) PEM() []byte {
	der, err := x509.MarshalPKIXPublicKey(k.public)
	if err != nil { // a P-256 key that was parsed or made here can be written
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: publicType, Bytes: der})
}

const (
	privateType, publicType = "PRIVATE KEY", "PUBLIC KEY"
	stamp                   = "20060102T150405Z"
)

func generate() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// keyOf describes a public key.
func keyOf(public *ecdsa.PublicKey) (Key, error) {
	if public.Curve != elliptic.P256() {
		return Key{}, errs.New(errs.Invalid, "it is an ECDSA key of the curve %s", public.Curve.Params().Name).
			With("use P-256")
	}
	point, err := public.Bytes()
	if err != nil {
		return Key{}, err
	}
	var wire []byte // as ssh writes a public key
	for _, part := range [][]byte{[]byte("ecdsa-sha2-nistp256"), []byte("nistp256"), point} {
		wire = append(binary.BigEndian.AppendUint32(wire, uint32(len(part))), part...)
	}
	sum := sha256.Sum256(wire)
	return Key{ID: "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:]), public: public, sum: sum}, nil
}

// file is the name of an own key's files, without the ending.
func (k Key) file() string {
	return k.Created.UTC().Format(stamp) + "-" + hex.EncodeToString(k.sum[:8])
}

// parsePublic reads a public key in PEM, and nothing else beside it.
func parsePublic(data []byte) (Key, error) {
	der, err := decode(data, publicType)
	if err != nil {
		return Key{}, err
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return Key{}, errs.New(errs.Invalid, "its public key cannot be read: %w", err)
	}
	public, ok := parsed.(*ecdsa.PublicKey)
	if !ok {
		return Key{}, errs.New(errs.Invalid, "its key is no ECDSA key but %T", parsed).With("use ECDSA P-256")
	}
	return keyOf(public)
}

func parsePrivate(data []byte) (*ecdsa.PrivateKey, error) {
	der, err := decode(data, privateType)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, errs.New(errs.Invalid, "its private key cannot be read") // the cause may quote the key
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || private.Curve != elliptic.P256() {
		return nil, errs.New(errs.Invalid, "its private key is not one of ECDSA P-256")
	}
	return private, nil
}

func decode(data []byte, kind string) ([]byte, error) {
	block, rest := pem.Decode(data)
	if block == nil || block.Type != kind || len(rest) != 0 {
		return nil, errs.New(errs.Invalid, "it is not one PEM block %q", kind)
	}
	return block.Bytes, nil
}

func encodePrivate(private *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("encode the key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: privateType, Bytes: der}), nil
}
