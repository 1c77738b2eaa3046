package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/spawner/htcondor"
)

// condorCommands are those of HTCondor's that the service runs.
func condorCommands() []string {
	return []string{"condor_submit", "condor_q", "condor_rm", "condor_history", "condor_status", "condor_config_val", "condor_token_create"}
}

// condorChecks look at the pool, if the site has one.
func condorChecks(cfg config.Config, log *slog.Logger) []check {
	if !cfg.HTCondor.On {
		return nil
	}
	return []check{
		{"HTCondor's commands", false, func(context.Context) error { return hasCondor(cfg.HTCondor.Bin) }},
		{"HTCondor's access point", false, func(ctx context.Context) error { return accessPoint(ctx, cfg, log) }},
		{"HTCondor's workers", true, func(ctx context.Context) error { return workersFit(ctx, cfg.HTCondor.Bin) }},
		{"service for workers at " + cfg.Uplink.URL, true, func(ctx context.Context) error { return reachable(ctx, cfg.Uplink) }},
	}
}

func hasCondor(bin string) error {
	var lacking []string
	for _, name := range condorCommands() {
		if _, err := exec.LookPath(filepath.Join(bin, name)); err != nil {
			lacking = append(lacking, name)
		}
	}
	if len(lacking) > 0 {
		return errs.New(errs.Missing, "not there: %s", strings.Join(lacking, ", ")).
			With("install HTCondor here as an access point of the pool, or set htcondor.bin to the directory of its commands")
	}
	return nil
}

// accessPoint asks for the queue and has a token signed, as the backend does before a start.
func accessPoint(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	h := cfg.HTCondor
	backend, err := htcondor.New(htcondor.Config{
		Dir: filepath.Join(cfg.DataDir, "htcondor"), Bin: h.Bin, Instance: cfg.Docker.Instance, Owner: h.Owner, Domain: h.Domain, Key: h.Key,
		MarkKey: make([]byte, 32), // it looks for no jobs
		Logger:  log,
	})
	if err != nil {
		return err
	}
	return backend.Check(ctx)
}

// workersFit asks the collector on how many of the pool's slots a session or job could be started.
func workersFit(ctx context.Context, bin string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "condor_status"), "-json", "-constraint", "DynamicSlot =!= true",
		"-attributes", "Machine,HasSingularity,HasUserNamespaces,SingularityUserNamespaces")
	cmd.WaitDelay = time.Second
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return errs.New(errs.Unavailable, "condor_status: %w: %.300s", err, strings.TrimSpace(complaint.String())).
			With("look at the pool's collector, at COLLECTOR_HOST on this host, and at firewalls")
	}
	return judgeSlots(out)
}

// judgeSlots says what the pool's slots lack, from what condor_status prints: nothing at all of a pool without slots.
func judgeSlots(ads []byte) error {
	var slots []struct {
		HasSingularity            bool
		HasUserNamespaces         *bool
		SingularityUserNamespaces *bool
	}
	if len(bytes.TrimSpace(ads)) > 0 {
		if err := json.Unmarshal(ads, &slots); err != nil {
			return errs.New(errs.Unavailable, "the answer of condor_status cannot be read: %w", err)
		}
	}
	bare, fixed := 0, 0
	for _, s := range slots {
		switch {
		case !s.HasSingularity:
			bare++
		case no(s.HasUserNamespaces) || no(s.SingularityUserNamespaces):
			fixed++
		}
	}
	switch {
	case len(slots) == 0:
		return errs.New(errs.Missing, "the pool has no slots").With("look at the startds of its workers: `condor_status`")
	case bare > 0:
		return errs.New(errs.Missing, "%d of %d slots have no Apptainer (HasSingularity): nothing of Slipway starts there", bare, len(slots)).
			With("install apptainer on those workers; they tell of it within 15 minutes, or after condor_restart")
	case fixed > 0:
		return errs.New(errs.Missing, "on %d of %d slots users may make no user namespaces: nothing of Slipway starts there", fixed, len(slots)).
			With("allow them there: sysctl user.max_user_namespaces=65536, and kernel.unprivileged_userns_clone=1 where that exists")
	}
	return nil
}

func no(b *bool) bool { return b != nil && !*b }

// reachable asks the service as a worker would, from here.
func reachable(ctx context.Context, u config.Uplink) error {
	pem, err := u.CA()
	if err != nil {
		return err
	}
	trusted := &tls.Config{MinVersion: tls.VersionTLS12}
	if pem != "" {
		trusted.RootCAs = x509.NewCertPool()
		trusted.RootCAs.AppendCertsFromPEM([]byte(pem))
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusted, Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.At("healthz").String(), nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return unreached(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errs.New(errs.Unavailable, "%s answers %s: that is not the service", req.URL, resp.Status).With("correct uplink.url, or the proxy in front of the service")
	}
	return nil
}

// unreached says what is in the way of a connection.
func unreached(err error) error {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return errs.New(errs.Invalid, "its certificate is signed by nobody whom this host trusts: %w", unknown).With("set uplink.ca_file to the PEM certificate of who has signed it")
	case errors.As(err, &name):
		return errs.New(errs.Invalid, "its certificate is of another name: %w", name).With("name the service in uplink.url as its certificate does")
	case errors.As(err, &invalid):
		return errs.New(errs.Invalid, "its certificate does not hold: %w", invalid).With("renew it, and look at this host's clock")
	}
	return errs.New(errs.Unavailable, "it does not answer: %w", err).With("start the service if it does not run; else look at uplink.url, at the tls section and at firewalls")
}
