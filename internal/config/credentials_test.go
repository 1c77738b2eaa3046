package config

import (
	"strings"
	"testing"
)

func TestCheckCredentials(t *testing.T) {
	good := Issuer{Name: "wlcg", URL: "https://iam.example", ClientID: "slipway"}
	for name, tc := range map[string]struct {
		change func(*Issuer, *StorageElement)
		says   string
	}{
		"good":              {func(*Issuer, *StorageElement) {}, ""},
		"no name":           {func(i *Issuer, e *StorageElement) { i.Name, e.Issuer = "", "" }, "issuers[0].name"},
		"the proxies' name": {func(i *Issuer, e *StorageElement) { i.Name, e.Issuer = "x509", "x509" }, "issuers[0].name"},
		"in the clear":      {func(i *Issuer, _ *StorageElement) { i.URL = "http://iam.example" }, "issuers[0].issuer"},
		"with a password":   {func(i *Issuer, _ *StorageElement) { i.URL = "https://a:b@iam.example" }, "issuers[0].issuer"},
		"no client":         {func(i *Issuer, _ *StorageElement) { i.ClientID = "" }, "client_id"},
		"two scopes":        {func(i *Issuer, _ *StorageElement) { i.Scopes = []string{"a b"} }, "scopes"},
		"half a key":        {func(i *Issuer, _ *StorageElement) { i.HubKey = "a." }, "hub_key"},
		"nobody to read it": {func(i *Issuer, _ *StorageElement) { i.HubKey = "refresh_token" }, "hub_key"},
		"no secret there":   {func(i *Issuer, _ *StorageElement) { i.ClientSecretFile = "/nowhere" }, "client_secret_file"},
		"no CA there":       {func(i *Issuer, _ *StorageElement) { i.CAFile = "/nowhere" }, "ca_file"},
		"nobody's tokens":   {func(_ *Issuer, e *StorageElement) { e.Issuer = "other" }, "storage[0].issuer"},
		"whose audience":    {func(_ *Issuer, e *StorageElement) { e.Issuer, e.Audience = "", "x" }, "storage[0].issuer"},
		"one name for two":  {func(_ *Issuer, e *StorageElement) { e.Name = "wlcg" }, "storage[0].name"},
	} {
		t.Run(name, func(t *testing.T) {
			i, e := good, StorageElement{Name: "eos", Issuer: "wlcg"}
			tc.change(&i, &e)
			var p problems
			Config{Credentials: Credentials{Issuers: []Issuer{i}}, Data: Data{Storage: []StorageElement{e}}}.checkCredentials(&p)
			if (len(p) == 0) != (tc.says == "") || len(p) > 0 && !strings.Contains(p[0].Error(), tc.says) {
				t.Errorf("%v", p)
			}
		})
	}
}
