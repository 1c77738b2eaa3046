package datacheck

import (
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/hubapi"
	"slipway/internal/datacheck/rootclient"
	"slipway/internal/secret"
	"slipway/internal/testenv"
	"slipway/internal/xrd/xrdtest"
)

// TestRealStorage: a real origin with tokens and a real XCache before it are found well, and then each fault of theirs
// is found.
func TestRealStorage(t *testing.T) {
	trust := xrdtest.NewTrust(t)
	origin := trust.TokenOrigin()
	cache := trust.TokenCache(origin)
	origin.Put("alice/file", "hers")
	xrdtest.Make(t, filepath.Join(origin.Data, "bob"))
	pem, err := os.ReadFile(filepath.Join(trust.Dir, "ca.pem"))
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(pem) {
		t.Fatal("no authority", err)
	}
	cfg := usual(t, &fake{})
	cfg.Storage = func(token secret.Text) Storage { return rootclient.Client{Token: token, Roots: roots} }
	cfg.Now, cfg.Asked, cfg.Plan.Now, cfg.Plan.Issuers = time.Now, time.Now(), time.Now(), nil
	e := &cfg.Plan.Storage[0]
	e.Origin, e.Cache, e.Path, e.Audience, e.Scopes = origin.URL, cache.URL, "/data/alice", trust.Audience, nil
	const both = "storage.read:/alice storage.create:/alice storage.modify:/alice"
	run := func(scope string, life time.Duration) (found map[string]hubapi.DataCheck) {
		put(t, cfg.Credentials, "token-eos", trust.Token("alice", scope, life))
		found = map[string]hubapi.DataCheck{}
		for _, c := range Run(t.Context(), cfg).Checks {
			found[c.Check] = c
		}
		if left, _ := filepath.Glob(filepath.Join(origin.Data, "*/.slipway-probe-*")); len(left) > 0 {
			t.Errorf("left there: %v", left)
		}
		return found
	}
	want := func(found map[string]hubapi.DataCheck, check, result, words string) {
		t.Helper()
		if c := found[check]; c.Result != result || !strings.Contains(c.Finding, words) {
			t.Errorf("%s: want %s %q, have %+v", check, result, words, c)
		}
	}
	found := run(both, time.Hour)
	want(found, "storage eos", "ok", "lists 1 entry")
	want(found, "writing to storage eos", "ok", "and removed")
	want(found, "reading storage eos", "ok", "probe file: 256 KiB")
	want(found, "cache of storage eos", "ok", "first 256 KiB")

	found = run("storage.read:/alice", time.Hour)
	want(found, "token token-eos", "warn", "lets one write")
	want(found, "writing to storage eos", "fail", "does not let you")
	want(found, "reading storage eos", "ok", "a file that is there: 1 KiB")

	found = run("storage.read:/alice storage.create:/alice", time.Hour)
	want(found, "writing to storage eos", "warn", "not tried")
	want(found, "reading storage eos", "ok", "a file that is there: 1 KiB")

	old := fmt.Sprintf("alice/.slipway-probe-%d-RAND-alice", time.Now().Add(-time.Hour).Unix())
	origin.Put(old, "left by a look that was killed")
	found = run(both, time.Hour) // and is removed
	want(found, "writing to storage eos", "ok", "and removed")

	found = run(both, -time.Minute)
	want(found, "token token-eos", "fail", "ended")
	if c := found["storage eos"]; c.Result != "fail" || c.Remedy == "" {
		t.Errorf("with an ended token: %+v", c)
	}

	e.Path = "/data/bob"
	found = run(both, time.Hour)
	want(found, "storage eos", "fail", "does not let you")

	e.Path = "/data/alice"
	cache.Kill()
	found = run(both, time.Hour)
	want(found, "cache of storage eos", "warn", "nothing listens at 127.0.0.1:")
	want(found, "reading storage eos", "ok", "probe file")
	origin.Kill()
	want(run(both, time.Hour), "storage eos", "fail", "nothing listens at 127.0.0.1:")
}

// TestStaleMount: a directory whose real xrootdfs was killed is found, and what is wrong with it.
func TestStaleMount(t *testing.T) {
	testenv.Need(t, testenv.XRootDFS)
	origin := xrdtest.Origin(t)
	dir := filepath.Join(t.TempDir(), "eos")
	xrdtest.Make(t, dir)
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	mount := testenv.Start(t, exec.Command("xrootdfs", dir, "-f", "-o", "rdr="+origin.URL+"//data,ro"))
	cfg := usual(t, &fake{})
	cfg.Probe = []string{os.Args[0], "probe"}
	cfg.Plan.Storage[0].Mounts = []hubapi.DataMount{{Path: dir}}
	look := func() (found hubapi.DataCheck) {
		for _, c := range Run(t.Context(), cfg).Checks {
			if c.Check == "directory "+dir {
				found = c
			}
		}
		return found
	}
	mount.Until("it is mounted", func() bool {
		var s syscall.Statfs_t
		return syscall.Statfs(dir, &s) == nil && s.Type == 0x65735546 // FUSE
	})
	if c := look(); c.Result != hubapi.CheckOK {
		t.Errorf("while it is there: %+v", c)
	}
	mount.End(syscall.SIGKILL)
	if c := look(); c.Result != hubapi.CheckFail || !strings.Contains(c.Finding, "transport endpoint is not connected") || c.Remedy == "" {
		t.Errorf("once its process has died: %+v", c)
	}
}
