package hubapi

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
)

func example(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestExamples holds the types to the shared examples: every key is known, and none is missing or written otherwise.
func TestExamples(t *testing.T) {
	for name, into := range map[string]any{
		"session.json": new(Session), "waiting.json": new(Session), "job.json": new(Job), "point.json": new(Job), "environment.json": new(Environment), "event.json": new(Event),
		"error.json": new(ErrorBody), "profile.json": new(Profile), "gpus.json": new(GPUs), "pool.json": new(PoolGPUs), "scan.json": new(Scan), "change.json": new(ScanChange), "why.json": new(Explanation),
		"details.json": new(EnvironmentDetails), "diff.json": new(EnvironmentDiff), "check.json": new(EnvironmentCheck), "usage.json": new(EnvironmentUsage),
		"ssh.json": new(SSHService), "ssh-key.json": new(SSHKey), "ssh-certificate.json": new(SSHCertificate), "ssh-login.json": new(DeviceLogin),
		"plan.json": new(JobPlan), "jobs-usage.json": new(JobsUsage), "point-event.json": new(PointEvent), "retry.json": new(RetryRequest), "resubmit.json": new(ResubmitRequest),
		"ssh-login-state.json": new(SSHLoginState), "kernelspec.json": new(KernelSpec), "credentials.json": new(Credentials), "credential-login.json": new(CredentialLogin),
	} {
		t.Run(name, func(t *testing.T) {
			want := example(t, name)
			d := json.NewDecoder(bytes.NewReader(want))
			d.DisallowUnknownFields()
			if err := d.Decode(into); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(into)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(values(t, want), values(t, got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func values(t *testing.T, b []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestErrorsExampleIsTheTable(t *testing.T) {
	type row struct {
		Code   string `json:"code"`
		Status int    `json:"status"`
	}
	var got, want []row
	if err := json.Unmarshal(example(t, "errors.json"), &got); err != nil {
		t.Fatal(err)
	}
	for _, r := range errs.Table() {
		want = append(want, row{r.Code, r.Status})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
