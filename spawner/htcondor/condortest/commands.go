package condortest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// wrapper runs the command of its own name at the access point: in the machine's namespaces, with the caller's working
// directory, and of the caller's environment with HTCondor's variables alone.
const wrapper = `#!/bin/bash
pool='%[1]s'
read -r pid <"$pool/%[2]s"
case $(pwd)/ in %[4]s) there=$(pwd) ;; *) there=/ ;; esac # what is elsewhere is not to be seen there
for name in $(compgen -e); do
  case $name in _CONDOR_* | BEARER_TOKEN_FILE | CONDOR_CONFIG) ;; *) unset "$name" ;; esac
done
export %[3]s HOME=/root LANG=C.UTF-8
exec /usr/bin/nsenter --target "$pid" --mount --uts --ipc --net --wdns="$there" -- "${0##*/}" "$@"
`

// makeCommands writes a wrapper, and a link to it for each of HTCondor's commands and the one that tells of the access
// point's accounts.
func (p *Pool) makeCommands(o Options) error {
	first := filepath.Join(p.Bin, ".enter")
	var seen []string
	for _, dir := range append([]string{p.Dir}, o.Share...) {
		seen = append(seen, "'"+dir+"'/*")
	}
	text := fmt.Sprintf(wrapper, p.Dir, "etc/"+Main+".pid", machinePath, strings.Join(seen, "|"))
	if err := os.WriteFile(first, []byte(text), 0o755); err != nil {
		return err
	}
	out, err := p.machines[Main].run("find", "/usr/bin", "/usr/sbin", "-name", "condor_*", "-o", "-name", "getent")
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
