package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/service/clients"
	"slipway/internal/x509proxy"
)

// mostSkew is by how much clocks may differ before tokens and proxies fail for it.
const mostSkew = time.Minute

// credentialChecks look at the issuers of tokens, and at the authorities of proxies.
func credentialChecks(c config.Credentials) []check {
	var all []check
	for _, i := range c.Issuers {
		all = append(
			all, check{"issuer " + i.Name, true, func(ctx context.Context) error { return issuerAnswers(ctx, i) }},
		)
	}
	if c.X509.Trust != "" {
		all = append(all, check{"authorities in " + c.X509.Trust, true, func(ctx context.Context) error {
			return inTime(ctx, func() error { return trustHolds(c.X509) })
		}})
	}
	return all
}

func issuerAnswers(ctx context.Context, i config.Issuer) error {
	ahead, err := clients.IssuerAhead(ctx, i)
	switch {
	case err != nil:
		return errs.New(errs.Unavailable, "%s", errs.Brief(err)).
			With("look at the way to " + i.URL + ", and at credentials.issuers; what users have holds until it ends")
	case ahead.Abs() >= mostSkew:
		return errs.New(errs.Invalid, "its clock and this host's are %s apart", ahead.Abs().Round(time.Second)).
			With("set this host's time (chrony): tokens seem to have ended, or not to have begun")
	}
	return goodWord("answers, its clock agrees")
}

// trustHolds looks whether the directory of authorities can be read, and for revocation lists that have ended: proxies
// of those authorities are refused.
func trustHolds(x config.X509) error {
	checker, err := x509proxy.Open(x509proxy.Config{Trust: x.Trust, VOMSDir: x.VOMSDir})
	if err != nil {
		return err
	}
	faults, err := checker.Faults()
	if err != nil {
		return err
	}
	lists, err := checker.Lists()
	if err != nil {
		return err
	}
	var bad []string
	for _, l := range lists {
		if l.Trouble != "" {
			bad = append(bad, fmt.Sprintf("the revocation list of %s %s", l.Issuer, l.Trouble))
		}
	}
	switch all := append(bad, faults...); {
	case len(bad) > 0:
		return errs.New(errs.Invalid, "%s", firstFew(all)).
			With("run fetch-crl, and see that it runs by itself: proxies of these authorities are refused")
	case len(all) > 0:
		return errs.New(errs.Invalid, "%s", firstFew(all)).
			With("install the site's authorities anew: these files are of no use")
	}
	return goodWord(fmt.Sprintf("they can be read, with %d revocation lists that hold", len(lists)))
}

// firstFew are the first of a list.
func firstFew(list []string) string {
	const most = 5
	if len(list) <= most {
		return strings.Join(list, "; ")
	}
	return strings.Join(list[:most], "; ") + fmt.Sprintf("; and %d more", len(list)-most)
}
