package service

import (
	"testing"

	"slipway/internal/config"
)

func TestLoginPages(t *testing.T) {
	for _, tt := range []struct{ url, host, want string }{
		{"https://hub.example.org/", "", "https://hub.example.org/services/slipway/login"},
		{"https://hub.example.org", "ssh.example.org", "https://hub.example.org/services/slipway/login"},
		{"", "ssh.example.org", "https://ssh.example.org/services/slipway/login"},
		{"", "", "/services/slipway/login"},
	} {
		h := config.Hub{
			Name: "main", APIURL: "http://127.0.0.1:8081/hub/api", URL: tt.url, Service: "slipway", TokenFile: "token",
		}
		pages := loginPages(config.Config{Hubs: []config.Hub{h, {Name: "without"}}, SSH: config.SSH{Host: tt.host}})
		if len(pages) != 1 || pages[0].Hub != "main" || pages[0].URL != tt.want {
			t.Errorf("%+v: %+v", tt, pages)
		}
	}
}
