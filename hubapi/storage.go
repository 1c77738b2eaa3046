package hubapi

import (
	"context"
	"net/http"
)

// Storages are the storage elements of a site.
type Storages struct {
	Storage []Storage `json:"storage"`
}

// Storage is one storage element, as the caller reaches it.
type Storage struct {
	Name    string      `json:"name"`
	Origin  string      `json:"origin"` // root://host:port
	Path    string      `json:"path"`   // the directory there below which everything lies
	Write   bool        `json:"write"`  // whether anybody may write there
	Cache   string      `json:"cache"`  // empty: there is none
	CacheUp bool        `json:"cache_up"`
	Trouble string      `json:"trouble"` // with the cache; empty: none
	Mounts  []DataMount `json:"mounts"`  // in the session that asks; elsewhere empty
}

// DataMount is a directory in a session that shows a storage element.
type DataMount struct {
	Path    string `json:"path"`
	Cached  bool   `json:"cached"`  // it reads through the cache, and cannot be written to
	Trouble string `json:"trouble"` // why nothing is there now; empty: it is there
}

// DataURL is where a file is for one use, now.
type DataURL struct {
	URL     string `json:"url"`
	Element string `json:"element"`
	Path    string `json:"path"`   // on the server
	Origin  string `json:"origin"` // the URL at the origin, for when the cache goes away meanwhile
	Cached  bool   `json:"cached"` // url is the cache's
	Why     string `json:"why"`    // it is not, though there is a cache; empty: it was asked for so
}

// Storages lists the site's storage elements.
func (c *Client) Storages(ctx context.Context) (Storages, error) {
	return fetch[Storages](ctx, c, http.MethodGet, "/data", nil)
}

// DataURL returns the URL of a file for reading, or for writing, which is always at the origin; direct reads past the
// cache too. The file is named as ELEMENT:PATH, by its path on the server, by its path below /storage, or by a URL.
func (c *Client) DataURL(ctx context.Context, lfn string, write, direct bool) (DataURL, error) {
	flag := map[bool]string{true: "true"}
	return fetch[DataURL](
		ctx, c, http.MethodGet, query("/data/url", "lfn", lfn, "write", flag[write], "direct", flag[direct]), nil,
	)
}
