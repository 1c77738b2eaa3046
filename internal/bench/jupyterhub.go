package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"slipway/hubapi/hub"
	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/internal/secret"
)

// JupyterHub is a real Hub, reached as its users reach it.
type JupyterHub struct {
	url    string
	client *hub.Client
	http   *http.Client
}

var _ Hub = (*JupyterHub)(nil)

const (
	tokenLife = 2 * time.Hour // longer than the longest load with its clearing up
	visitTime = 30 * time.Second
	lookEach  = time.Second // at a server that is being stopped
	mends     = 5           // of a broken stream of progress
)

// NewJupyterHub returns the Hub at address, such as "http://127.0.0.1:8000". The token is of a service of the Hub, or
// of an administrator, and must have the scopes admin:users, admin:servers and tokens.
func NewJupyterHub(address string, token secret.Text) (*JupyterHub, error) {
	u, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, errs.Bad("hub-url", address, "the Hub's address, such as http://127.0.0.1:8000")
	}
	if token.Empty() {
		return nil, errs.Bad("token-file", "", "a file that holds a token")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy, transport.MaxIdleConnsPerHost = nil, 16
	return &JupyterHub{
		url: u.String(), client: hub.New(hub.Config{APIURL: u.JoinPath("hub", "api"), Token: token}),
		http: &http.Client{Transport: transport, Timeout: visitTime},
	}, nil
}

// Active returns the names of the users who have a server.
func (h *JupyterHub) Active(ctx context.Context) ([]string, error) {
	users, err := h.client.Users(ctx)
	var names []string
	for _, u := range users {
		names = append(names, u.Name)
	}
	return names, err
}

// Create makes users.
func (h *JupyterHub) Create(ctx context.Context, users []string) error {
	return h.client.CreateUsers(ctx, users...)
}

// Token makes a token that is the user's.
func (h *JupyterHub) Token(ctx context.Context, user string) (secret.Text, error) {
	return h.client.CreateToken(ctx, user, hub.TokenRequest{Note: "bench", Expires: tokenLife})
}

// Start asks for the user's default server.
func (h *JupyterHub) Start(ctx context.Context, user string) (ready bool, err error) {
	return h.client.StartServer(ctx, user, "", nil)
}

// Await follows the start's progress to its end, over breaks of the stream.
func (h *JupyterHub) Await(ctx context.Context, user string) error {
	for try := 0; ; try++ {
		err := h.follow(ctx, user)
		switch {
		case errs.Is(err, errs.Conflict): // it is not being started any more
			return h.isUp(ctx, user)
		case errs.Is(err, errs.Unavailable) && try < mends:
			if !clock.Sleep(ctx, lookEach) {
				return ctx.Err()
			}
		default:
			return err
		}
	}
}

func (h *JupyterHub) follow(ctx context.Context, user string) error {
	for p, err := range h.client.Progress(ctx, user, "") {
		switch {
		case err != nil:
			return err
		case p.Ready:
			return nil
		case p.Failed:
			return errs.New(errs.NoCapacity, "the start failed: %s", p.Message)
		}
	}
	return errs.New(errs.Unavailable, "the progress of the start has no end")
}

func (h *JupyterHub) isUp(ctx context.Context, user string) error {
	s, err := h.client.Server(ctx, user, "")
	if err == nil && !s.Ready {
		return errs.New(errs.NoCapacity, "the server is neither starting nor ready")
	}
	return err
}

// Visit asks for the server's API, through the Hub's proxy.
func (h *JupyterHub) Visit(ctx context.Context, user string, token secret.Text) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/user/"+url.PathEscape(user)+"/api", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "token "+token.Reveal())
	resp, err := h.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET /user/%s/api: %s", user, resp.Status)
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	return err
}

// Stop stops the server and looks until it is gone.
func (h *JupyterHub) Stop(ctx context.Context, user string) error {
	gone, err := h.client.StopServer(ctx, user, "", false)
	for err == nil && !gone {
		if !clock.Sleep(ctx, lookEach) {
			return ctx.Err()
		}
		gone, err = h.isGone(ctx, user)
	}
	return err
}

func (h *JupyterHub) isGone(ctx context.Context, user string) (bool, error) {
	s, err := h.client.Server(ctx, user, "")
	if errs.Is(err, errs.NotFound) {
		return true, nil
	}
	return err == nil && s.Stopped && s.Pending == "", err
}

// Delete removes the user.
func (h *JupyterHub) Delete(ctx context.Context, user string) error {
	return h.client.DeleteUser(ctx, user)
}
