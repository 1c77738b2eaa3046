package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// handID is nobody's, and the number of nobody's group.
const handID = 65534

// byHand is what somebody who has an account here would type to run a program in the image, and as much apart from the
// host as a job is.
func (s *site) byHand(ctx context.Context, o options, scratch string, argv ...string) *exec.Cmd {
	all := s.byHandArgv(o, scratch, argv...)
	return s.asUser(ctx, scratch, all[0], all[1:]...)
}

func (s *site) byHandArgv(o options, scratch string, argv ...string) []string {
	return append([]string{
		o.apptainer, "--quiet", "exec", "--userns", "--contain", "--pid", "--ipc", "--cleanenv", "--no-eval",
		"--no-mount", "bind-paths,cwd",
		"--workdir", scratch, "--home", filepath.Join(scratch, "home") + ":/home/" + user, s.sif,
	}, argv...)
}

// enter puts a shell into a control group, and has it become a program of an account: GROUP ID PROGRAM ARGUMENTS...
const enter = `group=$1 id=$2; shift 2
for root in /sys/fs/cgroup/cpu /sys/fs/cgroup/cpuacct /sys/fs/cgroup; do
  if [ -e "$root/$group/cgroup.procs" ]; then echo $$ >"$root/$group/cgroup.procs"; fi
done
exec setpriv --reuid "$id" --regid "$id" --clear-groups -- "$@"`

// asUser runs a program as an account that any host knows, for Apptainer wants a known one, and nothing of this
// program's environment. It is in a control group beside those of jobs: what else the machine does takes as much from
// it as from them.
func (s *site) asUser(ctx context.Context, scratch, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(
		ctx, "/bin/sh",
		slices.Concat([]string{"-c", enter, "sh", s.handGroup(), strconv.Itoa(handID), program}, args)...,
	)
	cmd.Dir = "/"
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=" + scratch,
		"APPTAINER_CONFIGDIR=" + scratch + "/.apptainer", "APPTAINER_CACHEDIR=" + scratch + "/.apptainer/cache",
		"APPTAINER_TMPDIR=" + scratch,
	}
	cmd.Stderr = os.Stderr
	return cmd
}

// copies is `xargs -P` of the same container, n times.
func (s *site) copies(ctx context.Context, o options, scratch string, n int) *exec.Cmd {
	one := s.byHandArgv(o, scratch, "true")
	args := append([]string{"-c", `seq "$1" | { n=$2; shift 2; xargs -P "$n" -I N "$@"; }`, "sh", strconv.Itoa(n), strconv.Itoa(o.atOnce)}, one...)
	return s.asUser(ctx, scratch, "/bin/sh", args...)
}

// scratch makes a directory of that account's.
func (s *site) scratch(name string) (string, error) {
	dir := filepath.Join(s.dir, name)
	for _, d := range []string{dir, filepath.Join(dir, "home")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return "", err
		}
		if err := os.Chown(d, handID, handID); err != nil {
			return "", err
		}
	}
	if err := s.makeHandGroup(); err != nil {
		return "", err
	}
	return dir, os.Chmod(filepath.Dir(s.sif), 0o711)
}
