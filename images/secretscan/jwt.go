package secretscan

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

const maxToken = 64 << 10

// claims are those that tell tokens apart. WLCG Common JWT Profiles 1.0 (wlcg.ver), scitokens.org's claims (ver),
// RFC 7519 section 4.1 (the rest).
type claims struct {
	WLCG    json.RawMessage `json:"wlcg.ver"`
	Version json.RawMessage `json:"ver"`
	Issuer  json.RawMessage `json:"iss"`
	ID      json.RawMessage `json:"jti"`
	Type    json.RawMessage `json:"typ"`
	Subject json.RawMessage `json:"sub"`
	Expires json.RawMessage `json:"exp"`
	Issued  json.RawMessage `json:"iat"`
}

// checkJWT looks at both sides of the dot before a payload.
func checkJWT(v view, at int) (hit, bool) {
	begin := back(v.content, at, 4096, urlByte)
	i := bytes.Index(v.content[begin:at], []byte("eyJ"))
	if i < 0 {
		return hit{}, false
	}
	begin += i
	kind, ok := tokenKind(v.content[begin:min(len(v.content), begin+maxToken)], v.now)
	return hit{kind, begin}, ok
}

// tokenKind reads the JWT at the beginning of text.
func tokenKind(text []byte, now time.Time) (Kind, bool) {
	var header struct{ Alg string }
	var c claims
	head, rest, _ := bytes.Cut(text, []byte("."))
	payload, rest, ok := bytes.Cut(rest, []byte("."))
	if !ok || !segment(head, &header) || header.Alg == "" || !segment(payload, &c) || c.ended(now) || c.example() {
		return "", false
	}
	signature, _ := run(rest, 0, urlByte)
	if strings.EqualFold(header.Alg, "none") { // INDIGO IAM's refresh tokens are not signed: their id is the secret
		return RefreshToken, len(c.ID) > 16
	}
	if len(signature) < 32 {
		return "", false
	}
	return c.kind(), true
}

func segment(text []byte, to any) bool {
	raw, err := base64.RawURLEncoding.DecodeString(string(text))
	return err == nil && json.Unmarshal(raw, to) == nil
}

func (c claims) kind() Kind {
	switch {
	case string(c.Type) == `"Refresh"` || string(c.Type) == `"Offline"`: // Keycloak, which CERN's single sign-on is
		return RefreshToken
	case c.WLCG != nil:
		return WLCG
	case bytes.HasPrefix(bytes.ToLower(c.Version), []byte(`"scitoken`)):
		return SciToken
	case c.Issuer != nil:
		return OIDC
	}
	return JWT
}

// ended says whether the token is past its time. Keycloak writes 0 for one that does not end.
func (c claims) ended(now time.Time) bool {
	var exp float64
	return json.Unmarshal(c.Expires, &exp) == nil && exp > 0 && exp < float64(now.Unix())
}

// example tells tokens of manuals: the one that jwt.io shows, and those without any claim that RFC 7519 registers,
// which no service would accept.
func (c claims) example() bool {
	registered := c.Issuer != nil || c.Subject != nil || c.ID != nil || c.Expires != nil || c.Issued != nil
	return !registered || string(c.Subject) == `"1234567890"`
}
