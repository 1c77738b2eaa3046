package datacheck

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"slipway/hubapi"
)

const (
	shortProxy = time.Hour
	newProxy   = "voms-proxy-init -voms VO, and then `slipway proxy put`"
)

// proxy looks at the proxy where there is one, or should be.
func (d *doctor) proxy(context.Context) []hubapi.DataCheck {
	const check = "X.509 proxy"
	file := d.Proxy
	if file == "" {
		file = filepath.Join(d.Credentials, "x509")
	}
	info, err := os.Stat(file)
	switch {
	case err != nil && d.Plan.Proxy:
		return []hubapi.DataCheck{warn(check, "the service has one for you, and here it is not: "+plain(err), newProxy)}
	case err != nil:
		return nil
	case info.Mode().Perm()&0o077 != 0:
		return []hubapi.DataCheck{
			fail(check, fmt.Sprintf("others may read it: its mode is %04o", info.Mode().Perm()), "chmod 600 "+file),
		}
	case info.Size() > mostProxy:
		return []hubapi.DataCheck{fail(check, "the file is too large for a proxy", newProxy)}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return []hubapi.DataCheck{fail(check, "it cannot be read: "+plain(err), newProxy)}
	}
	ends, some := endOf(text)
	left := ends.Sub(d.Now())
	switch {
	case !some:
		return []hubapi.DataCheck{fail(check, "the file has no certificate", newProxy)}
	case left <= 0:
		return []hubapi.DataCheck{fail(check, "it ended "+words(-left)+" ago", newProxy)}
	case left < shortProxy:
		return []hubapi.DataCheck{warn(check, "it ends in "+words(left), newProxy)}
	}
	return []hubapi.DataCheck{good(check, "holds for another %s%s", words(left), d.vo())}
}

const mostProxy = 1 << 20 // bytes

func (d *doctor) vo() string {
	if d.Plan.VO == "" {
		return ""
	}
	return ", for a member of " + d.Plan.VO
}

// endOf returns when the first of a file's certificates ends.
func endOf(text []byte) (ends time.Time, some bool) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		if !some || c.NotAfter.Before(ends) {
			ends = c.NotAfter
		}
		some = true
	}
	return ends, some
}
