//go:build linux

package cli

import (
	"context"
	"time"

	"slipway/internal/config"
	"slipway/internal/gridproxy"
	"slipway/internal/secret"
	"slipway/internal/wallet"
)

// proxyCheck gives what validates users' proxies for the wallet; nil where none are taken.
func proxyCheck(x config.X509) (func(context.Context, secret.Text) (wallet.Entry, secret.Text, error), error) {
	if x.Trust == "" {
		return nil, nil
	}
	checker, err := gridproxy.Open(gridproxy.Config{Trust: x.Trust, VOMSDir: x.VOMSDir, Longest: time.Duration(x.Longest)})
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, text secret.Text) (wallet.Entry, secret.Text, error) {
		p, err := checker.Check(text)
		if err != nil {
			return wallet.Entry{}, secret.Text{}, err
		}
		e := wallet.Entry{Issuer: p.Issuer, Subject: p.Subject, VO: p.VO, FQANs: p.FQANs, Expires: p.Expires}
		if p.VO != "" && !p.Verified {
			e.Notes = append(e.Notes, "this site does not know which servers may say who is a member of "+p.VO+": the proxy's was taken at its word, "+p.Server)
		}
		if p.Legacy {
			e.Notes = append(e.Notes, "it is of the kind before RFC 3820, which some sites take no more: voms-proxy-init -rfc makes today's")
		}
		return e, p.Text, nil
	}, nil
}
