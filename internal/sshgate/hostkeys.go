package sshgate

import (
	"crypto/rand"
	"strings"

	"golang.org/x/crypto/ssh"
)

// announceKeys tells the client all host keys, so that it knows them before one is changed: hostkeys-00@openssh.com in
// OpenSSH's PROTOCOL.
func (v *visitor) announceKeys() {
	var payload []byte
	for _, k := range v.plainKeys() {
		payload = append(payload, ssh.Marshal(struct{ Key []byte }{k.PublicKey().Marshal()})...)
	}
	_, _, _ = v.ssh.SendRequest("hostkeys-00@openssh.com", false, payload)
}

// plainKeys returns the host keys without those that are certificates.
func (v *visitor) plainKeys() (out []ssh.Signer) {
	for _, k := range v.g.cfg.Gatekeeper.HostKeys() {
		if _, is := k.PublicKey().(*ssh.Certificate); !is {
			out = append(out, k)
		}
	}
	return out
}

// proof is what is signed to prove a host key.
type proof struct {
	What    string
	Session []byte
	Key     []byte
}

// mostProofs is how many keys a client may want proved at once.
const mostProofs = 16

// proveKeys signs for each of the keys that the client names, in their order.
func (v *visitor) proveKeys(payload []byte) (ok bool, answer []byte) {
	for n := 0; len(payload) > 0; n++ {
		var next struct {
			Key  []byte
			Rest []byte `ssh:"rest"`
		}
		if ssh.Unmarshal(payload, &next) != nil || n >= mostProofs {
			return false, nil
		}
		signature := v.prove(next.Key)
		if signature == nil {
			return false, nil
		}
		answer = append(answer, ssh.Marshal(struct{ Signature []byte }{ssh.Marshal(signature)})...)
		payload = next.Rest
	}
	return len(answer) > 0, answer
}

func (v *visitor) prove(key []byte) *ssh.Signature {
	for _, k := range v.plainKeys() {
		if string(k.PublicKey().Marshal()) != string(key) {
			continue
		}
		data := ssh.Marshal(proof{"hostkeys-prove-00@openssh.com", v.ssh.SessionID(), key})
		signer, is := k.(ssh.AlgorithmSigner)
		if k.PublicKey().Type() != ssh.KeyAlgoRSA || !is {
			signature, _ := k.Sign(rand.Reader, data)
			return signature
		}
		signature, _ := signer.SignWithAlgorithm(rand.Reader, data, v.rsaAlgorithm())
		return signature
	}
	return nil
}

// rsaAlgorithm is what an RSA key signs with: as in the handshake, where it was one that did.
func (v *visitor) rsaAlgorithm() string {
	if c, ok := v.ssh.Conn.(ssh.AlgorithmsConnMetadata); ok && strings.HasPrefix(c.Algorithms().HostKey, ssh.KeyAlgoRSASHA256) {
		return ssh.KeyAlgoRSASHA256
	}
	return ssh.KeyAlgoRSASHA512
}
