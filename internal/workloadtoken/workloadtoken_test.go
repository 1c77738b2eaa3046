package workloadtoken

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
)

func keyOf(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

// issue makes a credential at a time.
func issue(t testing.TB, i *Issuer, c Claims) string {
	t.Helper()
	token, err := i.Issue(c)
	if err != nil {
		t.Fatal(err)
	}
	if !Is(token.Reveal()) {
		t.Errorf("%q does not look like one", token.Reveal())
	}
	if said := fmt.Sprintf("%v %+v %#v", token, token, token); strings.Contains(said, token.Reveal()) {
		t.Error("it can be printed")
	}
	return token.Reveal()
}

func TestWhatIsIssuedIsTaken(t *testing.T) {
	i := New(keyOf(1))
	want := Claims{Workload: "j-1", Run: "l1.2", Digest: "sha256:aa", Audiences: []Audience{Link, Image}}
	token := issue(t, i, want)
	for _, a := range want.Audiences {
		got, err := i.Check(token, a)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", a, err, diff)
		}
	}
	for _, c := range []Claims{{Audiences: []Audience{Link}}, {Workload: "j-1"}} {
		if _, err := i.Issue(c); err == nil {
			t.Errorf("issued: %+v", c)
		}
	}
}

func TestNothingElseIsTaken(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	i, other := New(keyOf(1)), New(keyOf(2))
	i.now = func() time.Time { return now }
	c := Claims{Workload: "j-1", Run: "l1", Audiences: []Audience{Image}}
	good := issue(t, i, c)
	head, rest, _ := strings.Cut(good, ".")
	body, sign, _ := strings.Cut(rest, ".")
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	signed := func(method jwt.SigningMethod, key any, claims jwt.Claims) string {
		s, err := jwt.NewWithClaims(method, claims).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	with := func(change func(*payload)) string {
		p := payload{Run: "l1", RegisteredClaims: jwt.RegisteredClaims{
			Issuer: issuer, Subject: "j-1", Audience: jwt.ClaimStrings{"link"}, ExpiresAt: jwt.NewNumericDate(now.Add(time.Hour)),
		}}
		change(&p)
		return signed(jwt.SigningMethodHS256, keyOf(1), p)
	}
	if _, err := i.Check(with(func(*payload) {}), Link); err != nil {
		t.Fatalf("the sound one of this table: %v", err)
	}
	for name, token := range map[string]string{
		"for another audience":      good,
		"another service's":         issue(t, other, Claims{Workload: "j-1", Audiences: []Audience{Link}}),
		"no token":                  "",
		"a Hub's token":             "0123456789abcdef0123456789abcdef",
		"two parts":                 head + "." + body,
		"without a signature":       head + "." + body + ".",
		"another's signature":       head + "." + part(`{"iss":"slipway","sub":"j-2","aud":["link"],"exp":9999999999}`) + "." + sign,
		"signed by nobody":          signed(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, jwt.MapClaims{"iss": issuer, "sub": "j-1", "aud": "link", "exp": 9999999999}),
		"signed with another hash":  signed(jwt.SigningMethodHS512, keyOf(1), jwt.MapClaims{"iss": issuer, "sub": "j-1", "aud": "link", "exp": 9999999999}),
		"of another issuer":         with(func(p *payload) { p.Issuer = "somebody" }),
		"of no issuer":              with(func(p *payload) { p.Issuer = "" }),
		"of no workload":            with(func(p *payload) { p.Subject = "" }),
		"for ever":                  with(func(p *payload) { p.ExpiresAt = nil }),
		"expired a second ago":      with(func(p *payload) { p.ExpiresAt = jwt.NewNumericDate(now.Add(-time.Second)) }),
		"of tomorrow":               with(func(p *payload) { p.NotBefore = jwt.NewNumericDate(now.Add(24 * time.Hour)) }),
		"longer than any":           with(func(p *payload) { p.Run = strings.Repeat("x", limit) }),
		"a line break at its end":   with(func(*payload) {}) + "\n",
		"padding, which is not it":  with(func(*payload) {}) + "=",
		"bits that are not counted": with(func(*payload) {})[:len(with(func(*payload) {}))-1] + "_",
	} {
		got, err := i.Check(token, Link)
		if !errs.Is(err, errs.Forbidden) || got.Workload != "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if err != nil && (strings.Contains(err.Error(), "j-1") || token != "" && strings.Contains(err.Error(), token)) {
			t.Errorf("%s: the error tells of it: %v", name, err)
		}
	}
}

// A credential holds for a month: what waits in a queue needs it for that long.
func TestLife(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	i := New(keyOf(1))
	i.now = func() time.Time { return now }
	token := issue(t, i, Claims{Workload: "j-1", Audiences: []Audience{Link}})
	now = now.Add(Life - time.Second)
	if _, err := i.Check(token, Link); err != nil {
		t.Error(err)
	}
	now = now.Add(2 * time.Second)
	if _, err := i.Check(token, Link); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("after its time: %v", err)
	}
}

// FuzzCheck: whatever is shown, only what was issued is taken.
func FuzzCheck(f *testing.F) {
	i := New(keyOf(1))
	token := issue(f, i, Claims{Workload: "j-1", Run: "l1", Audiences: []Audience{Link}})
	f.Add(token)
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Add("eyJhbGciOiJIUzI1NiJ9..")
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := i.Check(s, Link); err == nil && s != token {
			t.Errorf("%q was taken as %+v", s, c)
		}
	})
}
