package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlaces: every mistake is told with its place, and a good configuration has none.
func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	key, open, empty := filepath.Join(dir, "key"), filepath.Join(dir, "open"), filepath.Join(dir, "empty")
	for path, mode := range map[string]os.FileMode{key: 0o600, open: 0o644, empty: 0o600} {
		text := "hunter2"
		if path == empty {
			text = ""
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	bucket := func(more string) string {
		return "stores: [{name: b, s3: {endpoint: s3.example.org:443, bucket: x, access_key: k, secret_key_file: " + key + more + "}}]"
	}
	tests := []struct{ text, want string }{
		{"stores: [{name: vault, directory: /mnt/vault}]", ""},
		{bucket(""), ""},
		{bucket(", prefix: main/, region: eu, allow_plain_http: true"), ""},
		{"exports: [{name: cvmfs, directory: /cvmfs/x}]", ""},
		{"exports: [{name: cvmfs, directory: /cvmfs/x, forms: [sif, unpacked], shared: any, tags: [\"v*\"], begin: [a], publish: [b], abort: [c]}]", ""},
		{"stores: [{name: Vault, directory: /mnt/vault}]", "stores[0].name"},
		{"stores: [{name: a, directory: /mnt/a}, {name: a, directory: /mnt/b}]", "stores[1].name"},
		{"stores: [{name: a, directory: /mnt/a}, {name: b, directory: /mnt/a/}]", "stores[1].directory"},
		{"stores: [{name: a}]", "stores[0].directory"},
		{"stores: [{name: a, directory: mnt}]", "stores[0].directory"},
		{"stores: [{name: a, directory: /var/lib/slipway/copies}]", "outside of data_dir"},
		{"stores: [{name: a, directory: /var/lib}]", "outside of data_dir"},
		{"stores: [{name: a, directory: /mnt/a, s3: {bucket: x}}]", "stores[0].directory"},
		{bucket(", prefix: main"), "s3.prefix"},
		{strings.Replace(bucket(""), "s3.example.org:443", "https://s3.example.org", 1), "s3.endpoint"},
		{strings.Replace(bucket(""), "s3.example.org:443", "s3.example.org", 1), "s3.endpoint"},
		{strings.Replace(bucket(""), "access_key: k, ", "", 1), "s3.access_key"},
		{strings.Replace(bucket(""), "bucket: x, ", "", 1), "s3.bucket"},
		{strings.Replace(bucket(""), key, open, 1), "mode 0644"},
		{strings.Replace(bucket(""), key, empty, 1), "it is empty"},
		{strings.Replace(bucket(""), key, key+"x", 1), "s3.secret_key_file"},
		{strings.Replace(bucket(""), "}}]", "}}, {name: c, s3: {endpoint: s3.example.org:443, bucket: x, access_key: k, secret_key_file: "+key+"}}]", 1), "stores[1].s3.bucket"},
		{"exports: [{name: a, directory: /mnt/a, forms: [tar]}]", "exports[0].forms"},
		{"exports: [{name: a, directory: /mnt/a, forms: []}]", "exports[0].forms"},
		{"exports: [{name: a, directory: /mnt/a, shared: group}]", "exports[0].shared"},
		{"exports: [{name: a, directory: /mnt/a, shared: any}]", "exports[0].tags"},
		{"exports: [{name: a, directory: /mnt/a, tags: [\"[\"]}]", "exports[0].tags"},
		{"exports: [{name: a, directory: /mnt/a, publish: [x]}]", "exports[0].begin"},
		{"stores: [{name: a, directory: /mnt/a}]\n  exports: [{name: a, directory: /mnt/a}]", "exports[0].directory"},
	}
	for _, tt := range tests {
		c, err := Parse([]byte("environments:\n  " + tt.text + "\n"))
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		var p problems
		c.checkPlaces(&p)
		var all []string
		for _, e := range p {
			all = append(all, e.Error())
		}
		if got := strings.Join(all, "\n"); tt.want == "" && got != "" || len(all) > 1 || !strings.Contains(got, tt.want) || strings.Contains(got, "hunter2") {
			t.Errorf("%s: %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestRegistryURL(t *testing.T) {
	c := Default()
	if got := c.RegistryURL().String(); got != "http://127.0.0.1:8090" {
		t.Errorf("%s", got)
	}
	c.TLS.Cert = "x"
	if got := c.RegistryURL().String(); got != "https://127.0.0.1:8090" {
		t.Errorf("%s", got)
	}
	c.Uplink.URL = "https://slipway.example.org"
	if got := c.RegistryURL(); got.Host != "slipway.example.org" || got.Scheme != "https" {
		t.Errorf("%s", got)
	}
}

func TestBucketSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := (Bucket{SecretFile: path}).Secret(); err != nil || got.Reveal() != "hunter2" {
		t.Errorf("%v", err)
	}
}
