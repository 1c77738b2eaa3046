//go:build linux

package cli

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"slipway/hubapi"
	"slipway/internal/agent/control"
	"slipway/internal/cli/render"
	"slipway/internal/datacheck"
	"slipway/internal/datacheck/rootclient"
	"slipway/internal/errs"
	"slipway/internal/mounts"
	"slipway/internal/oidc"
	"slipway/internal/secret"
)

// doctorDataCommand is `slipway doctor data`.
func doctorDataCommand(env Env) *cobra.Command {
	asJSON, quiet := false, false
	c := &cobra.Command{
		Use:     "data",
		Example: "  slipway doctor data",
		Short:   "Look at your data from inside a session or job: CVMFS, storage, caches, tokens, proxy, clock",
		Args:    nothingElse,
		Long: "Look, inside a session or job, at what its programs find of your data: the repositories of CVMFS, the site's storage elements\n" +
			"and their caches by XRootD, the directories below /storage, your tokens and your proxy, their issuers, and the clock; and say\n" +
			"what to do about what is amiss. It needs no program of the image, for it speaks XRootD itself, with tokens; storage that takes\n" +
			"proxies alone it lists by the image's xrdfs, if there is one. Where the site says that storage may be written to, it writes a\n" +
			"file .slipway-probe-... of 256 KiB and removes it again, unless your token does not let it remove one; it writes nothing else.\n" +
			"It takes half a minute at the most. A session's page shows what was found last. Exit code 1 when something does not work,\n" +
			"130 when it was interrupted.",
		RunE: func(c *cobra.Command, _ []string) error { return runDoctorData(c.Context(), env, asJSON, quiet) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&quiet, "quiet", false, "print nothing: only tell the service")
	_ = c.Flags().MarkHidden("quiet") // the agent's
	return c
}

func runDoctorData(ctx context.Context, env Env, asJSON, quiet bool) error {
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		var stop func()
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP)
		defer stop()
	}
	report, err := lookAtData(ctx, env)
	if ctx.Err() != nil {
		fmt.Fprintln(
			env.Stderr,
			"slipway: interrupted before all was looked at; should a probe file be left, a later look removes it",
		)
		return exitCode(exitInterrupted)
	}
	if err != nil || quiet {
		return err
	}
	if asJSON {
		err = env.data(report)
	} else {
		err = printDataReport(env, report)
	}
	if err == nil && report.Worst() == hubapi.CheckFail {
		return exitCode(exitError)
	}
	return err
}

func printDataReport(env Env, r hubapi.DataReport) error {
	var findings []finding
	for _, c := range r.Checks {
		f := finding{Check: c.Check, Result: c.Result, Message: c.Finding}
		if c.Remedy != "" {
			f.Remedy = render.Printable(c.Remedy)
		}
		findings = append(findings, f)
	}
	return printFindings(env, findings)
}

// All that a look takes, and what of it the service may take before and after.
const (
	dataTime = 30 * time.Second
	planTime = 8 * time.Second
	tellTime = 3 * time.Second
)

// lookAtData looks, and has the service remember what a session finds.
func lookAtData(ctx context.Context, env Env) (hubapi.DataReport, error) {
	client, err := connect(env)
	if err != nil {
		return hubapi.DataReport{}, err
	}
	asked := time.Now()
	plan, err := dataPlan(ctx, client)
	if err != nil {
		return hubapi.DataReport{}, err
	}
	answered := time.Now()
	scratch, err := os.MkdirTemp("", "slipway-doctor-")
	if err != nil {
		return hubapi.DataReport{}, fmt.Errorf("make a directory of its own: %w", err)
	}
	defer os.RemoveAll(scratch)
	self, err := os.Executable()
	if err != nil {
		return hubapi.DataReport{}, fmt.Errorf("find this program: %w", err)
	}
	roots := trustedHere(env)
	report := datacheck.Run(ctx, datacheck.Config{
		Plan: plan, Asked: asked.Add(answered.Sub(asked) / 2), Remote: client.LookAtIssuer, Room: client.Quota,
		Storage: func(token secret.Text) datacheck.Storage { return rootclient.Client{Token: token, Roots: roots} },
		Issuer:  lookAtIssuer, List: listByXrdfs(), Credentials: credentialsDir(env),
		Proxy: env.Getenv(control.ProxyFileEnv),
		Probe: []string{self, mounts.ProbeCommand}, Scratch: scratch, Deadline: dataTime - tellTime - time.Since(asked),
	})
	if err := tellService(ctx, env, client, report); err != nil {
		fmt.Fprintf(env.Stderr, "slipway: the session's page does not show this: %s\n", errs.Brief(err))
	}
	return report, nil
}

func dataPlan(ctx context.Context, client *hubapi.Client) (hubapi.DataPlan, error) {
	limited, cancel := context.WithTimeout(ctx, planTime)
	defer cancel()
	plan, err := client.DataPlan(limited)
	if limited.Err() != nil && ctx.Err() == nil {
		return plan, errs.New(errs.Unavailable, "the service has not said in time what there is to look at").
			With("try again in a minute")
	}
	return plan, err
}

// tellService has the service remember a session's report. A job has no page for it, and a look that was interrupted
// says nothing.
func tellService(ctx context.Context, env Env, client *hubapi.Client, r hubapi.DataReport) error {
	if ctx.Err() != nil || strings.HasPrefix(env.Getenv(control.IDEnv), "j") {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	return client.PutDataReport(ctx, r)
}

// credentialsDir is where the agent puts tokens: the token's file is named to the programs.
func credentialsDir(env Env) string {
	if file := env.Getenv(control.TokenFileEnv); file != "" {
		return filepath.Dir(file)
	}
	return control.CredentialsDir
}

// trustedHere are the system's authorities and those of the Grid that the environment names.
func trustedHere(env Env) *x509.CertPool {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	dir := env.Getenv("X509_CERT_DIR")
	if dir == "" {
		dir = "/etc/grid-security/certificates"
	}
	for _, pattern := range []string{"*.pem", "*.0"} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is good
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil {
				pool.AppendCertsFromPEM(text)
			}
		}
	}
	return pool
}

func lookAtIssuer(ctx context.Context, url string) (time.Time, error) {
	c, err := oidc.New(oidc.Config{Name: url, URL: url, ClientID: "slipway"})
	if err != nil {
		return time.Time{}, err
	}
	return c.Look(ctx)
}

// listByXrdfs lists by the image's own client of XRootD; nil where there is none.
func listByXrdfs() func(ctx context.Context, server, path string) error {
	program, err := exec.LookPath("xrdfs")
	if err != nil {
		return nil
	}
	return func(ctx context.Context, server, path string) error {
		cmd := exec.CommandContext(ctx, program, server, "ls", path)
		said := &beginning{}
		cmd.WaitDelay, cmd.Stderr = time.Second, said
		err := cmd.Run()
		if err != nil && ctx.Err() == nil && said.text.Len() > 0 {
			return errors.New(strings.TrimSpace(said.text.String()))
		}
		return err
	}
}

// beginning keeps the first words of a program.
type beginning struct{ text bytes.Buffer } // not embedded: io.Copy would go by its ReadFrom, which has no bound

// Write never fails.
func (b *beginning) Write(p []byte) (int, error) {
	b.text.Write(p[:min(len(p), 4<<10-b.text.Len())])
	return len(p), nil
}
