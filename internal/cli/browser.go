package cli

import (
	"net/url"
	"os/exec"
	"runtime"
)

// openBrowser has the system open a page, if it can: its address was shown anyway.
func openBrowser(env Env, address string) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return
	}
	argv := map[string][]string{
		"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"},
	}[runtime.GOOS]
	if argv == nil && env.Getenv("DISPLAY")+env.Getenv("WAYLAND_DISPLAY") != "" {
		argv = []string{"xdg-open"}
	}
	if argv == nil {
		return
	}
	c := exec.Command(argv[0], append(argv[1:], u.String())...) // without a context: the browser outlives the login
	if c.Start() == nil {
		_ = c.Process.Release()
	}
}
