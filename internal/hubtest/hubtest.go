// Package hubtest runs real JupyterHubs for tests: the program of either major version out of the cache that
// deploy/test fills, the real configurable-http-proxy in front of it, and either our Spawner or the published
// OutpostSpawner inside.
//
// Promises: a Hub has ports, files and secrets of its own, so that several run side by side; what it started is ended
// with the test, by the process groups that it made, and nothing else is; of this process's environment nothing but the
// way to the system's programs reaches the Hub. It knows nothing of the service: tests give it an address.
package hubtest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"slipway/internal/testenv"
)

//go:embed config.py
var config []byte

// The Spawners that a Hub can have.
const (
	Slipway = "slipway"
	Outpost = "outpost"
)

// Admin is the name of the user who is an administrator of every Hub here; Password is every user's.
const (
	Admin    = "root"
	Password = "the-password-of-every-user"
)

// The secrets that the Hub and the service share. They are told to tests: none of them is worth anything outside.
const (
	ServiceToken    = "service-token-of-the-hub-tests"
	SpawnerToken    = "spawner-token-of-the-hub-tests"
	OutpostUser     = "hub1"
	OutpostPassword = "outpost-password-of-the-hub-tests"
	testsToken      = "token-of-the-hub-tests-themselves"
)

// Options say which Hub is wanted.
type Options struct {
	Major      int    // 5 or 6
	Spawner    string // Slipway, the default, or Outpost
	ServiceURL string // where the service answers, or will
	BaseURL    string // the path below which the Hub lies; default "/"
	Config     string // more lines of jupyterhub_config.py
	Stopped    bool   // Start only prepares; the test calls Restart
}

// Hub is a Hub with its proxy.
type Hub struct {
	URL    string // what browsers see: the proxy, with the Hub's base path and no slash behind it
	APIURL string // the Hub's REST API, without the proxy
	Dir    string // its files

	t     testing.TB
	major int
	hub   *process
	proxy *process
	ports []int
}

// Parts are what a Hub of this major version needs.
func Parts(major int) []testenv.Part {
	return []testenv.Part{testenv.Part(fmt.Sprintf("hub%d", major)), testenv.Proxy}
}

// Start runs a Hub and waits until it answers. It ends with the test, which shows its log when it has failed.
func Start(t testing.TB, o Options) *Hub {
	t.Helper()
	testenv.Need(t, Parts(o.Major)...)
	h := &Hub{t: t, major: o.Major, Dir: t.TempDir(), ports: testenv.FreePorts(t, 3)}
	base := "/"
	if o.BaseURL != "" {
		base = o.BaseURL
	}
	h.URL = "http://" + h.address(0) + base[:len(base)-1]
	h.APIURL = "http://" + h.address(1) + base + "hub/api"
	h.write("settings.json", h.settings(o, base))
	h.write("spawner.token", []byte(SpawnerToken))
	h.write("jupyterhub_config.py", append(config, "\n"+o.Config+"\n"...))
	t.Cleanup(h.close)
	if !o.Stopped {
		h.Restart()
	}
	return h
}

func (h *Hub) settings(o Options, base string) []byte {
	spawner := o.Spawner
	if spawner == "" {
		spawner = Slipway
	}
	text, err := json.Marshal(map[string]string{
		"major":    strconv.Itoa(o.Major),
		"bind_url": "http://" + h.address(0) + base, "hub_bind_url": "http://" + h.address(1),
		"proxy_api_url": "http://" + h.address(2),
		"proxy_token":   "proxy-token-of-the-hub-tests", "cookie_secret": fmt.Sprintf("%064x", 7),
		"password": Password, "admin": Admin, "tests_token": testsToken,
		"service_token": ServiceToken, "service_url": o.ServiceURL, "spawner": spawner,
		"spawner_token_file": filepath.Join(h.Dir, "spawner.token"),
		"outpost_user":       OutpostUser, "outpost_password": OutpostPassword,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return text
}

func (h *Hub) write(name string, text []byte) {
	if err := os.WriteFile(filepath.Join(h.Dir, name), text, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *Hub) address(i int) string { return fmt.Sprintf("127.0.0.1:%d", h.ports[i]) }

// Restart starts what does not run of proxy and Hub, over the same files, and waits until they answer.
func (h *Hub) Restart() {
	h.t.Helper()
	if !h.proxy.runs() {
		h.proxy = h.startProxy()
	}
	if !h.hub.runs() {
		h.hub = h.startHub()
	}
	h.eventually("the Hub answers through its proxy", func() bool {
		if !h.hub.runs() || !h.proxy.runs() {
			h.t.Fatal("the Hub or its proxy has ended: see its log")
		}
		// The Hub itself first: the proxy would log each request for which it has no route yet.
		return h.healthy(strings.TrimSuffix(h.APIURL, "/api")) && h.healthy(h.URL+"/hub")
	})
}

func (h *Hub) healthy(address string) bool {
	resp, err := http.Get(address + "/health")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Kill ends the Hub as kill -9 does. The proxy goes on.
func (h *Hub) Kill() { h.hub.kill() }

// KillProxy ends the proxy, with all routes that it knows.
func (h *Hub) KillProxy() { h.proxy.kill() }

func (h *Hub) close() {
	h.hub.kill()
	h.proxy.kill()
	testenv.ShowLog(h.t, fmt.Sprintf("the log of the Hub, version %d", h.major), filepath.Join(h.Dir, "hub.log"))
}

// Log returns the last bytes of what the Hub and the proxy have written.
func (h *Hub) Log(most int) string {
	text, err := os.ReadFile(filepath.Join(h.Dir, "hub.log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// eventually waits for something that a program does on its own.
func (h *Hub) eventually(what string, ok func() bool) {
	h.t.Helper()
	testenv.Until(h.t, what, testenv.Hang, ok)
}
