package worker

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

// usualPath is where Apptainer is looked for, for a batch system may give a job no PATH.
const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// findApptainer returns the path of the program, or of the one that Apptainer was before it was called so.
func findApptainer(name string, env []string) (string, error) {
	names := []string{name}
	if name == "" {
		names = []string{"apptainer", "singularity"}
	}
	dirs := filepath.SplitList(variable(env, "PATH") + ":" + usualPath)
	for _, name := range names {
		if strings.Contains(name, "/") {
			dirs, name = []string{filepath.Dir(name)}, filepath.Base(name)
		}
		for _, dir := range dirs {
			if !filepath.IsAbs(dir) {
				continue
			}
			program, err := exec.LookPath(filepath.Join(dir, name))
			if err == nil {
				return program, nil
			}
		}
	}
	return "", errs.New(errs.Missing, "Apptainer is not installed on the worker node (no program %q)", names[0]).
		With("tell your administrator: the nodes that take Slipway's jobs need Apptainer")
}

// variable returns the value of a name in an environment.
func variable(env []string, name string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// argv is Apptainer's command line. The binds nest, so the outer comes first.
func (w *worker) argv(program, image string) []string {
	args := slices.Concat([]string{
		program, "--quiet", "--nocolor", "exec",
		"--userns", // never a program with root's rights, even where one is installed
		"--pid", "--ipc", "--cleanenv",
		"--no-eval", // values are not shell text
		"--home", cmp.Or(w.plan.nodeHome(), w.box.own(homeDir)) + ":" + w.plan.Home,
	}, w.contained())
	if w.plan.keepsHome() {
		// nothing is mounted there, and HOME and the user's entry in /etc/passwd say the same
		args = append(args, "--no-home")
	}
	if w.plan.GPU {
		args = append(args, "--nv")
	}
	if w.plan.Session {
		args = append(args, "--overlay", w.box.own(overlayDir))
	}
	for _, b := range w.binds() {
		args = append(args, "--bind", b)
	}
	return append(args, "--pwd", control.RunDir, image, control.Program, "agent")
}

// contained are the options that keep the node's directories out, whatever the administrator lets other containers see,
// and put /tmp and /var/tmp on disk, not into 64 MB of memory. Who shares a GPU by a daemon shares the node's /dev/shm
// with it: there is no such thing in the /dev that Apptainer makes for a container.
func (w *worker) contained() []string {
	const unwanted = "bind-paths,cwd"
	if w.daemon == "" {
		return []string{"--contain", "--no-mount", unwanted, "--workdir", w.box.own(scratchDir)}
	}
	return []string{
		"--no-mount", unwanted + ",tmp,hostfs", "--bind", w.box.own(scratchDir, tmpDir) + ":/tmp", "--bind",
		w.box.own(scratchDir, varTmpDir) + ":/var/tmp",
	}
}

// hosts is where programs find localhost without asking a name server. Those of images are empty, or of where they were
// made.
const hosts = "/etc/hosts"

func (w *worker) binds() []string {
	list := []string{
		w.box.own(runDir) + ":" + control.RunDir,
		w.box.own(binDir) + ":" + control.BinDir + ":ro",
		w.box.path(LinkDir) + ":" + control.LinkDir + ":ro",
	}
	if w.plan.Session {
		list = append(list, w.box.own(overlayDir)+":"+control.OverlayDir)
	}
	if _, err := os.Stat(hosts); err == nil {
		list = append(list, hosts+":"+hosts+":ro")
	}
	if w.daemon != "" {
		list = append(list, w.daemon)
	}
	for _, dir := range w.plan.Binds {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			list = append(list, dir)
		}
	}
	return list
}

// The variables by which a batch system says which GPUs are a job's.
const (
	visibleGPUs   = "CUDA_VISIBLE_DEVICES"
	visibleNVIDIA = "NVIDIA_VISIBLE_DEVICES"
	sharedGPU     = "CUDA_MPS_PIPE_DIRECTORY"
)

// shared is where the daemon listens by which several jobs share a GPU, if there is one; empty: there is none. It
// shares memory with them as well. Whose GPU's work a stranger's daemon would see is refused.
func (w *worker) shared() (string, error) {
	dir := variable(w.cfg.Env, sharedGPU)
	if !w.plan.GPU || !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || strings.ContainsAny(dir, ":,\\\"'\n") {
		return "", nil
	}
	_, err := trusted(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", errs.New(
			errs.Forbidden, "the daemon by which jobs of the worker node share a GPU may be another user's: %w", err,
		).With(administrator + ": the directory in " + sharedGPU + " must be root's, or of the run's user alone")
	}
	return dir, nil
}

var validName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// passes reports whether a variable of that name arrives as it is, and is anybody's to set: the shell that starts a
// container's program keeps some for itself. The app is given the others by its agent.
func passes(name string) bool {
	own := []string{
		"HOME", "USER", "LOGNAME", control.IDEnv, visibleGPUs,
		"PWD", "OLDPWD", "SHLVL", "IFS", "PS1", "PROMPT_COMMAND", "UID", "EUID", "GID", "PPID", "OPTIND", "_",
	}
	for _, prefix := range []string{"APPTAINER", "SINGULARITY", "APPEND_PATH", "PREPEND_PATH", "NVIDIA_", "CUDA_MPS_"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return validName.MatchString(name) && !slices.Contains(own, name)
}

// environ is Apptainer's own environment. What has the prefix reaches the run, without it.
func (w *worker) environ() []string {
	const inside = "APPTAINERENV_"
	scratch := w.box.own(scratchDir)
	env := []string{
		"PATH=" + usualPath,
		"LANG=C.UTF-8",
		"HOME=" + scratch,
		"APPTAINER_CONFIGDIR=" + filepath.Join(scratch, ".apptainer"),
		"APPTAINER_CACHEDIR=" + filepath.Join(scratch, ".apptainer/cache"),
		"APPTAINER_TMPDIR=" + scratch,
		"APPTAINER_NO_ROCM=true",
		inside + "APPEND_PATH=" + control.BinDir,
		inside + control.IDEnv + "=" + w.plan.ID,
		inside + "USER=" + w.plan.Login,
		inside + "LOGNAME=" + w.plan.Login,
	}
	for _, name := range slices.Sorted(maps.Keys(w.plan.Env)) {
		if passes(name) {
			env = append(env, inside+name+"="+w.plan.Env[name])
		}
	}
	if !w.plan.GPU {
		return append(env, "APPTAINER_NO_NV=true", inside+visibleNVIDIA+"=void")
	}
	given := variable(w.cfg.Env, visibleGPUs)
	if given != "" {
		// what HTCondor before 24.0.19 says in the latter is wrong
		env = append(env, inside+visibleGPUs+"="+given, inside+visibleNVIDIA+"="+given)
	}
	for _, kv := range w.cfg.Env {
		if strings.HasPrefix(kv, "CUDA_") && !strings.HasPrefix(kv, visibleGPUs+"=") {
			env = append(env, inside+kv)
		}
	}
	return env
}
