package datacheck

import (
	"context"
	"fmt"
	"time"

	"slipway/hubapi"
)

// clock compares this host's with the service's.
func (d *doctor) clock(context.Context) []hubapi.DataCheck {
	ahead := d.Asked.Sub(d.Plan.Now)
	if ahead.Abs() < muchSkew {
		return []hubapi.DataCheck{
			good("clock", "agrees with the service's within %s", words(max(ahead.Abs(), time.Second))),
		}
	}
	return []hubapi.DataCheck{fail("clock", skew("the clock here", ahead, "the service's"), "tokens and proxies seem to have ended, or not to have begun: tell your administrator that this host needs its time set (chrony)")}
}

func skew(whose string, ahead time.Duration, other string) string {
	side := "ahead of"
	if ahead < 0 {
		side = "behind"
	}
	return fmt.Sprintf("%s is %s %s %s", whose, ahead.Abs().Round(time.Second), side, other)
}

// issuer looks whether an issuer of tokens answers here, and if not, at the service, which renews them.
func (d *doctor) issuer(ctx context.Context, i hubapi.DataIssuer) []hubapi.DataCheck {
	name := "issuer " + i.Name
	near, cancel := context.WithTimeout(ctx, oneDeadline)
	began := d.Now()
	at, err := d.Issuer(near, i.URL)
	cancel()
	if err == nil {
		ahead := began.Sub(at)
		if ahead.Abs() >= muchSkew {
			return []hubapi.DataCheck{fail(
				name, skew("the clock here", ahead, "its own"),
				"its tokens seem to have ended, or not to have begun: tell your administrator",
			)}
		}
		return []hubapi.DataCheck{good(name, "answers here")}
	}
	far, err := d.Remote(ctx, i.Name)
	ahead := time.Duration(far.Ahead * float64(time.Second))
	switch {
	case err != nil:
		return []hubapi.DataCheck{
			warn(name, "does not answer here, and the service could not be asked: "+err.Error(), ""),
		}
	case far.Trouble != "":
		return []hubapi.DataCheck{warn(
			name, "does not answer, neither here nor at the service: "+far.Trouble,
			"what you have holds until it ends; nothing new comes until the issuer is back",
		)}
	case ahead.Abs() >= muchSkew:
		return []hubapi.DataCheck{fail(
			name, skew("its clock", ahead, "the service's"),
			"its tokens seem not to have begun, or to have ended: tell your administrator",
		)}
	}
	return []hubapi.DataCheck{
		good(name, "answers at the service, which renews tokens; it does not answer here, and nothing here needs it"),
	}
}
