package hubapi

import "context"

// RegistryLogin is who the caller is at another registry. It is used for one push or pull and kept nowhere.
type RegistryLogin struct {
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"` // a secret
	Identity string `json:"identity,omitempty"` // a secret: the token that `docker login` may leave instead of a password
	Token    string `json:"token,omitempty"`    // a secret: an access token
}

// String hides it.
func (RegistryLogin) String() string { return "[login]" }

// GoString hides it.
func (RegistryLogin) GoString() string { return "[login]" }

// PushRequest asks that an environment be sent to a registry.
type PushRequest struct {
	To    string        `json:"to"`  // host/repository:tag
	SIF   bool          `json:"sif"` // the whole image too, for Apptainer's oras://
	Login RegistryLogin `json:"login"`
}

// Pushed says what came of a push.
type Pushed struct {
	Environment string `json:"environment"` // digest
	Index       string `json:"index"`       // digest of what the tag names now
	Sent        int64  `json:"sent"`        // bytes
}

// PullRequest asks that an environment be received from a registry.
type PullRequest struct {
	From     string `json:"from"` // host/repository:tag or host/repository@sha256:...
	Name     string `json:"name"`
	Tag      string `json:"tag"`
	Note     string `json:"note"`
	Unsigned bool   `json:"unsigned"` // nobody whom the site trusts need have signed where it comes from
	// Architecture of the machines for which it is, such as arm64; all for each that the tag has. Empty: the service's,
	// or the only one.
	Architecture string        `json:"architecture,omitempty"`
	Login        RegistryLogin `json:"login"`
}

// PushEnvironment sends an environment to a registry and tells how far it has come.
func (c *Client) PushEnvironment(ctx context.Context, ref string, r PushRequest, each func(Progress)) (Pushed, error) {
	return follow[Pushed](ctx, c, path("environments", ref, "push"), r, each)
}

// PullEnvironment receives an environment from a registry, as one of the caller's, and tells how far it has come.
func (c *Client) PullEnvironment(ctx context.Context, r PullRequest, each func(Progress)) (Environment, error) {
	return follow[Environment](ctx, c, "/environment-pulls", r, each)
}
