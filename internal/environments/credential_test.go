package environments

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/images/registry/registrytest"
	"slipway/images/transfer"
	"slipway/internal/errs"
	"slipway/internal/testenv"
	"slipway/spawner"
)

// TestAJobsCredentialIsHandedOut: with the file of logins that the command writes Apptainer runs the job's environment,
// and no other, for as long as the job is active.
func TestAJobsCredentialIsHandedOut(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Apptainer)
	d := newBlobStore(t)
	e := d.freeze("alice", "ana", "v1", "from the service")
	d.settle(e)
	host := registrytest.Serve(t, d.handler())
	w := spawner.Workload{ID: "j-1", Kind: spawner.Job, Phase: spawner.Running, Spec: spawner.Spec{Environment: e.Digest}}
	d.jobs.Store(w.ID, w)
	got, err := d.registry.HandOut(w, &url.URL{Scheme: "http", Host: host})
	d.must(err)
	authfile := filepath.Join(t.TempDir(), "login.json")
	d.must(os.WriteFile(authfile, []byte(`{"auths":{"other.example":{"auth":"eDp5"}},"credsStore":""}`), 0o600), transfer.AddLogin(authfile, got.Registry, got.Username, got.Password))
	if c, err := transfer.DockerConfig(authfile)(t.Context(), "other.example"); err != nil || c.Username != "x" {
		t.Errorf("another login: %q, %v", c.Username, err)
	}
	if !got.Plain || got.URL != "http://"+host+"/sif/"+e.Digest || strings.Contains(fmt.Sprint(got), got.Password) {
		t.Errorf("%+v %s", got.Plain, got.URL)
	}
	argv := []string{"--no-https", "--authfile", authfile, got.Reference, "cat", "/greeting"}
	if out := registrytest.Apptainer(t, t.TempDir(), nil, "exec", argv...); out != "from the service" {
		t.Errorf("it says %q", out)
	}
	if status, _ := d.ask(got.Password, strings.TrimPrefix(got.URL, "http://"+host)); status != 200 {
		t.Errorf("the file by HTTP: %d", status)
	}
	w.Phase = spawner.Stopped
	d.jobs.Store(w.ID, w)
	if out, err := registrytest.TryApptainer(t, t.TempDir(), nil, "exec", argv...); err == nil {
		t.Errorf("of a job that has ended: %q", out)
	}
	if _, err := d.registry.HandOut(w, &url.URL{}); !errs.Is(err, errs.Conflict) {
		t.Errorf("a job that has ended: %v", err)
	}
	w.Phase, w.Spec.Environment = spawner.Running, ""
	if _, err := d.registry.HandOut(w, &url.URL{}); !errs.Is(err, errs.Invalid) {
		t.Errorf("a session without an environment: %v", err)
	}
}
