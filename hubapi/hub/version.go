package hub

import (
	"context"
	"net/http"
	"strconv"
	"strings"
)

// Version is a Hub's release, such as 6.1.1.
type Version string

// Major returns the first number; zero when there is none.
func (v Version) Major() int {
	first, _, _ := strings.Cut(string(v), ".")
	n, err := strconv.Atoi(first)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// Version asks which release the Hub is. It needs no token.
func (c *Client) Version(ctx context.Context) (Version, error) {
	var v struct {
		Version Version `json:"version"`
	}
	_, err := c.ask(ctx, call{method: http.MethodGet, path: "/", what: "ask the Hub's version"}, &v)
	return v.Version, err
}
