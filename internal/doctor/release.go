package doctor

import (
	"context"
	"io"
	"net/http"
	"regexp"

	"slipway/internal/errs"
	"slipway/internal/version"
)

// buildInfo is the metric in which a service says its version.
var buildInfo = regexp.MustCompile(`(?m)^slipway_build_info\{version="([^"]*)"\}`)

// releaseRuns looks whether the service that runs at an address is of this program's version. One that does not run is
// nothing amiss.
func releaseRuns(ctx context.Context, at string) error {
	res, err := ask(ctx, at+"/metrics")
	if err != nil {
		return goodWord("nothing answers at " + at)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err != nil {
		return errs.New(errs.Unavailable, "read %s/metrics: %w", at, err)
	}
	said := buildInfo.FindSubmatch(text)
	switch {
	case res.StatusCode != http.StatusOK || said == nil:
		return errs.New(errs.Conflict, "what answers at %s does not say its version; this program is %s", at, version.Release).
			With("`slipway config check`, then `systemctl restart slipway`; or another program has its port")
	case string(said[1]) != version.Release:
		return errs.New(errs.Conflict, "it runs %s, and this program is %s", said[1], version.Release).
			With("`slipway config check`, then `systemctl restart slipway`")
	}
	return goodWord("it runs " + version.Release)
}
