package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUplink(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(junk, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ text, want string }{
		{"{}", ""},
		{"{url: 'https://slipway.example.org'}", ""},
		{"{url: 'https://slipway.example.org:8443/'}", ""},
		{"{url: 'http://127.0.0.1:8090'}", ""},
		{"{url: 'http://localhost:8090'}", ""},
		{"{url: 'http://slipway.example.org'}", "secrets travel there"},
		{"{url: 'http://127.0.0.1.example.org'}", "secrets travel there"},
		{"{url: 'wss://slipway.example.org'}", "https://slipway.example.org"},
		{"{url: 'https://slipway.example.org/hub'}", "without a path"},
		{"{url: 'https://slipway.example.org?x'}", "without a path"},
		{"{url: slipway.example.org}", "without a path"},
		{"{url: 'https://me:geheim@slipway.example.org'}", "uplink.url"},
		{"{ca_file: /nonexistent}", "uplink.ca_file"},
		{"{ca_file: " + junk + "}", "uplink.ca_file"},
	} {
		c, err := Parse([]byte("uplink: " + tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		var p problems
		c.checkUplink(&p)
		said := ""
		for _, err := range p {
			said += err.Error()
		}
		if (said == "") != (tt.want == "") || !strings.Contains(said, tt.want) || strings.Contains(said, "geheim") {
			t.Errorf("%s: %q, want %q", tt.text, said, tt.want)
		}
	}
	at := Uplink{URL: "https://slipway.example.org/"}.At("sif", "sha256:aa").String()
	if at != "https://slipway.example.org/sif/sha256:aa" {
		t.Errorf("a place of the service: %s", at)
	}
}
