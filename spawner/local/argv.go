package local

import (
	"maps"
	"os"
	"slices"
	"strconv"

	"slipway/internal/agent/control"
)

// The job's sources, as they lie in the job's own mount namespace. Enter binds them here before it gives up root's
// rights, so Apptainer, which runs as the user, needs no way to where they really lie; and their names hold nothing
// that Apptainer's options could take for syntax.
const (
	stage        = "/run/slipway-job"
	stageImage   = stage + "/image"
	stageBin     = stage + "/bin"
	stageLink    = stage + "/link"
	stageRun     = stage + "/run"
	stageHome    = stage + "/home"
	stageScratch = stage + "/scratch"
	stageSecrets = stage + "/credentials" // in memory: what users sign in with elsewhere comes on no disk
	stageEtc     = stage + "/etc"         // what the job has in place of the host's
	stageHostEtc = stage + "/host-etc"    // the host's
)

// stageMount is where the mount of this number lies on the stage.
func stageMount(i int) string { return stage + "/mount" + strconv.Itoa(i) }

// argv is Apptainer's command line. The binds nest, so the outer comes first.
func (p plan) argv() []string {
	if p.isTrial() {
		return slices.Concat(p.contained(), []string{"--pwd", "/", stageImage}, p.Command)
	}
	var seen []string
	for i, m := range p.Mounts {
		bind := stageMount(i) + ":" + m.Target
		if !m.Write {
			bind += ":ro"
		}
		seen = append(seen, "--bind", bind)
	}
	return slices.Concat(p.contained(), seen, []string{
		"--bind", stageRun + ":" + control.RunDir,
		"--bind", stageBin + ":" + control.BinDir + ":ro",
		"--bind", stageLink + ":" + control.LinkDir + ":ro",
		"--bind", stageSecrets + ":" + control.CredentialsDir,
		"--pwd", control.RunDir,
	}, p.gpuArgs(), []string{
		stageImage,
		p.Agent, "agent",
	})
}

// contained is what holds for whatever runs.
func (p plan) contained() []string {
	args := []string{
		p.Apptainer, "--quiet", "exec",
		"--userns", // never a program with root's rights, even where one is installed
		"--contain", "--pid", "--ipc", "--cleanenv",
		"--no-eval",                    // values are not shell text
		"--no-mount", "bind-paths,cwd", // whatever the administrator lets other containers see
		"--workdir", stageScratch, // /tmp and /var/tmp on disk, not in 64 MB of memory
		"--home", stageHome + ":" + p.Account.Home,
	}
	if _, err := os.Stat(hosts); err != nil { // then there is nothing to find
		return args
	}
	return append(args, "--bind", hosts+":"+hosts+":ro")
}

// hosts has the names that this host knows by itself, localhost first. Those of images are empty, or of where they were
// made; and it is among the paths that the administrator lets containers see. The name servers are told by Apptainer
// itself.
const hosts = "/etc/hosts"

// environ is Apptainer's own environment. What has the prefix reaches the job, without it.
func (p plan) environ() []string {
	const job = "APPTAINERENV_"
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LANG=C.UTF-8",
		"HOME=" + stageScratch,
		"APPTAINER_CONFIGDIR=" + stageScratch + "/.apptainer",
		"APPTAINER_CACHEDIR=" + stageScratch + "/.apptainer/cache",
		"APPTAINER_TMPDIR=" + stageScratch,
		"APPTAINER_NO_NV=true", "APPTAINER_NO_ROCM=true", // whatever the administrator gives other containers
	}
	if !p.isTrial() {
		env = append(env, job+"APPEND_PATH="+control.BinDir, job+control.IDEnv+"="+p.ID)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		if name != "HOME" {
			env = append(env, job+name+"="+p.Env[name])
		}
	}
	given := p.gpuEnv()
	for _, name := range slices.Sorted(maps.Keys(given)) {
		env = append(env, job+name+"="+given[name])
	}
	return env
}

// reserved reports whether a variable of that name would not arrive as it is: the shell that starts a container's
// program keeps these for itself, and the prefixes change PATH.
func reserved(name string) bool {
	return slices.Contains([]string{
		"APPEND_PATH", "PREPEND_PATH", "PWD", "OLDPWD", "SHLVL", "IFS", "PS1", "PROMPT_COMMAND", "UID", "EUID", "GID",
		"PPID", "OPTIND", "_",
	}, name)
}
