package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"slipway/internal/errs"
)

// Check runs Apptainer and looks for what it and the limits need of the kernel.
func (b *Backend) Check(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errs.New(errs.Missing, "local jobs need root, this is uid %d", os.Geteuid()).
			With("run the service as root")
	}
	program, err := b.program()
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, program, "--version").CombinedOutput(); err != nil {
		return errs.New(errs.Missing, "%s --version: %w: %s", program, err, strings.TrimSpace(string(out))).
			With("install it again with /usr/share/slipway/deploy/apptainer/install")
	}
	if err := configured(ctx, program); err != nil {
		return err
	}
	if missing := b.groups.Missing(); len(missing) > 0 {
		return errs.New(
			errs.Missing, "this host has no control of %s for groups of processes", strings.Join(missing, ", "),
		).With("start the kernel with these control groups enabled")
	}
	if err := b.host.check(); err != nil {
		return err
	}
	_, err = b.networkPrograms()
	return err
}

// configured looks for Apptainer's configuration file: without it, it tells its version and starts nothing.
func configured(ctx context.Context, program string) error {
	out, err := exec.CommandContext(ctx, program, "buildcfg", "APPTAINER_CONF_FILE").Output()
	if err != nil {
		return nil // one that does not tell where it lies
	}
	path := strings.TrimSpace(string(out))
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return errs.New(errs.Missing, "Apptainer's configuration %s is not there, and no job can start", path).
			With("install Apptainer again, with its configuration (dpkg keeps files removed: --force-confmiss)")
	}
	return nil
}

// host is the file tree in which to look for what the kernel offers.
type host struct{ root string }

// check looks for what a user needs for a container without root's rights.
func (h host) check() error {
	for _, s := range switches() {
		data, err := os.ReadFile(filepath.Join(h.root, s.file))
		if err != nil {
			continue // not every kernel has it
		}
		if strings.TrimSpace(string(data)) == s.off {
			return errs.New(errs.Missing, "users may not make user namespaces (%s is %s)", s.file, s.off).
				With(fmt.Sprintf("sysctl -w %s, and the same in /etc/sysctl.d", s.remedy))
		}
	}
	fuse, err := os.Stat(filepath.Join(h.root, "/dev/fuse"))
	if err != nil {
		return errs.New(errs.Missing, "this host has no /dev/fuse, by which users mount images").With("modprobe fuse")
	}
	if fuse.Mode().Perm()&0o006 != 0o006 {
		return errs.New(
			errs.Missing, "users may not open /dev/fuse (its mode is %#o), by which they mount images",
			fuse.Mode().Perm(),
		).With("chmod 666 /dev/fuse")
	}
	return nil
}

// toggle is a kernel setting that forbids what Apptainer needs when it has a certain value.
type toggle struct{ file, off, remedy string }

func switches() []toggle {
	return []toggle{
		{"/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=10000"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"},
		{
			"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
			"kernel.apparmor_restrict_unprivileged_userns=0",
		},
	}
}
