package sshauth

import (
	"bytes"
	"crypto/ed25519"
	"crypto/elliptic"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"slipway/internal/errs"
)

// security keys, as ssh-keygen makes them; nobody has their other half.
const (
	skEd    = "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIJpVnzbmILKAU+Tae+Mmmd8mA4eTeCnwF2GgQ7c0lYXMAAAABHNzaDo="
	dsa     = "ssh-dss AAAAB3NzaC1kc3MAAACBAPfbnzc0cGJ3rP+t"
	anEd    = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEXwuWTIVNeELOVsIJLRe4Zbl1BvMPLyTOaSaqLnw1Rn"
	another = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB3P6QkOqwzLAv4oYHhQ1+YxZ0m0Fq0f7hLzD7dWnQ1L"
)

func TestParseKey(t *testing.T) {
	for name, tc := range map[string]struct{ text, kind, comment string }{
		"alone":          {anEd, ssh.KeyAlgoED25519, ""},
		"a comment":      {anEd + " alice@laptop at home\n", ssh.KeyAlgoED25519, "alice@laptop at home"},
		"Windows":        {"\r\n" + anEd + " alice@laptop\r\n\r\n", ssh.KeyAlgoED25519, "alice@laptop"},
		"blanks":         {" \t" + strings.Replace(anEd, " ", " \t ", 1) + "   x ", ssh.KeyAlgoED25519, "x"},
		"a remark":       {"# my key\n" + anEd + " x", ssh.KeyAlgoED25519, "x"},
		"escapes":        {anEd + " \x1b[31mred\x07\u202e<b>\xff\x00", ssh.KeyAlgoED25519, "[31mred<b>"},
		"a long comment": {anEd + " " + strings.Repeat("é", 500), ssh.KeyAlgoED25519, strings.Repeat("é", 100)},
		"a security key": {skEd + " yubi", ssh.KeyAlgoSKED25519, "yubi"},
		"P-256":          {plain(ecdsaKey(t, elliptic.P256())), ssh.KeyAlgoECDSA256, ""},
		"P-521":          {plain(ecdsaKey(t, elliptic.P521())), ssh.KeyAlgoECDSA521, ""},
	} {
		key, comment, err := ParseKey(tc.text)
		if err != nil || key.Type() != tc.kind || comment != tc.comment {
			t.Errorf("%s: %v, %q, %v", name, key, comment, err)
		}
	}
}

func TestParseKeyRefuses(t *testing.T) {
	_, private, _ := ed25519.GenerateKey(bytes.NewReader(make([]byte, 64)))
	block, err := ssh.MarshalPrivateKey(private, "x")
	if err != nil {
		t.Fatal(err)
	}
	secret := string(pem.EncodeToMemory(block))
	body := strings.Split(secret, "\n")[1]
	for name, tc := range map[string]struct{ text, says, remedy string }{
		"private":               {secret, "PRIVATE", "do not use this key any more"},
		"private, bare":         {strings.Join(strings.Split(secret, "\n")[1:3], "\n"), "PRIVATE", "ssh-keygen"},
		"private behind public": {anEd + "\n" + secret, "PRIVATE", "ssh-keygen"},
		"PuTTY's private":       {"PuTTY-User-Key-File-3: ssh-ed25519\r\nEncryption: none\r\n", "PRIVATE", "ssh-keygen"},
		"PEM's private":         {"-----BEGIN RSA PRIVATE KEY-----\nMIIE", "PRIVATE", "ssh-keygen"},
		"DSA":                   {dsa, "DSA", "ssh-keygen -t ed25519"},
		"short RSA":             {plain(rsaKey(t, 2048)), "2048 bits", "ssh-keygen -t ed25519"},
		"options":               {`command="rm -rf /",no-pty ` + anEd, "in front", "the key alone"},
		"one option":            {"restrict " + anEd, "in front", "the key alone"},
		"several":               {anEd + "\n" + another, "several", "one by one"},
		"the same twice":        {anEd + "\r" + anEd, "several", "one by one"},
		"wrapped":               {anEd[:40] + "\n" + anEd[40:], "several lines", "one line"},
		"cut":                   {anEd[:60], "cut short", "one line"},
		"changed":               {strings.Replace(anEd, "IEXw", "IE*w", 1), "cut short", "one line"},
		"another type's":        {strings.Replace(anEd, "ssh-ed25519 ", "ssh-rsa ", 1), "cut short", "one line"},
		"a certificate":         {"ssh-ed25519-cert-v01@openssh.com AAAA", "certificate", "-cert.pub"},
		"an unknown type":       {"ssh-mldsa-65 AAAA", "this type", "ssh-ed25519"},
		"RFC 4716":              {"---- BEGIN SSH2 PUBLIC KEY ----\nAAAA\n---- END SSH2 PUBLIC KEY ----", "form", "ssh-keygen -i"},
		"PEM":                   {"-----BEGIN PUBLIC KEY-----\nAAAA\n", "form", "ssh-keygen -i"},
		"nothing":               {" \r\n#x\n", "no public key", "one line"},
		"words":                 {"hello, this is me", "no public key", "one line"},
		"too much":              {anEd + strings.Repeat(" x", textLimit), "16 KiB", "one line"},
	} {
		_, _, err := ParseKey(tc.text)
		e, ok := errors.AsType[*errs.Error](err)
		if !ok || e.Kind != errs.Invalid || e.Field != "key" || !strings.Contains(e.Message, tc.says) || !strings.Contains(e.Remedy, tc.remedy) {
			t.Errorf("%s: %v", name, err)
		}
		if ok && strings.Contains(e.Error(), body[:20]) {
			t.Errorf("%s: the error tells the key", name)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	for _, text := range []string{anEd, skEd, dsa, "restrict " + anEd, anEd + "\r\n" + another, "# x\n" + anEd + " \x1b[m", "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQ=="} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, comment, err := ParseKey(text)
		if err != nil {
			if !errs.Is(err, errs.Invalid) {
				t.Errorf("%v", err)
			}
			return
		}
		again, same, err := ParseKey(plain(key) + " " + comment)
		if err != nil || !bytes.Equal(again.Marshal(), key.Marshal()) || same != comment {
			t.Errorf("%q becomes %q, %v", text, same, err)
		}
	})
}
