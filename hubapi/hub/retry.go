package hub

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// longestWait bounds what a Hub can ask for by Retry-After.
const longestWait = 2 * time.Minute

func retrying(plain *http.Client, tries int, policy retryablehttp.CheckRetry) *retryablehttp.Client {
	r := retryablehttp.NewClient()
	r.Logger = nil // it would log URLs at each try; the one error at the end says enough
	r.HTTPClient = plain
	r.RetryMax, r.RetryWaitMin, r.RetryWaitMax = tries, 100*time.Millisecond, time.Second
	r.ErrorHandler = retryablehttp.PassthroughErrorHandler
	r.CheckRetry, r.Backoff = policy, backoff
	return r
}

// backoff waits as long as the Hub asks for, within reason.
func backoff(least, most time.Duration, attempt int, res *http.Response) time.Duration {
	wait := retryablehttp.DefaultBackoff(least, most, attempt, res)
	if wait < 0 || wait > longestWait {
		return longestWait
	}
	return wait
}

// mayAsk tries again whatever a short outage explains.
func mayAsk(ctx context.Context, res *http.Response, err error) (bool, error) {
	if err == nil && res.StatusCode == http.StatusTooManyRequests {
		return throttled(res), ctx.Err()
	}
	return retryablehttp.DefaultRetryPolicy(ctx, res, err)
}

// wasNotTaken tries again only what the Hub cannot have begun: it could not be reached, or says that it is busy.
func wasNotTaken(ctx context.Context, res *http.Response, err error) (bool, error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if err != nil {
		op, ok := errors.AsType[*net.OpError](err)
		return ok && op.Op == "dial", nil
	}
	return throttled(res), nil
}

// throttled reports whether the Hub says when to come again. A 429 that does not is a limit on servers, and waiting is
// no remedy.
func throttled(res *http.Response) bool {
	busy := res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable
	return busy && res.Header.Get("Retry-After") != ""
}
