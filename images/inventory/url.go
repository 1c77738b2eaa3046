package inventory

import (
	"net/url"
	"regexp"
	"strings"
)

// condaToken is how conda puts an access token into a channel's path.
var condaToken = regexp.MustCompile(`/t/[^/]+`)

// cleanURL returns a URL, or git's short form of one, without user, password, token and query. A login name of an ssh
// URL stays: it is no secret, and the URL means nothing without it.
func cleanURL(raw string) string {
	raw = strings.TrimSpace(raw)
	if len(raw) > 4*maxText {
		return ""
	}
	if !strings.Contains(raw, "://") {
		return cleanShort(raw)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	ssh := strings.HasSuffix(u.Scheme, "ssh")
	if u.User != nil && ssh {
		u.User = url.User(u.User.Username())
	} else {
		u.User = nil
	}
	u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = "", false, "", ""
	if u.Path != "" {
		u.Path = condaToken.ReplaceAllString(u.Path, "")
		u.RawPath = ""
	}
	return word(u.String())
}

// cleanShort cleans "git@host:owner/name" and plain paths.
func cleanShort(raw string) string {
	raw, _, _ = strings.Cut(raw, "?")
	at := strings.LastIndexByte(raw, '@')
	user, _, hasPassword := strings.Cut(raw[:max(at, 0)], ":")
	if at >= 0 && (hasPassword || strings.Contains(user, "/")) {
		raw = raw[at+1:]
	}
	return word(raw)
}

// filePath returns the path of a file: URL, "" for any other.
func filePath(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "file" {
		return ""
	}
	return word(u.Path)
}
