package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"slipway/hubapi"
	"slipway/hubapi/server/api"
	"slipway/internal/errs"
	"slipway/spawner"
)

// seekable is content that is there.
type seekable struct{ *strings.Reader }

func (seekable) Close() error { return nil }

func (f fakeShipper) Export(ctx context.Context, c spawner.Caller, ref, form string) (api.Export, error) {
	if _, err := f.Get(ctx, c, ref); err != nil {
		return api.Export{}, err
	}
	const text = "the whole image"
	if form == hubapi.ExportSIF {
		return api.Export{Digest: "sha256:c1b3ff7fea4d2fbc5a5d5d4fb2ef2cd3ea8e4f0c0c7ee84d60d5c3b56b5c9c3b", Content: seekable{strings.NewReader(text)}}, nil
	}
	return api.Export{Write: func(_ context.Context, w io.Writer) error {
		if ref != theDigest {
			return errs.New(errs.NoSpace, "no space for the image")
		}
		if _, err := io.WriteString(w, strings.Repeat("x", 1<<20)); err != nil {
			return err
		}
		return errors.New("the disk broke")
	}}, nil
}

// TestCredentials: a workload's agent asks for itself, a user for what is hers, and nobody for another's.
func TestCredentials(t *testing.T) {
	h := start(t, newFake(lab("s-alice", "alice", "/user/alice/"), job("j-alice", "alice")), nil)
	for _, tc := range []struct{ token, workload, want string }{
		{"alice-token", "j-alice", "secret of j-alice"},
		{"bob-token", "j-alice", ""},
		{"alice-token", "", ""},
		{spawnerToken, "s-alice", ""},
	} {
		got, err := h.client(t, tc.token).EnvironmentCredential(t.Context(), hubapi.CredentialRequest{Workload: tc.workload})
		if got.Password != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s asks for %q: %q, %v", tc.token, tc.workload, got.Password, err)
		}
		if text := fmt.Sprintf("%v %+v %#v", got, got, got); strings.Contains(text, "secret") {
			t.Errorf("it is printed: %s", text)
		}
	}
	status, body := raw(t, agentServer(t, h.AgentAPI(), "j-alice"), "POST "+hubapi.Base+"/environment-credentials HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
	if status != 200 || !strings.Contains(body, "secret of j-alice") {
		t.Errorf("from within: %d %s", status, body)
	}
}

func TestExport(t *testing.T) {
	h := start(t, newFake(), nil)
	get := func(token, path, ask string) (*http.Response, string, error) {
		r, err := http.NewRequest(http.MethodGet, h.front.URL+hubapi.Base+"/environments/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		if ask != "" {
			r.Header.Set("Range", ask)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return resp, string(body), err
	}
	for _, tc := range []struct {
		token, path, ask string
		status           int
		want             string
	}{
		{"alice-token", theDigest + "/export?as=sif", "", 200, "the whole image"},
		{"alice-token", theDigest + "/export?as=sif", "bytes=4-8", 206, "whole"},
		{"bob-token", theDigest + "/export?as=sif", "", 404, "not_found"},
		{"alice-token", theDigest + "/export?as=dir&path=/etc", "", 422, "sif or oci"},
		{"alice-token", theDigest + "/export", "", 422, "sif or oci"},
		{"alice-token", "mine:v%201/export?as=oci", "", 507, "no space"},
	} {
		resp, body, err := get(tc.token, tc.path, tc.ask)
		if err != nil || resp.StatusCode != tc.status || !strings.Contains(body, tc.want) {
			t.Errorf("%s: %d %q, %v", tc.path, resp.StatusCode, body, err)
		}
	}
	if _, body, err := get("alice-token", theDigest+"/export?as=oci", ""); err == nil {
		t.Errorf("what broke off after %d bytes looks whole", len(body))
	}
	var out bytes.Buffer
	if _, err := h.client(t, "alice-token").ExportEnvironment(t.Context(), theDigest, hubapi.ExportSIF, &out); !errs.Is(err, errs.Invalid) {
		t.Errorf("the digest is a made up one: %v", fmt.Sprint(err))
	}
}
