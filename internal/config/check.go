package config

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"slipway/internal/errs"
	"slipway/internal/loopback"
	"slipway/internal/units"
)

const (
	leastJobDisk = 10e6    // of a job
	tokenLength  = 24      // least characters of a secret
	lastUID      = 1 << 30 // some tools take greater ids for negative ones
	overflowUID  = 65534   // what the kernel shows for an id that it cannot map
)

// Check finds everything that is wrong and can be found without doing anything: all of it at once, each with its place
// and what would be right.
func (c Config) Check() error {
	var p problems
	if !listenable(c.Listen) {
		p.add("listen", c.Listen, "an address with a port up to 65535, such as 127.0.0.1:8090")
	}
	p.absolute("data_dir", c.DataDir)
	p.absolute("users.homes", c.Users.Homes)
	p.absolute("docker.socket", c.Docker.Socket)
	if u := c.Users.UIDs; u.First < 1000 || u.Last < u.First || u.Last > lastUID ||
		u.First <= overflowUID && overflowUID <= u.Last {
		p.add(
			"users.uids", u,
			fmt.Sprintf("a range from 1000 to %d without %d, which stands for nobody", lastUID, overflowUID),
		)
	}
	if c.Users.GID < 1 {
		p.add("users.gid", c.Users.GID, "the id of a group that owns nothing on the host, such as 100")
	}
	if c.Local.MaxJobs < 1 {
		p.add("local.max_jobs", c.Local.MaxJobs, "1 or more")
	}
	if n := c.Local.Network; n != "outward" && n != "none" && n != "host" {
		p.add(
			"local.network", n,
			"outward (other hosts, and nothing of this one), none, or host (also this host's own services: unsafe)",
		)
	}
	for i, service := range c.Local.Reach {
		if !dialable(service) {
			p.add(
				fmt.Sprintf("local.reach[%d]", i), service,
				"a name or address of this host and a port, such as localhost:3128",
			)
		}
	}
	if c.Local.MaxDisk != 0 && c.Local.MaxDisk < leastJobDisk {
		p.add(
			"local.max_disk", units.DiskWords(int64(c.Local.MaxDisk)),
			"none, or "+units.DiskWords(leastJobDisk)+" or more: what a job writes of its own accord takes some",
		)
	}
	if c.Instance == "" {
		p.add("instance", "", "a word that tells this service from others on the same host")
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		p.add("tls", c.TLS.Cert+c.TLS.Key, "both cert and key, or neither")
	}
	if info, err := os.Stat(c.TLS.Key); c.TLS.Key != "" && err == nil && info.Mode().Perm()&0o007 != 0 {
		p.add(
			"tls.key", c.TLS.Key,
			fmt.Sprintf("a file that not everybody can read (it has mode %04o): chmod o= it", info.Mode().Perm()),
		)
	}
	c.checkPlainHTTP(&p)
	c.checkTrustedProxies(&p)
	c.checkUplink(&p)
	c.checkHubs(&p)
	c.checkProfiles(&p)
	c.checkGPU(&p)
	c.checkBackends(&p)
	c.checkJobs(&p)
	c.checkKernels(&p)
	c.checkEnvironments(&p)
	c.checkPlaces(&p)
	c.checkSSH(&p)
	c.checkVSCode(&p)
	c.checkStorage(&p)
	c.checkCredentials(&p)
	c.checkX509(&p)
	c.checkUsers(&p)
	c.checkGroups(&p)
	c.checkIdentities(&p)
	c.checkCVMFS(&p)
	c.checkStacks(&p)
	c.checkHomes(&p)
	c.checkAreas(&p)
	return errors.Join(p...)
}

// checkPlainHTTP refuses plain HTTP that other hosts reach, where nobody says that it is meant: tokens and cookies go
// through it.
func (c Config) checkPlainHTTP(p *problems) {
	if c.TLS.Cert != "" || c.TLS.Key != "" || c.AllowPlainHTTP {
		return
	}
	const remedy = "an address of this host alone, such as 127.0.0.1:8090; or `tls` with a certificate; or, behind a proxy that ends TLS on a network " +
		"of its own, allow_plain_http: true. As it is users' tokens and cookies would pass in clear text"
	for field, address := range c.addresses() {
		if host, _, _ := net.SplitHostPort(address); listenable(address) && !loopback.Is(host) {
			p.add(field, address, remedy)
		}
	}
}

// addresses yields where HTTP is served, by key.
func (c Config) addresses() iter.Seq2[string, string] {
	return func(yield func(field, address string) bool) {
		if !yield("listen", c.Listen) {
			return
		}
		for i, h := range c.Hubs {
			if h.Listen != "" && !yield(fmt.Sprintf("hubs[%d].listen", i), h.Listen) {
				return
			}
		}
	}
}

func (c Config) checkTrustedProxies(p *problems) {
	checkNetworks(p, "trusted_proxies", c.TrustedProxies)
	for i, text := range c.TrustedProxies {
		if n, err := parsePrefix(text); err == nil && n.Bits() == 0 {
			p.add(fmt.Sprintf("trusted_proxies[%d]", i), text, "the addresses of your proxies alone: what they say of a visitor's address is believed, and this is everybody")
		}
	}
}

// listenable says whether one can listen at an address, as far as can be told from it: its port is a number, 0 for any
// that is free.
func listenable(address string) bool {
	_, port, err := net.SplitHostPort(address)
	_, bad := strconv.ParseUint(port, 10, 16)
	return err == nil && bad == nil
}

// dialable says whether an address has a host, and a port that something may listen at.
func dialable(address string) bool {
	host, port, err := net.SplitHostPort(address)
	return err == nil && host != "" && isPort(port)
}

func isPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// problems gathers what is wrong.
type problems []error

func (p *problems) add(field string, value any, remedy string) {
	*p = append(*p, errs.Bad(field, value, remedy))
}

// file adds what is wrong with a file, and of one that is not there says just that.
func (p *problems) file(field, file, remedy string) {
	if _, err := os.Stat(file); file != "" && errors.Is(err, fs.ErrNotExist) {
		*p = append(*p, &errs.Error{
			Kind: errs.Invalid, Field: field, Message: field + ": there is no file " + file, Remedy: remedy,
		})
		return
	}
	p.add(field, file, remedy)
}

func (p *problems) absolute(field, path string) {
	if !filepath.IsAbs(path) {
		p.add(field, path, "an absolute path")
	}
}
