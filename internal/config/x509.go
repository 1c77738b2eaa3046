package config

import (
	"os"
	"path/filepath"
	"time"
)

// X509 says which users' X.509 proxies are taken.
type X509 struct {
	Trust       string   `yaml:"trust"`        // the directory of the Grid's authorities; empty: no proxies are taken
	VOMSDir     string   `yaml:"vomsdir"`      // of the VOMS servers; empty: which one a membership is by is not checked
	MaxLifetime Duration `yaml:"max_lifetime"` // that a proxy may still last; 0: any time
}

// checkX509 looks at the directories. What lies in them changes while the service runs.
func (c Config) checkX509(p *problems) {
	x := c.Credentials.X509
	for field, dir := range map[string]string{"trust": x.Trust, "vomsdir": x.VOMSDir} {
		if dir == "" {
			continue
		}
		if info, err := os.Stat(dir); !filepath.IsAbs(dir) || err != nil || !info.IsDir() {
			p.add("credentials.x509."+field, dir, "a directory that is there, by its absolute path, such as /etc/grid-security/"+map[string]string{"trust": "certificates", "vomsdir": "vomsdir"}[field])
		}
	}
	if x.Trust == "" && (x.VOMSDir != "" || x.MaxLifetime != 0) {
		p.add("credentials.x509.trust", "", "the directory of the Grid's authorities: without it no proxy is taken")
	}
	if d := time.Duration(x.MaxLifetime); d < 0 || d > 0 && d < time.Hour {
		p.add("credentials.x509.max_lifetime", d, "0 for any time, or an hour and more, such as 24h")
	}
}
