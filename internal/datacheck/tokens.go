package datacheck

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/internal/secret"
)

// claims are what a token says of itself. Who wrote it is not looked at: servers do.
type claims struct {
	Audience  audiences `json:"aud"`
	Scope     string    `json:"scope"`
	Groups    []string  `json:"wlcg.groups"`
	Expires   float64   `json:"exp"`
	NotBefore float64   `json:"nbf"`
}

// audiences are one or several.
type audiences []string

// UnmarshalJSON reads either.
func (a *audiences) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(a))
}

const mostToken = 64 << 10 // bytes

// token reads a file of the credentials' directory.
func (d *doctor) token(name string) (secret.Text, fs.FileInfo, error) {
	file := filepath.Join(d.Credentials, name)
	info, err := os.Stat(file)
	if err != nil {
		return secret.Text{}, nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > mostToken {
		return secret.Text{}, nil, fmt.Errorf("%s is no token", file)
	}
	text, err := os.ReadFile(file)
	return secret.New(strings.TrimSpace(string(text))), info, err
}

// read returns what a token says; false when it is of a kind that says nothing.
func read(t secret.Text) (c claims, ok bool) {
	parts := strings.Split(t.Reveal(), ".")
	if len(parts) != 3 {
		return c, false
	}
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	return c, err == nil && json.Unmarshal(b, &c) == nil
}

// tokens looks at the files with tokens, as what they are shown to wants them.
func (d *doctor) tokens(context.Context) []hubapi.DataCheck {
	names, _ := filepath.Glob(filepath.Join(d.Credentials, "token*"))
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	for _, e := range d.Plan.Storage {
		if e.Token != "" && len(d.Plan.Issuers) > 0 {
			names = append(names, e.Token)
		}
	}
	slices.Sort(names)
	var out []hubapi.DataCheck
	for _, name := range slices.Compact(names) {
		out = append(out, d.tokenFile(name))
	}
	return out
}

const anew = "`slipway credentials` shows what the service has for you and why it is not renewed; `slipway credentials login` gets new ones"

func (d *doctor) tokenFile(name string) hubapi.DataCheck {
	check := "token " + name
	text, info, err := d.token(name)
	switch {
	case os.IsNotExist(err):
		return warn(check, "there is none", anew)
	case err != nil:
		return fail(check, "it cannot be read: "+plain(err), anew)
	case info.Mode().Perm()&0o077 != 0:
		return fail(
			check, fmt.Sprintf("others may read it: its mode is %04o", info.Mode().Perm()),
			"chmod 600 "+filepath.Join(d.Credentials, name),
		)
	}
	c, ok := read(text)
	if !ok {
		return good(check, "there; it does not say of itself when it ends")
	}
	left := time.Unix(int64(c.Expires), 0).Sub(d.Now())
	switch {
	case c.Expires > 0 && left <= 0:
		return fail(check, "it ended "+words(-left)+" ago", anew)
	case c.NotBefore > 0 && time.Unix(int64(c.NotBefore), 0).Sub(d.Now()) > muchSkew:
		return fail(check, "it has not begun to hold", "see what the clock's check says")
	}
	for _, e := range d.Plan.Storage {
		if e.Token == name {
			if found := unfit(check, c, e); found.Result != "" {
				return found
			}
		}
	}
	return good(check, "holds for another %s%s", words(left), forWhom(c))
}

func forWhom(c claims) string {
	if len(c.Audience) == 0 {
		return ""
	}
	return ", for " + plainWords(strings.Join(c.Audience, " "))
}

const anyAudience = "https://wlcg.cern.ch/jwt/v1/any"

// unfit says what a token lacks for a storage element; no result when that may take it.
func unfit(check string, c claims, e hubapi.DataElement) hubapi.DataCheck {
	admin := "your administrator compares data.storage of " + e.Name + " with what the issuer gives; or log in again: `slipway credentials login`"
	if e.Audience != "" && !slices.Contains(c.Audience, e.Audience) && !slices.Contains(c.Audience, anyAudience) {
		return fail(check, fmt.Sprintf(
			"it is for %q, and storage %s wants %s", plainWords(strings.Join(c.Audience, " ")), e.Name, e.Audience,
		), admin)
	}
	have := strings.Fields(c.Scope)
	for _, want := range e.Scopes {
		if !slices.Contains(have, want) {
			return fail(check, "it lacks the scope "+want+", which storage "+e.Name+" wants", admin)
		}
	}
	switch {
	case len(c.Groups) > 0: // what members may do is not in the token
	case !may(have, "storage.read", "storage.stage"):
		return warn(check, "no scope of it lets one read: storage "+e.Name+" may refuse it", admin)
	case e.Write && !may(have, "storage.create", "storage.modify"):
		return warn(
			check, "no scope of it lets one write to storage "+e.Name+": storage.create or storage.modify", admin,
		)
	}
	return hubapi.DataCheck{}
}

// onlyCreates reports whether a token lets one make files, and not remove them.
func (c claims) onlyCreates() bool {
	have := strings.Fields(c.Scope)
	return may(have, "storage.create") && !may(have, "storage.modify")
}

// may reports whether one of the scopes begins so.
func may(have []string, kinds ...string) bool {
	return slices.ContainsFunc(have, func(scope string) bool {
		kind, _, _ := strings.Cut(scope, ":")
		return slices.Contains(kinds, kind)
	})
}

// plain leaves the path out of an error.
func plain(err error) string {
	if e, ok := err.(*fs.PathError); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// plainWords bounds what a token says.
func plainWords(s string) string { return strings.ToValidUTF8(s[:min(len(s), 200)], "") }
