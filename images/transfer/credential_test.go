package transfer

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

func TestDockerConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, ask := context.Background(), DockerConfig(file)
	if _, err := ask(ctx, "r.example"); !errs.Is(err, errs.Invalid) {
		t.Errorf("no file: %v", err)
	}
	write(`{"auths":{"r.example":{"auth":"YWxpY2U6aHVudGVyMg=="},"t.example":{"identitytoken":"tok"}},"credHelpers":{"h.example":"x"}}`)
	for host, want := range map[string]string{"r.example": "alice hunter2 ", "t.example": "  tok", "other.example": "  "} {
		c, err := ask(ctx, host)
		if got := c.Username + " " + c.Password.Reveal() + " " + c.Identity.Reveal(); err != nil || got != want {
			t.Errorf("%s: %q, %v", host, got, err)
		}
		if strings.Contains(fmt.Sprintf("%v %+v %#v", c, c, c), "hunter2") {
			t.Error("the password is shown")
		}
	}
	if _, err := ask(ctx, "h.example"); !errs.Is(err, errs.Missing) {
		t.Errorf("a helper program: %v", err)
	}
	write(`{"auths":{"r.example":{"auth":"YWxpY2U6bmV3"}},"credsStore":"desktop"}`)
	if c, err := ask(ctx, "r.example"); err != nil || c.Password.Reveal() != "new" {
		t.Errorf("after another login: %v, %v", c, err)
	}
	for _, bad := range []string{`{`, `{"auths":{"r.example":{"auth":"hunter2!"}}}`, `{"auths":{"r.example":{"auth":"aHVudGVyMg=="}}}`, `{"auths":"hunter2"}`} {
		write(bad)
		if c, err := ask(ctx, "r.example"); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, %v", bad, c, err)
		}
	}
}

func TestStatic(t *testing.T) {
	ask := Static("r.example:5000", Credential{Username: "alice", Password: secret.New("x")})
	for host, want := range map[string]string{"r.example:5000": "alice", "r.example": ""} {
		if c, err := ask(context.Background(), host); err != nil || c.Username != want {
			t.Errorf("%s: %v, %v", host, c, err)
		}
	}
}

// FuzzDockerConfig: a file is read or refused, and no error quotes it.
func FuzzDockerConfig(f *testing.F) {
	f.Add([]byte(`{"auths":{"registry.example":{"auth":"YWxpY2U6c2VjcmV0"}}}`))
	f.Add([]byte(`{"auths":{"registry.example":{"identitytoken":"t"}},"credsStore":"x"}`))
	f.Add([]byte(`{"auths":{"registry.example":{"auth":"not base64"}}}`))
	path := filepath.Join(f.TempDir(), "config.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		read := DockerConfig(path)
		_, err := read(t.Context(), "registry.example")
		if err != nil && (errs.Is(err, errs.Internal) || bytes.Contains(data, []byte("s3cret")) && strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("err = %v", err)
		}
	})
}
