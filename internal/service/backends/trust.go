package backends

import (
	"maps"
	"path/filepath"
	"strings"

	"slipway/internal/config"
	"slipway/internal/cvmfs"
	"slipway/spawner/docker"
	"slipway/spawner/local"
)

const (
	trustInside = "/etc/grid-security/certificates" // where the Grid's programs look for authorities
	trustEnv    = "X509_CERT_DIR"
)

// trustShown returns the directory of the Grid's authorities that workloads of this host are shown; empty: there is
// none, or it is below CVMFS, where they see it anyhow.
func trustShown(cfg config.Config) string {
	if dir := cfg.Credentials.X509.Trust; trustBelow(cfg) == "" {
		return dir
	}
	return ""
}

// trustBelow returns where workloads see a directory of authorities that lies in a repository of CVMFS; empty: it does
// not.
func trustBelow(cfg config.Config) string {
	root := cfg.Data.CVMFS.Path
	rest, below := strings.CutPrefix(filepath.Clean(cfg.Credentials.X509.Trust), filepath.Clean(root)+"/")
	if root == "" || !below {
		return ""
	}
	return filepath.Join(cvmfs.Inside, rest)
}

// trustForDocker and trustForJobs add it to what workloads see.
func trustForDocker(cfg config.Config, c *docker.Config) {
	if dir := trustShown(cfg); dir != "" {
		c.Mounts = append(c.Mounts, docker.Mount{Source: dir, Target: trustInside, ReadOnly: true})
	}
}

func trustForJobs(cfg config.Config, c *local.Config) {
	if dir := trustShown(cfg); dir != "" {
		c.Mounts = append(c.Mounts, local.Mount{Source: dir, Target: trustInside})
	}
}

// WithTrust adds to what programs find in their environment where the Grid's authorities are, if these lie below CVMFS.
func WithTrust(cfg config.Config, env map[string]string) map[string]string {
	if dir := trustBelow(cfg); dir != "" {
		env = maps.Clone(env)
		if env == nil {
			env = map[string]string{}
		}
		env[trustEnv] = dir
	}
	return env
}
