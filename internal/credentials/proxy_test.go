package credentials

import (
	"context"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// TestRenewProxy: what runs in a workload brings its user's own proxy, and no other.
func TestRenewProxy(t *testing.T) {
	w := managerOver(t, newDisk(), secret.NewBox(), newFakeIssuer(time.Hour), func(c *Config) {
		c.Proxy = func(_ context.Context, pem secret.Text) (Entry, secret.Text, error) {
			return Entry{Facts: Facts{Subject: "CN=" + pem.Reveal(), Expires: time.Now().Add(time.Hour)}}, pem, nil
		}
	})
	for _, step := range []struct {
		put  func(context.Context, string, secret.Text) (Entry, error)
		of   string
		fine bool
		has  string
	}{
		{w.RenewProxy, "Alice", true, "Alice"},
		{w.RenewProxy, "Alice", true, "Alice"},
		{w.RenewProxy, "Mallory", false, "Alice"},
		{w.PutProxy, "Alice's other", true, "Alice's other"},
		{w.RenewProxy, "Alice", false, "Alice's other"},
	} {
		_, err := step.put(t.Context(), "alice", secret.New(step.of))
		if step.fine != (err == nil) || err != nil && !errs.Is(err, errs.Forbidden) || fileOf(t, w, "alice", "x509") != step.has {
			t.Errorf("a proxy of %s: %v; there is that of %s", step.of, err, fileOf(t, w, "alice", "x509"))
		}
	}
	if err := w.Remove(t.Context(), "alice", ProxyName); err != nil {
		t.Fatal(err)
	}
	if _, err := w.RenewProxy(t.Context(), "alice", secret.New("Alice")); err != nil {
		t.Errorf("once it is removed: %v", err)
	}
}

// TestAProxyPutAgain: workloads get it once more, for their users may have spoilt what they have.
func TestAProxyPutAgain(t *testing.T) {
	w := managerOver(t, newDisk(), secret.NewBox(), newFakeIssuer(time.Hour), func(c *Config) {
		c.Proxy = func(_ context.Context, pem secret.Text) (Entry, secret.Text, error) {
			return Entry{Facts: Facts{Subject: "CN=Alice", Expires: time.Now().Add(time.Hour)}}, pem, nil
		}
	})
	var sums [][32]byte
	for range 2 {
		if _, err := w.PutProxy(t.Context(), "alice", secret.New("the same")); err != nil {
			t.Fatal(err)
		}
		files, err := w.Files(t.Context(), "alice")
		if again, _ := w.Files(t.Context(), "alice"); err != nil || sumOf(again) != sumOf(files) {
			t.Fatal("what has not changed is another", err)
		}
		sums = append(sums, sumOf(files))
	}
	if sums[0] == sums[1] {
		t.Error("a proxy that is put again is brought to no workload")
	}
}
