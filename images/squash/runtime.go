package squash

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
)

// ImageConfig is the part of the OCI configuration of the *image* that an environment keeps. Never the configuration of a running
// container: its environment may hold secrets, and Env is readable in the frozen image.
type ImageConfig struct {
	Env          []string // NAME=value
	Entrypoint   []string
	Cmd          []string
	WorkingDir   string
	Architecture string            // as Go and OCI name it; the host's when empty
	Labels       map[string]string // as `apptainer inspect` shows them
}

// generatedAt is the time of every file that a freeze makes itself: equal freezes give equal bytes.
func generatedAt() time.Time { return time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) }

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ownedByRuntime are variables that belong to whoever runs the image, or that a shell refuses to assign.
var ownedByRuntime = []string{"HOME", "PWD", "OLDPWD", "SHLVL", "_", "UID", "EUID", "PPID", "BASHOPTS", "SHELLOPTS"}

const sourceEnv = `for file in /.singularity.d/env/*.sh; do
    if [ -f "$file" ]; then . "$file"; fi
done
`

// runscript is what `apptainer run` does: the command that it is given, else a shell, for whoever has only the file. What the image
// itself would start is a session's app, which needs its Hub. No login shell: /etc/profile would give it another PATH than a job has.
const runscript = `#!/bin/sh
if [ $# -gt 0 ]; then exec "$@"; fi
if [ -x /bin/bash ]; then exec /bin/bash --norc; fi
exec /bin/sh
`

// runtimeDir is made anew by every packing, so what a tree has there is not copied.
const runtimeDir = ".singularity.d"

// runtimeFiles gives the content of .singularity.d: what makes an image's Env and Labels known to Apptainer, and what it runs.
func runtimeFiles(c ImageConfig) (map[string]string, error) {
	labels, err := json.MarshalIndent(c.Labels, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode labels: %w", err)
	}
	if c.Labels == nil {
		labels = []byte("{}")
	}
	sh := "#!/bin/sh\n"
	return map[string]string{
		"actions/exec":                 sh + sourceEnv + "exec \"$@\"\n",
		"actions/run":                  sh + sourceEnv + "exec /.singularity.d/runscript \"$@\"\n",
		"actions/start":                sh + sourceEnv + "exec /.singularity.d/startscript \"$@\"\n",
		"actions/test":                 sh + sourceEnv + "exec /.singularity.d/test \"$@\"\n",
		"actions/shell":                sh + sourceEnv + "if [ -x /bin/bash ]; then exec /bin/bash --norc \"$@\"; fi\nexec /bin/sh \"$@\"\n",
		"env/10-docker2singularity.sh": sh + exports(c.Env),
		"env/90-environment.sh":        sh,
		"env/99-base.sh": sh + "LD_LIBRARY_PATH=\"${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/.singularity.d/libs\"\n" +
			"export LD_LIBRARY_PATH\n",
		"runscript":   runscript,
		"startscript": sh,
		"test":        sh,
		"labels.json": string(labels) + "\n",
	}, nil
}

// exports sets PATH as the image has it, and every other variable unless the caller of Apptainer has set it.
func exports(env []string) string {
	var b strings.Builder
	for _, entry := range env {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || !envName.MatchString(name) || slices.Contains(ownedByRuntime, name) {
			continue
		}
		if name != "PATH" {
			fmt.Fprintf(&b, "[ -n \"${%s:-}\" ] || ", name)
		}
		fmt.Fprintf(&b, "%s=%s\nexport %s\n", name, quote(value), name)
	}
	return b.String()
}

// Unexported lists the variables of an image that no run in Apptainer sees: no shell can set them, or a run sets them itself.
func Unexported(env []string) []string {
	var out []string
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		if !envName.MatchString(name) || slices.Contains(ownedByRuntime, name) {
			out = append(out, name)
		}
	}
	return out
}

// quote makes one shell word of any string without a zero byte. Within double quotes, as the interpreter that Apptainer
// reads env/*.sh with keeps the backslash of an escaped single quote.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`").Replace(s) + `"`
}

// writeRuntime makes .singularity.d in the topmost layer, hiding any that layers below have. The layer's own times stay.
func writeRuntime(layer string, c ImageConfig) error {
	files, err := runtimeFiles(c)
	if err != nil {
		return err
	}
	var root unix.Stat_t
	if err := unix.Lstat(layer, &root); err != nil {
		return fmt.Errorf("lstat %s: %w", layer, err)
	}
	top := filepath.Join(layer, runtimeDir)
	for _, dir := range []string{"", "actions", "env", "libs"} {
		if err := os.Mkdir(filepath.Join(top, dir), 0o755); err != nil {
			return fmt.Errorf("make %s: %w", runtimeDir, err)
		}
	}
	for name, content := range files {
		if err := writeGenerated(filepath.Join(top, name), content); err != nil {
			return err
		}
	}
	for _, dir := range []string{"libs", "env", "actions", ""} {
		if err := settle(filepath.Join(top, dir), 0o755); err != nil {
			return err
		}
	}
	if err := unix.Lsetxattr(top, overlayPrefix+"opaque", []byte("y"), 0); err != nil {
		return fmt.Errorf("mark %s opaque: %w", runtimeDir, err)
	}
	return tree.SetTimes(layer, &root)
}

func writeGenerated(path, content string) error {
	mode := os.FileMode(0o755)
	if filepath.Ext(path) == ".json" {
		mode = 0o644
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		return err
	}
	return settle(path, mode)
}

// settle undoes the umask and the clock.
func settle(path string, mode os.FileMode) error {
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	return os.Chtimes(path, generatedAt(), generatedAt())
}

// skeletonEntry is something that Apptainer mounts on, or that links into .singularity.d.
type skeletonEntry struct {
	path string
	mode os.FileMode // of a directory with os.ModeDir, else of an empty file
	link string
}

func skeleton() []skeletonEntry {
	dir := func(path string, mode os.FileMode) skeletonEntry {
		return skeletonEntry{path: path, mode: os.ModeDir | mode}
	}
	return []skeletonEntry{
		dir("dev", 0o755), dir("etc", 0o755), dir("home", 0o755), dir("proc", 0o555), dir("root", 0o700), dir("run", 0o755),
		dir("sys", 0o555), dir("tmp", 0o777|os.ModeSticky), dir("var", 0o755), dir("var/tmp", 0o777|os.ModeSticky),
		{path: "etc/hosts", mode: 0o644}, {path: "etc/resolv.conf", mode: 0o644},
		{path: "environment", link: ".singularity.d/env/90-environment.sh"},
		{path: "singularity", link: ".singularity.d/runscript"},
	}
}

// writeSkeleton fills the lowest layer: whatever a tree already has there covers it.
func writeSkeleton(layer string) error {
	var dirs []skeletonEntry
	for _, e := range skeleton() {
		path := filepath.Join(layer, e.path)
		if e.mode.IsDir() {
			dirs = append(dirs, e)
		}
		if err := e.create(path); err != nil {
			return fmt.Errorf("make /%s: %w", e.path, err)
		}
	}
	for _, e := range slices.Backward(dirs) {
		if err := settle(filepath.Join(layer, e.path), e.mode.Perm()|e.mode&os.ModeSticky); err != nil {
			return err
		}
	}
	return settle(layer, 0o755)
}

func (e skeletonEntry) create(path string) error {
	switch {
	case e.link != "":
		if err := os.Symlink(e.link, path); err != nil {
			return err
		}
		at := unix.Timespec{Sec: generatedAt().Unix()}
		return tree.SetTimes(path, &unix.Stat_t{Atim: at, Mtim: at})
	case e.mode.IsDir():
		return os.Mkdir(path, 0o755)
	default:
		return writeGenerated(path, "")
	}
}

// present gives those of paths that the tree has.
func present(tree *os.File, paths []string) []string {
	return slices.DeleteFunc(paths, func(path string) bool { return !exists(tree, path) })
}

// exists looks a path up as a process whose root is root would: a link in the tree never leads to the host.
func exists(root *os.File, path string) bool {
	fd, err := unix.Openat2(int(root.Fd()), path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT,
	})
	if err != nil {
		return false
	}
	return unix.Close(fd) == nil
}
