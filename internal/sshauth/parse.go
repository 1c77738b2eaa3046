package sshauth

import (
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"slipway/internal/devicelogin"

	"golang.org/x/crypto/ssh"
)

const (
	textLimit    = 16 << 10 // bytes of a pasted key
	commentLimit = 100      // runes
	rsaLeast     = 3072     // bits
)

// types are those of public keys that are taken.
func types() []string {
	return []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
		ssh.KeyAlgoSKECDSA256, ssh.KeyAlgoRSA,
	}
}

const (
	makeOne  = "make one with `ssh-keygen -t ed25519`, and give the file whose name ends in .pub"
	onlyOne  = "give one public key in one line, such as the file ~/.ssh/id_ed25519.pub has it"
	tellLost = "do not use this key any more: it has left your computer. Make a new one with `ssh-keygen -t ed25519`, and give only the file whose " +
		"name ends in .pub"
)

// private is what stands in files of private keys: of OpenSSH, PEM and PuTTY, and the first bytes of OpenSSH's without
// its first line.
var private = regexp.MustCompile(`PRIVATE KEY|PuTTY-User-Key-File|Private-Lines|b3BlbnNzaC1rZXktdjE`)

// keyWord is the first word of a public key.
var keyWord = regexp.MustCompile(`^(ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+$`)

// ParseKey reads a public key as ssh-keygen writes it, with its comment. The words of its errors hold nothing of the
// text.
func ParseKey(text string) (ssh.PublicKey, string, error) {
	line, err := oneLine(text)
	if err != nil {
		return nil, "", err
	}
	kind, rest, _ := strings.Cut(line, " ")
	encoded, comment, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	if err := checkType(kind, strings.Fields(rest)); err != nil {
		return nil, "", err
	}
	blob, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return nil, "", wrong("key", "the public key is cut short or changed", onlyOne)
	}
	key, err := ssh.ParsePublicKey(blob)
	if err != nil || key.Type() != kind {
		return nil, "", wrong("key", "the public key is cut short or changed", onlyOne)
	}
	if err := checkSize(key); err != nil {
		return nil, "", err
	}
	return key, devicelogin.Label(comment), nil
}

// oneLine returns the line of a text that holds one key.
func oneLine(text string) (string, error) {
	if private.MatchString(text) {
		return "", wrong("key", "this is a PRIVATE key, which nobody but you may ever have. It was not kept", tellLost)
	}
	if len(text) > textLimit {
		return "", wrong("key", fmt.Sprintf("the text has more than %d KiB", textLimit>>10), onlyOne)
	}
	if strings.Contains(text, "---- BEGIN SSH2 PUBLIC KEY") || strings.Contains(text, "BEGIN PUBLIC KEY") || strings.Contains(text, "BEGIN RSA PUBLIC KEY") {
		return "", wrong("key", "the public key is in a form that OpenSSH does not use", "`ssh-keygen -i -f FILE` writes it as it is wanted here "+
			"(for PEM with -m PKCS8); PuTTYgen shows it under \"Public key for pasting\"")
	}
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	lines = slices.DeleteFunc(lines, func(l string) bool { return l == "" || l[0] == '#' })
	switch {
	case len(lines) == 0:
		return "", wrong("key", "there is no public key in it", onlyOne)
	case len(lines) == 1:
		return lines[0], nil
	}
	if first, _, _ := strings.Cut(lines[1], " "); keyWord.MatchString(first) {
		return "", wrong("key", "there are several keys in it", "add them one by one")
	}
	if first, _, _ := strings.Cut(lines[0], " "); !keyWord.MatchString(first) {
		return "", wrong("key", "it is no public key", onlyOne)
	}
	return "", wrong("key", "it is broken into several lines", onlyOne)
}

// checkType looks at the first word of the line, and at the others where it says nothing.
func checkType(kind string, others []string) error {
	switch {
	case slices.Contains(types(), kind):
		return nil
	case kind == "ssh-dss":
		return wrong("key", "DSA keys are not safe any more", makeOne)
	case strings.Contains(kind, "-cert-v"):
		return wrong(
			"key", "this is a certificate, not a public key", "give the file whose name ends in .pub, not in -cert.pub",
		)
	case slices.ContainsFunc(others, keyWord.MatchString):
		return wrong("key", "something stands in front of the public key; options as in an authorized_keys file are not taken",
			"give the key alone, from the word ssh-... or ecdsa-... on")
	case keyWord.MatchString(kind):
		return wrong("key", "keys of this type are not taken", "take one of "+strings.Join(types(), ", ")+": "+makeOne)
	default:
		return wrong("key", "this is no public key", onlyOne)
	}
}

// checkSize refuses RSA keys that are too short to be safe.
func checkSize(key ssh.PublicKey) error {
	k, ok := key.(ssh.CryptoPublicKey)
	if !ok {
		return nil
	}
	if r, ok := k.CryptoPublicKey().(*rsa.PublicKey); ok && r.N.BitLen() < rsaLeast {
		return wrong(
			"key", fmt.Sprintf("the RSA key has %d bits, and at least %d are needed", r.N.BitLen(), rsaLeast), makeOne,
		)
	}
	return nil
}

// plain returns a public key as an authorized_keys file has it, without a comment.
func plain(key ssh.PublicKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) }
