package service

import (
	"testing"

	"slipway/internal/config"
	"slipway/internal/credentials"
	"slipway/internal/secret"
)

func TestMainTokenGoesToNoElementOfAnotherIssuer(t *testing.T) {
	storage := []config.StorageElement{
		{Name: "eos", Issuer: "cern"}, {Name: "free"}, {Name: "desy", Issuer: "helmholtz"},
	}
	files := []credentials.File{
		{Name: "token", Data: secret.New("main")}, {Name: "token-eos", Data: secret.New("eos's")},
		{Name: "token-free", Data: secret.New("of an issuer of that name")},
		{Name: "x509", Data: secret.New("proxy")},
	}
	for element, want := range map[string]string{"eos": "eos's", "free": "main", "desy": "", "unknown": ""} {
		p := papersFor(element, storage, files)
		if p.Token.Reveal() != want || p.Proxy.Reveal() != "proxy" {
			t.Errorf("%s gets %q, not %q", element, p.Token.Reveal(), want)
		}
	}
}
