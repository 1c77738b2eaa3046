// Package workloadtoken makes and checks what workloads on other hosts show to the service: short texts (RFC 7519,
// signed with HMAC SHA-256) that say which workload, which run of it, and for what.
//
// Promises: nobody without the key makes one, and one that is made for one purpose is not taken for another. A
// credential says only what it was made for: whether the workload is still active, and this is its run, the caller asks
// of the engine at each use. The package must not know what a workload is.
package workloadtoken

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// Audience is what a credential is good for.
type Audience string

// The audiences.
const (
	Link  Audience = "link"  // the workload's agent connects to the service
	Image Audience = "image" // the workload's image is fetched from the service
)

// Life is how long a credential holds at most. A job may wait for weeks in a batch system's queue, and what it carries
// cannot be renewed there. It ends with the workload's run in any case.
const Life = 30 * 24 * time.Hour

// limit is the most bytes of a credential.
const limit = 2048

// issuer is in each credential: nothing else that may be signed with a key of this service is taken for one.
const issuer = "slipway"

// Claims are what a credential says.
type Claims struct {
	Workload  string
	Run       string // of the workload; empty: any
	Digest    string // of the environment that it may fetch
	Audiences []Audience
}

// payload is Claims as they are signed.
type payload struct {
	Run    string `json:"run,omitempty"`
	Digest string `json:"digest,omitempty"`
	jwt.RegisteredClaims
}

// Issuer makes credentials and checks its own.
type Issuer struct {
	key []byte
	now func() time.Time
}

// New makes an Issuer. Whoever has the key can let in whom he likes; it has 32 bytes.
func New(key []byte) *Issuer { return &Issuer{key: slices.Clone(key), now: time.Now} }

// Issue makes a credential.
func (i *Issuer) Issue(c Claims) (secret.Text, error) {
	if c.Workload == "" || len(c.Audiences) == 0 {
		return secret.Text{}, errs.New(errs.Internal, "issue a credential: it needs a workload and an audience")
	}
	p := payload{Run: c.Run, Digest: c.Digest, RegisteredClaims: jwt.RegisteredClaims{
		Issuer: issuer, Subject: c.Workload, IssuedAt: jwt.NewNumericDate(i.now()),
		ExpiresAt: jwt.NewNumericDate(i.now().Add(Life)),
	}}
	for _, a := range c.Audiences {
		p.Audience = append(p.Audience, string(a))
	}
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, p).SignedString(i.key)
	if err != nil {
		return secret.Text{}, errs.New(errs.Internal, "issue a credential: %w", err)
	}
	return secret.New(text), nil
}

// Check returns what a credential says that was made for audience. All that is wrong with one is errs.Forbidden, and
// its words tell nothing of what is in it.
func (i *Issuer) Check(token string, audience Audience) (Claims, error) {
	if len(token) > limit || strings.ContainsFunc(token, odd) {
		return Claims{}, refused("is no credential of this service")
	}
	var p payload
	_, err := jwt.ParseWithClaims(token, &p, func(*jwt.Token) (any, error) { return i.key, nil },
		jwt.WithValidMethods(
			[]string{jwt.SigningMethodHS256.Alg()},
		), jwt.WithIssuer(issuer), jwt.WithAudience(string(audience)),
		jwt.WithExpirationRequired(), jwt.WithTimeFunc(i.now), jwt.WithStrictDecoding())
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return Claims{}, refused("has expired")
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return Claims{}, refused("was made for something else")
	case err != nil || p.Subject == "":
		return Claims{}, refused("is no credential of this service")
	}
	c := Claims{Workload: p.Subject, Run: p.Run, Digest: p.Digest}
	for _, a := range p.Audience {
		c.Audiences = append(c.Audiences, Audience(a))
	}
	return c, nil
}

// odd says that a character is in no credential. The decoder passes over line breaks.
func odd(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
}

func refused(why string) error { return errs.New(errs.Forbidden, "the credential %s", why) }

// Is tells credentials from other tokens by their form alone: three parts, the first of which begins a JSON object.
func Is(token string) bool { return strings.HasPrefix(token, "eyJ") && strings.Count(token, ".") == 2 }
