package agent

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

const (
	serviceURL    = "JUPYTERHUB_SERVICE_URL"
	servicePrefix = "JUPYTERHUB_SERVICE_PREFIX"
	usualPath     = "/usr/local/bin:/usr/bin:/bin"
)

// environ joins the agent's environment and the app's, and points an HTTP app to its port and to the relay for the Hub.
func environ(cfg Config, app control.App, port int, relay string) ([]string, error) {
	env := map[string]string{}
	for _, kv := range cfg.Env {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	if dir := rescueDir(cfg, app); dir != "" {
		rescued(env, dir)
	}
	id, known := env[control.IDEnv]
	maps.Copy(env, app.Env)
	if known {
		env[control.IDEnv] = id
	}
	if _, err := os.Stat(proxyIn(cfg.TokensDir)); err == nil && env[control.ProxyFileEnv] == "" {
		env[control.ProxyFileEnv] = proxyIn(cfg.TokensDir)
	}
	env[control.SocketEnv] = cfg.APISocket
	env["PATH"] = withDir(env["PATH"], cfg.BinDir)
	if env[control.GPUDirEnv] != "" {
		env["PATH"] = withDir(env["PATH"], control.GPUBinDir)
		env["LD_LIBRARY_PATH"] = strings.TrimPrefix(env["LD_LIBRARY_PATH"]+":"+control.GPULibDir, ":")
	}
	if !app.HTTP && app.Kernel == nil {
		env[control.ProgressEnv] = cfg.Progress
	}
	if app.HTTP {
		if err := readdress(env, port, relay); err != nil {
			return nil, err
		}
	}
	var list []string
	for _, k := range slices.Sorted(maps.Keys(env)) {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(env[k], 0) {
			return nil, errs.Bad("env", k, "names without '=' and values without NUL bytes")
		}
		list = append(list, k+"="+env[k])
	}
	return list, nil
}

func withDir(path, dir string) string {
	if path == "" {
		path = usualPath
	}
	if slices.Contains(strings.Split(path, ":"), dir) {
		return path
	}
	return path + ":" + dir
}

// readdress puts the app's port and the relay's address in the place of the Hub's idea of both. Paths stay. Both speak
// plain HTTP within the container, whatever the Hub has: so the app gets none of the names of certificates, whose files
// are not here. What browsers use (JUPYTERHUB_HOST, the PUBLIC ones) stays. The request for a tunnel makes an Outpost's
// Hub run ssh for a service of Kubernetes; Slipway brings users to the session, and nothing in it is to ask for that.
func readdress(env map[string]string, port int, relay string) error {
	for _, name := range []string{"JUPYTERHUB_SETUPTUNNEL_URL", "JUPYTERHUB_SSL_KEYFILE", "JUPYTERHUB_SSL_CERTFILE", "JUPYTERHUB_SSL_CLIENT_CA"} {
		delete(env, name)
	}
	if env[serviceURL] == "" {
		prefix := env[servicePrefix]
		if prefix == "" {
			prefix = "/"
		}
		env[serviceURL] = "http://127.0.0.1" + prefix
	}
	hosts := map[string]string{
		serviceURL:                loopback(port),
		"JUPYTERHUB_API_URL":      relay,
		"JUPYTERHUB_ACTIVITY_URL": relay,
		"JUPYTERHUB_EVENTS_URL":   relay, // an Outpost's
	}
	for name, host := range hosts {
		if env[name] == "" {
			continue
		}
		u, err := url.Parse(env[name])
		if err != nil || u.Host == "" && u.Scheme == "" {
			return errs.New(errs.Invalid, "%s: it is not a URL", name).With("http://host:port/path is expected")
		}
		u.Scheme, u.Host, u.User = "http", host, nil
		env[name] = u.String()
	}
	return nil
}

// loopback is the address of a port of the loopback.
func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// withoutApps leaves out what is between the Hub and the session's app, or of one process alone: people's own programs,
// and what those load from registries of extensions, do not get the Hub's tokens.
func withoutApps(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "JUPYTER_TOKEN", "PASSWORD", "HASHED_PASSWORD", "SHLVL", "PWD", "OLDPWD", "_":
			return true
		}
		return strings.HasPrefix(name, "JUPYTERHUB_") || strings.HasPrefix(name, "JPY_")
	})
}

// variable returns the value of a name in a list as environ makes it.
func variable(env []string, name string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// portRange is where Linux says from where to where it chooses ports by itself.
const portRange = "/proc/sys/net/ipv4/ip_local_port_range"

// freePort finds a port of the loopback that nobody listens on. The app takes it seconds later: so it is one that the
// kernel gives nobody meanwhile, neither who asks for any port nor a connection outwards.
func freePort() (int, error) {
	text, _ := os.ReadFile(portRange)
	low, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\t")
	for range portTries {
		port := 0 // any, where there is no room below the kernel's
		if n, err := strconv.Atoi(low); err == nil && n > 2*lowestPort {
			port = lowestPort + rand.IntN(n-lowestPort)
		}
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err == nil {
			defer l.Close()
			return l.Addr().(*net.TCPAddr).Port, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return 0, fmt.Errorf("find a port for the app: %w", err)
		}
	}
	return 0, fmt.Errorf("find a port for the app: none of %d was free", portTries)
}

const (
	lowestPort = 10000 // what listens for good, mostly has a port below
	portTries  = 100
)
