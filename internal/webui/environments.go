package webui

import "net/url"

// environmentPage is the path of the page of an environment.
func environmentPage(v Visit, ref string) string {
	return v.Prefix + "environments/" + url.PathEscape(ref)
}
