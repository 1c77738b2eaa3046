package service

import (
	"context"
	"log/slog"
	"time"

	"slipway/internal/config"
	"slipway/internal/credentials"
	"slipway/internal/secret"
	"slipway/internal/x509proxy"
)

// proxyCheck returns what validates users' proxies; nil where none are taken. Files of the authorities that are of no
// use are in the log.
func proxyCheck(
	x config.X509, log *slog.Logger,
) (func(context.Context, secret.Text) (credentials.Entry, secret.Text, error), error) {
	if x.Trust == "" {
		return nil, nil
	}
	checker, err := x509proxy.Open(
		x509proxy.Config{Trust: x.Trust, VOMSDir: x.VOMSDir, Longest: time.Duration(x.MaxLifetime)},
	)
	if err != nil {
		return nil, err
	}
	faults, err := checker.Faults()
	for _, fault := range faults {
		log.Warn("a file of the Grid's authorities is of no use", "in", x.Trust, "fault", fault)
	}
	return func(_ context.Context, text secret.Text) (credentials.Entry, secret.Text, error) {
		p, err := checker.Check(text)
		if err != nil {
			return credentials.Entry{}, secret.Text{}, err
		}
		e := credentials.Entry{}
		e.Issuer, e.Subject, e.VO, e.FQANs, e.Expires = p.Issuer, p.Subject, p.VO, p.FQANs, p.Expires
		if p.VO != "" && !p.Verified {
			e.Notes = append(e.Notes, "this site does not know which servers may say who is a member of "+p.VO+
				": the proxy's was taken at its word, "+p.Server)
		}
		if p.Legacy {
			e.Notes = append(e.Notes, "it is of the kind before RFC 3820, which some sites take no more: "+
				"voms-proxy-init -rfc makes today's")
		}
		return e, p.Text, nil
	}, err
}
