package hubapi

import (
	"context"
	"net/http"
)

// CredentialRequest asks for what opens a workload's environment from anywhere.
type CredentialRequest struct {
	Workload string `json:"workload"` // a session or job of the caller's; empty: the one that asks, through its agent
}

// EnvironmentCredential opens the environment of one workload in the service's registry, and nothing else, while the
// workload is active.
type EnvironmentCredential struct {
	Workload    string `json:"workload"`
	Environment string `json:"environment"` // digest
	Registry    string `json:"registry"`    // host:port
	Plain       bool   `json:"plain"`       // HTTP without TLS: Apptainer wants --no-https
	Reference   string `json:"reference"`   // oras://..., for Apptainer
	URL         string `json:"url"`         // of the SIF, for anything that speaks HTTP
	Username    string `json:"username"`
	Password    string `json:"password"` // a secret
}

// String hides it.
func (c EnvironmentCredential) String() string { return "[credential of " + c.Workload + "]" }

// GoString hides it.
func (c EnvironmentCredential) GoString() string { return c.String() }

// EnvironmentCredential returns what opens a workload's environment from anywhere.
func (c *Client) EnvironmentCredential(ctx context.Context, r CredentialRequest) (EnvironmentCredential, error) {
	return fetch[EnvironmentCredential](ctx, c, http.MethodPost, "/environment-credentials", r)
}
