package server

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
)

// fakeShipper lets a user push her own environments, and fails where the registry is called so.
type fakeShipper struct{ *fakeEnvironments }

func (f fakeShipper) Push(
	ctx context.Context, c spawner.Caller, ref string, r hubapi.PushRequest, progress func(hubapi.Progress),
) (hubapi.Pushed, error) {
	e, err := f.Get(ctx, c, ref)
	if err != nil {
		return hubapi.Pushed{}, err
	}
	progress(hubapi.Progress{Stage: "pushing", Bytes: 1})
	if strings.HasPrefix(r.To, "down") {
		return hubapi.Pushed{}, errs.New(errs.Unavailable, "the registry does not answer")
	}
	return hubapi.Pushed{Environment: e.Digest, Sent: 7}, nil
}

func (f fakeShipper) Pull(_ context.Context, c spawner.Caller, r hubapi.PullRequest, progress func(hubapi.Progress)) (hubapi.Environment, error) {
	if r.Login.Password == "wrong" {
		return hubapi.Environment{}, errs.New(errs.Forbidden, "the registry does not let you in")
	}
	progress(hubapi.Progress{Stage: "pulling"})
	return hubapi.Environment{Digest: theDigest, Owner: string(c.User), Mine: true, Name: r.Name}, nil
}

func TestPushAndPull(t *testing.T) {
	h := start(t, newFake(), nil)
	c := h.client(t, "alice-token")
	var stages []string
	tell := func(p hubapi.Progress) { stages = append(stages, p.Stage) }
	login := hubapi.RegistryLogin{Username: "alice", Password: "geheim"}
	pushed, err := c.PushEnvironment(t.Context(), theDigest, hubapi.PushRequest{To: "registry.example/a/b:1", Login: login}, tell)
	if err != nil || pushed.Environment != theDigest || pushed.Sent != 7 {
		t.Errorf("%+v, %v", pushed, err)
	}
	env, err := c.PullEnvironment(t.Context(), hubapi.PullRequest{From: "registry.example/a/b:1", Name: "b", Unsigned: true, Login: login}, tell)
	if err != nil || env.Digest != theDigest || env.Name != "b" || strings.Join(stages, " ") != "pushing pulling" {
		t.Errorf("%+v after %q, %v", env, stages, err)
	}
	if _, err := c.PushEnvironment(t.Context(), theDigest, hubapi.PushRequest{To: "down.example/a/b:1"}, tell); !errs.Is(err, errs.Unavailable) {
		t.Errorf("from a registry that is down: %v", err)
	}
	login.Password = "wrong"
	if _, err := c.PullEnvironment(t.Context(), hubapi.PullRequest{From: "registry.example/a/b:1", Login: login}, tell); !errs.Is(err, errs.Forbidden) {
		t.Errorf("with a wrong password: %v", err)
	}
	for _, what := range []string{"an environment was pushed", "to=registry.example/a/b:1", "an environment was pulled", "unsigned=true", "user=alice"} {
		h.saysInLog(t, what)
	}
	logged := h.logged.String()
	for _, word := range []string{"geheim", "wrong"} {
		if strings.Contains(logged, word) {
			t.Errorf("%q is in the log", word)
		}
	}
	if strings.Count(logged, "an environment was pushed") != 1 {
		t.Error("a push that failed is in the log as one that was done")
	}
}

// TestRefusalsOfPushesHaveAStatus: only what has begun is told in the stream.
func TestRefusalsOfPushesHaveAStatus(t *testing.T) {
	h := start(t, newFake(), nil)
	for body, want := range map[string]int{`{"to":"registry.example/a/b:1"}`: 404, `{"to":1}`: 422, `{"to":"x","path":"/etc"}`: 422} {
		r, err := http.NewRequest(http.MethodPost, h.front.URL+hubapi.Base+"/environments/"+theDigest+"/push", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer bob-token")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d", body, resp.StatusCode)
		}
	}
}
