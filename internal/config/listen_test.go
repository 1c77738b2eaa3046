package config

import (
	"strings"
	"testing"
)

// TestPlainHTTPIsSaidToBeMeant: tokens and cookies of users do not go through a network in clear text because nobody
// thought of it.
func TestPlainHTTPIsSaidToBeMeant(t *testing.T) {
	for _, tc := range []struct {
		listen, hub string
		tls         TLS
		meant       bool
		refused     string // the field
	}{
		{listen: "127.0.0.1:8090"}, {listen: "localhost:8090"}, {listen: "[::1]:8090"}, {listen: "127.8.9.1:0"},
		{listen: ":8090", refused: "listen"}, {listen: "0.0.0.0:8090", refused: "listen"}, {listen: "[::]:8090", refused: "listen"},
		{listen: "192.0.2.1:8090", refused: "listen"}, {listen: "slipway.example.org:8090", refused: "listen"},
		{listen: ":8090", meant: true},
		{listen: ":8090", tls: TLS{Cert: "/c", Key: "/k"}},
		{listen: "127.0.0.1:8090", hub: "10.0.0.1:8091", refused: "hubs[0].listen"},
		{listen: "127.0.0.1:8090", hub: "127.0.0.1:8091"},
		{listen: "127.0.0.1:8090", hub: "10.0.0.1:8091", meant: true},
	} {
		c := Default()
		c.Listen, c.TLS, c.AllowPlainHTTP, c.Hubs = tc.listen, tc.tls, tc.meant, []Hub{{Listen: tc.hub}}
		var p problems
		c.checkPlainHTTP(&p)
		switch {
		case tc.refused == "" && len(p) > 0:
			t.Errorf("%+v: %v", tc, p)
		case tc.refused != "" && (len(p) != 1 || !strings.HasPrefix(p[0].Error(), tc.refused+":") || !strings.Contains(p[0].Error(), "allow_plain_http")):
			t.Errorf("%+v: %v", tc, p)
		}
	}
}

func TestTrustedProxiesAreNotEverybody(t *testing.T) {
	for text, good := range map[string]bool{"127.0.0.1": true, "192.0.2.0/24": true, "2001:db8::/64": true, "0.0.0.0/0": false, "::/0": false, "192.0.2.1/24": false, "proxy": false} {
		c := Default()
		c.TrustedProxies = []string{text}
		var p problems
		if c.checkTrustedProxies(&p); (len(p) == 0) != good {
			t.Errorf("%s: %v", text, p)
		}
	}
}
