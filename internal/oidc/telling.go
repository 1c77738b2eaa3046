package oidc

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// What an issuer says to a refusal goes to logs, events and pages. Some repeat what they were asked, whole or in part.
const (
	telltale = 8  // bytes of a value that was sent, and more, are not repeated
	longWord = 32 // bytes
)

// public are the values of a form that are no secrets.
var public = map[string]bool{
	"grant_type": true, "client_id": true, "scope": true, "audience": true, "subject_token_type": true,
	"requested_token_type": true, "token_type_hint": true,
}

// telling reports whether what an issuer says may hold a secret: a part of what it was sent, or a word that may be a
// token.
func (c *Client) telling(said string, form url.Values) bool {
	if shares(said, c.cfg.ClientSecret.Reveal()) {
		return true
	}
	for name, values := range form {
		if !public[name] && slices.ContainsFunc(values, func(v string) bool { return shares(said, v) }) {
			return true
		}
	}
	words := strings.FieldsFunc(said, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.~+=", r)
	})
	return slices.ContainsFunc(words, opaque)
}

// opaque reports whether a word may be a token or a part of one: a code of an error, however long, is letters and _.
func opaque(word string) bool {
	long := len(word) >= longWord && strings.ContainsFunc(
		word, func(r rune) bool { return r != '_' && !unicode.IsLower(r) },
	)
	return long || strings.HasPrefix(word, "eyJ")
}

// shares reports whether text holds a secret, or as much of it as tells something.
func shares(text, secret string) bool {
	if len(secret) <= telltale {
		return secret != "" && strings.Contains(text, secret)
	}
	for i := 0; i+telltale <= len(secret); i++ {
		if strings.Contains(text, secret[i:i+telltale]) {
			return true
		}
	}
	return false
}
