package kernelproxy

import (
	"context"
	"os/exec"
	"strings"
)

// lookup is Python for "has it, outside of the home": a kernel has the same home. It imports nothing of what it looks
// for.
const lookup = `import importlib.metadata as metadata, importlib.util as util, os, sys
name = sys.argv[1]
found = util.find_spec(name)
place = found and (found.origin if found.has_location else next(iter(found.submodule_search_locations or ()), ""))
home = os.path.join(os.path.realpath(os.path.expanduser("~")), "")
if not place or os.path.realpath(place).startswith(home):
    sys.exit(1)
for package in metadata.packages_distributions().get(name, ())[:1]:
    print(metadata.version(package))
`

// SessionHas reports whether the session's Python has a module that a freeze would take along, and in which version.
func SessionHas(ctx context.Context, module string) (version string, has bool) {
	c := exec.CommandContext(ctx, "python3", "-c", lookup, module)
	c.Dir = "/" // where Python looks as well
	out, err := c.Output()
	return strings.TrimSpace(string(out)), err == nil
}
