package backends

import (
	"log/slog"
	"path/filepath"

	"slipway/internal/config"
	"slipway/internal/cvmfs"
	"slipway/internal/version"
	"slipway/spawner/docker"
)

// Docker makes the backend of sessions on this host. Self is the program of package programs that it starts, seen the
// directory with CVMFS that workloads get.
func Docker(cfg config.Config, self string, seen cvmfs.Directory, log *slog.Logger) (*docker.Backend, error) {
	c := docker.Config{
		Host: cfg.Docker.Socket, Instance: cfg.Instance, Network: cfg.Docker.Network, Pull: cfg.Docker.Pull,
		Version: version.Release, Logger: log,
		Scratch: filepath.Join(cfg.DataDir, "engine"), Self: self,
	}
	cvmfsForDocker(seen, &c)
	trustForDocker(cfg, &c)
	return docker.New(c)
}

// cvmfsForDocker adds CVMFS to what sessions see.
func cvmfsForDocker(d cvmfs.Directory, cfg *docker.Config) {
	if d.Path() != "" {
		mount := docker.Mount{Source: d.Path(), Target: cvmfs.Inside, ReadOnly: true, Propagation: "rslave"}
		cfg.Mounts = append(cfg.Mounts, mount)
		cfg.Outlook = d.Outlook
	}
}
