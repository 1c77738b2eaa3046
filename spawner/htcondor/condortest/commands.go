package condortest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// wrapper runs the command of its own name at the access point: in the machine's namespaces, with the caller's working directory, and
// of the caller's environment with HTCondor's variables alone.
const wrapper = `#!/bin/bash
read -r pid <'%s'
for name in $(compgen -e); do
  case $name in _CONDOR_* | BEARER_TOKEN_FILE | CONDOR_CONFIG) ;; *) unset "$name" ;; esac
done
export %s HOME=/root LANG=C.UTF-8
exec /usr/bin/nsenter --target "$pid" --mount --uts --ipc --net --wdns="$(pwd)" -- "${0##*/}" "$@"
`

// makeCommands writes a wrapper, and a link to it for each of HTCondor's commands.
func (p *Pool) makeCommands(Options) error {
	first := filepath.Join(p.Bin, ".enter")
	text := fmt.Sprintf(wrapper, filepath.Join(p.etc(), Main+".pid"), machinePath)
	if err := os.WriteFile(first, []byte(text), 0o755); err != nil {
		return err
	}
	out, err := p.machines[Main].run("find", "/usr/bin", "/usr/sbin", "-name", "condor_*")
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(out) {
		if err := os.Symlink(first, filepath.Join(p.Bin, path.Base(name))); err != nil {
			return err
		}
	}
	return nil
}
