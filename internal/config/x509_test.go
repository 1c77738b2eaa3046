package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestX509(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for title, test := range map[string]struct {
		x    X509
		want string // in what is said; empty: nothing
	}{
		"none":                  {X509{}, ""},
		"a directory":           {X509{Trust: dir, VOMSDir: dir, MaxLifetime: Duration(24 * time.Hour)}, ""},
		"one that is not there": {X509{Trust: filepath.Join(dir, "x")}, "credentials.x509.trust"},
		"a file":                {X509{Trust: file}, "credentials.x509.trust"},
		"not absolute":          {X509{Trust: "."}, "credentials.x509.trust"},
		"servers alone":         {X509{VOMSDir: dir}, "credentials.x509.trust"},
		"servers that are none": {X509{Trust: dir, VOMSDir: file}, "credentials.x509.vomsdir"},
		"too short":             {X509{Trust: dir, MaxLifetime: Duration(time.Minute)}, "credentials.x509.max_lifetime"},
		"negative":              {X509{Trust: dir, MaxLifetime: Duration(-time.Hour)}, "credentials.x509.max_lifetime"},
	} {
		var p problems
		Config{Credentials: Credentials{X509: test.x}}.checkX509(&p)
		if len(p) != 0 != (test.want != "") || test.want != "" && !strings.Contains(p[0].Error(), test.want) {
			t.Errorf("%s: %v", title, p)
		}
	}
}
