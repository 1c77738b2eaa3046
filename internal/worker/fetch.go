package worker

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/backoff"
	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/internal/loopback"
	"slipway/internal/tunnel"
)

const (
	fetchPatience = 10 * time.Minute // without a single byte, before it is given up
	fetchStall    = time.Minute      // without a single byte, before it is asked for again
	firstPause    = 500 * time.Millisecond
	lastPause     = 30 * time.Second
	tellEvery     = 10 * time.Second
	headerTime    = time.Minute
)

// download gets a file from the service. What has arrived is not fetched again, in this run or in a later one.
type download struct {
	client *http.Client
	at     *url.URL
	token  string
	log    *slog.Logger

	patience, stall, pause time.Duration

	digest string // of the whole, as the service says; it changes when somebody signs the image
	older  bool   // the beginning is from an earlier run
}

// newDownload makes one of the image that an uplink names.
func newDownload(u control.Uplink, log *slog.Logger) (*download, error) {
	at, err := url.Parse(u.Image)
	if err != nil || at.Host == "" || at.User != nil {
		return nil, errs.New(errs.Invalid, "the service names no address at which the image could be had")
	}
	if at.Scheme != "https" && !(at.Scheme == "http" && loopback.Is(at.Hostname())) {
		return nil, errs.New(
			errs.Invalid, "the image is at %s, which is no https: the job's credential must not be read on the way",
			at.Redacted(),
		).With("the administrator gives uplink.url as https")
	}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: headerTime, ResponseHeaderTimeout: headerTime,
		DisableCompression: true,
	}
	if u.CA != "" {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(u.CA)) {
			return nil, errs.New(
				errs.Invalid, "what the service's certificate is to be checked against holds no certificate",
			).With("the administrator looks at uplink.ca_file")
		}
		t.TLSClientConfig.RootCAs = roots
	}
	// the credential goes nowhere else
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &download{
		client: &http.Client{Transport: t, CheckRedirect: noRedirect}, at: at, token: u.Token, log: log,
		patience: fetchPatience, stall: fetchStall, pause: firstPause,
	}, nil
}

// into brings the file to its end, from what f has of it on.
func (d *download) into(ctx context.Context, f *os.File) error {
	defer d.client.CloseIdleConnections()
	failed, heard := backoff.Backoff{First: d.pause, Most: lastPause}, time.Now()
	if n, err := size(f); err == nil && n > 0 {
		d.older = true
	}
	for {
		before, err := size(f)
		if err != nil {
			return err
		}
		done, err := d.attempt(ctx, f, before)
		if done && err == nil {
			err = d.verify(ctx, f)
		}
		if done && err == nil || err != nil && !errs.Is(err, errs.Unavailable) {
			return err
		}
		if now, err := size(f); done || err == nil && now > before { // all came, though it was not what was asked for
			failed.Reset()
			heard = time.Now()
		}
		if time.Since(heard) >= d.patience {
			return fmt.Errorf("nothing came for %s: %w", d.patience, err)
		}
		pause := failed.Next()
		d.log.Warn("the image does not come; trying again", "error", err, "pause", pause)
		if !clock.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

func size(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// attempt asks once for what is missing behind have bytes. An error of kind Unavailable is worth another attempt.
func (d *download) attempt(ctx context.Context, f *os.File, have int64) (done bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.at.String(), nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("Authorization", "Bearer "+d.token)
	if have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
		if d.digest != "" {
			req.Header.Set("If-Range", strconv.Quote(d.digest))
		}
	}
	res, err := d.client.Do(req)
	if err != nil {
		return false, d.unreached(ctx, err)
	}
	defer res.Body.Close()
	from, total, err := d.answered(res, f, have)
	if err != nil || from == total && total > 0 {
		return err == nil, err
	}
	return d.receive(res.Body, f, from, total, cancel)
}

// again begins from nothing.
func (d *download) again(f *os.File, why string) error {
	d.older = false
	if err := f.Truncate(0); err != nil {
		return err
	}
	return errs.New(errs.Unavailable, "begin again: %s", why)
}

// verify looks at a whole of which a part is from an earlier run: it may be of another state of the image, and a node
// that was switched off may have lost some of it.
func (d *download) verify(ctx context.Context, f *os.File) error {
	if !d.older {
		return nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, readerFunc(func(p []byte) (int, error) { // tens of gigabytes take minutes
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return f.Read(p)
	})); err != nil {
		return err
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != d.digest {
		return d.again(f, "what an earlier run had fetched is of something else")
	}
	return nil
}

type readerFunc func([]byte) (int, error)

// Read calls f.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// answered understands the service's answer: from which byte on it sends, and how many the whole has.
func (d *download) answered(res *http.Response, f *os.File, have int64) (from, total int64, err error) {
	switch {
	case res.StatusCode == http.StatusOK:
		from, total, d.older = 0, res.ContentLength, false
	case res.StatusCode == http.StatusPartialContent:
		if from, total, err = parseRange(res.Header.Get("Content-Range")); err != nil || from != have {
			return 0, 0, d.again(f, "the service sends another part than was asked for")
		}
	case res.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		if res.Header.Get("Content-Range") != fmt.Sprintf("bytes */%d", have) {
			return 0, 0, d.again(f, "the service has less than that")
		}
		from, total = have, have
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= 500:
		return 0, 0, errs.New(errs.Unavailable, "the service answers with HTTP status %d", res.StatusCode)
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		return 0, 0, errs.New(
			errs.Forbidden, "the service refuses the image to this run (HTTP status %d)", res.StatusCode,
		).With("start it again: its credential has expired, or another run has taken its place")
	default:
		return 0, 0, errs.New(errs.NotFound, "the service does not give the image (HTTP status %d)", res.StatusCode).
			With("see whether the environment is still there (`slipway envs`); if it is, tell your administrator: uplink.url may lead elsewhere")
	}
	if total < 0 {
		return 0, 0, errs.New(errs.Invalid, "the service does not say how large the image is")
	}
	d.digest = strings.Trim(res.Header.Get("Etag"), `"`)
	return from, total, nil
}

// parseRange reads a Content-Range such as "bytes 3-9/10".
func parseRange(s string) (from, total int64, err error) {
	span, all, ok := strings.Cut(strings.TrimPrefix(s, "bytes "), "/")
	first, _, ok2 := strings.Cut(span, "-")
	if !ok || !ok2 || !strings.HasPrefix(s, "bytes ") {
		return 0, 0, fmt.Errorf("no range: %q", s)
	}
	from, err = strconv.ParseInt(first, 10, 64)
	total, err2 := strconv.ParseInt(all, 10, 64)
	if err := errors.Join(err, err2); err != nil || from < 0 || total < from {
		return 0, 0, fmt.Errorf("no range: %q", s)
	}
	return from, total, nil
}

// receive writes what comes. When nothing does for long, cancel ends it.
func (d *download) receive(body io.Reader, f *os.File, from, total int64, cancel func()) (done bool, err error) {
	if err := f.Truncate(from); err != nil {
		return false, err
	}
	stalled := time.AfterFunc(d.stall, cancel)
	defer stalled.Stop()
	buf, told := make([]byte, 256<<10), time.Now()
	for at := from; ; {
		n, err := body.Read(buf)
		stalled.Reset(d.stall)
		if at+int64(n) > total {
			return false, d.again(f, "the service sends more than it said")
		}
		if _, werr := f.WriteAt(buf[:n], at); werr != nil {
			return false, noRoom(fmt.Errorf("write the image: %w", werr))
		}
		if at += int64(n); at == total {
			return true, nil
		}
		if err != nil {
			return false, errs.New(errs.Unavailable, "it broke off at %d of %d MB: %w", at/1e6, total/1e6, err)
		}
		if time.Since(told) >= tellEvery {
			told = time.Now()
			d.log.Info("the image comes", "MB", at/1e6, "of", total/1e6)
		}
	}
}

// unreached says why the service was not reached. A certificate that is not accepted will not be in a minute either,
// but for one whose time is up: that may be renewed, and a clock be set.
func (d *download) unreached(ctx context.Context, err error) error {
	why := tunnel.Explain(ctx, d.at, time.Now(), err)
	bad, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok {
		return why
	}
	if expired, ok := errors.AsType[x509.CertificateInvalidError](bad); ok && expired.Reason == x509.Expired {
		return why
	}
	return &errs.Error{Kind: errs.Missing, Message: errs.Brief(why), Remedy: remedyOf(why)}
}
