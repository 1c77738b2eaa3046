package signing

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"slipway/internal/errs"
)

// maxEnvelope bounds what is read of a stranger's envelope.
const maxEnvelope = 1 << 20

// envelope is DSSE's, with its members in the order in which Apptainer writes them.
type envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     string      `json:"payload"`
	Signatures  []signature `json:"signatures"`
}

type signature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// signedText is what a signature is made of: DSSE's "pre-authentication encoding".
func signedText(payloadType string, payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
}

func signEnvelope(private *ecdsa.PrivateKey, payloadType string, payload []byte) ([]byte, error) {
	key, err := keyOf(&private.PublicKey)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(signedText(payloadType, payload))
	sig, err := private.Sign(nil, sum[:], crypto.SHA256) // without randomness: RFC 6979
	if err != nil {
		return nil, err
	}
	encode := base64.StdEncoding.EncodeToString
	return json.Marshal(envelope{payloadType, encode(payload), []signature{{key.ID, encode(sig)}}})
}

// openEnvelope returns the payload and the first of keys that has signed it.
func openEnvelope(keys []Key, payloadType string, data []byte) ([]byte, Key, error) {
	e, err := parseEnvelope(data)
	if err != nil {
		return nil, Key{}, err
	}
	if e.PayloadType != payloadType {
		return nil, Key{}, errs.New(errs.Invalid, "the envelope holds %.80q, not %q", e.PayloadType, payloadType)
	}
	payload, err := base64.StdEncoding.Strict().DecodeString(e.Payload)
	if err != nil {
		return nil, Key{}, damaged(err)
	}
	sum := sha256.Sum256(signedText(payloadType, payload))
	broken := false
	for _, s := range e.Signatures {
		sig, err := base64.StdEncoding.Strict().DecodeString(s.Sig)
		if err != nil {
			return nil, Key{}, damaged(err)
		}
		for _, k := range keys {
			if s.KeyID != "" && s.KeyID != k.ID {
				continue
			}
			if ecdsa.VerifyASN1(k.public, sum[:], sig) {
				return payload, k, nil
			}
			broken = broken || s.KeyID == k.ID
		}
	}
	if broken {
		return nil, Key{}, errs.New(errs.Invalid, "the envelope has been changed since it was signed").
			With("fetch it again from where it was made")
	}
	return nil, Key{}, errs.New(
		errs.Forbidden, "the envelope is signed with %s, which is not accepted here", e.signers(),
	).With("ask the administrator to put that site's public key into the directory of trusted keys")
}

// parseEnvelope accepts an envelope only as Slipway and Apptainer write it: JSON would let many bytes be changed
// without an effect.
func parseEnvelope(data []byte) (envelope, error) {
	if len(data) > maxEnvelope {
		return envelope{}, errs.New(errs.Invalid, "the envelope has %d bytes, more than %d", len(data), maxEnvelope)
	}
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return envelope{}, damaged(err)
	}
	again, err := json.Marshal(e)
	if err != nil || !bytes.Equal(again, data) {
		return envelope{}, errs.New(errs.Invalid, "the envelope is not written as Slipway and Apptainer write it").
			With("fetch it again")
	}
	return e, nil
}

func damaged(err error) error {
	return errs.New(errs.Invalid, "the envelope cannot be read: %w", err).With("fetch it again from where it was made")
}

// signers names the keys that the envelope says it is signed with.
func (e envelope) signers() string {
	switch {
	case len(e.Signatures) == 0:
		return "no key"
	case e.Signatures[0].KeyID == "":
		return "a key that it does not name"
	}
	return fmt.Sprintf("%.80q", e.Signatures[0].KeyID)
}
