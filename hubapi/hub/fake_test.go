package hub

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"slipway/internal/secret"
)

const ownToken = "the-services-own-token"

// serviceOf makes a client with the service's token for a Hub made of h.
func serviceOf(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	u, _ := url.Parse(srv.URL + "/hub/api")
	return New(Config{APIURL: u, Service: "slipway", Token: secret.New(ownToken)})
}

// asked is what a Hub was asked.
type asked struct {
	method, path, query, token, kind string
	body                             string
}

// answering makes a client whose Hub gives one answer to all; what it is asked lands in the result.
func answering(t *testing.T, status int, body string) (*Client, *asked) {
	t.Helper()
	var a asked
	c := serviceOf(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		a = asked{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Authorization"), r.Header.Get("Content-Type"), string(b)}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	return c, &a
}

func says(message string) string {
	b, _ := json.Marshal(map[string]any{"status": 400, "message": message})
	return string(b)
}

// rounds is a transport without a network: for time that stands still.
type rounds func(*http.Request) (*http.Response, error)

func (f rounds) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func response(status int, body io.Reader, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Header: h, Body: io.NopCloser(body)}
}

func overRounds(f rounds) *Client {
	return newOver(Config{APIURL: &url.URL{Scheme: "http", Host: "hub", Path: "/hub/api"}, Service: "slipway", Token: secret.New(ownToken)}, f)
}

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return t
}
