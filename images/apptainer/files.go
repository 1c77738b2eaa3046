// Package apptainer knows what an image needs so that Apptainer runs it as an engine would: the files of
// /.singularity.d.
package apptainer

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ImageConfig is the part of the OCI configuration of the *image* that an environment keeps. Never the configuration of
// a running container: its environment may hold secrets, and Env is readable in the frozen image.
type ImageConfig struct {
	Env          []string // NAME=value
	Entrypoint   []string
	Cmd          []string
	WorkingDir   string
	Architecture string            // as Go and OCI name it; the host's when empty
	Labels       map[string]string // as `apptainer inspect` shows them
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ownedByRuntime are variables that belong to whoever runs the image, or that a shell refuses to assign.
var ownedByRuntime = []string{"HOME", "PWD", "OLDPWD", "SHLVL", "_", "UID", "EUID", "PPID", "BASHOPTS", "SHELLOPTS"}

const sourceEnv = `for file in /.singularity.d/env/*.sh; do
    if [ -f "$file" ]; then . "$file"; fi
done
`

// runscript is what `apptainer run` does: the command that it is given, else a shell, for whoever has only the file.
// What the image itself would start is a session's app, which needs its Hub. No login shell: /etc/profile would give it
// another PATH than a job has.
const runscript = `#!/bin/sh
if [ $# -gt 0 ]; then exec "$@"; fi
if [ -x /bin/bash ]; then exec /bin/bash --norc; fi
exec /bin/sh
`

// Files returns the content of /.singularity.d by path below it: what makes an image's Env and Labels known to
// Apptainer, and what it runs. All of them are programs, but for those that end in .json.
func Files(c ImageConfig) (map[string]string, error) {
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

// Unexported lists the variables of an image that no run in Apptainer sees: no shell can set them, or a run sets them
// itself.
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
