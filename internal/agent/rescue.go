package agent

import (
	"fmt"
	"os"
	"path/filepath"

	"slipway/internal/agent/control"
)

// rescueReadMe is for who opens a session to make room.
const rescueReadMe = `This is a rescue session: your home is in its usual place, and may be full.

What JupyterLab, IPython, VS Code and shells keep by themselves lies in memory here (%s)
and goes with the session. Your settings and history of other sessions are left as they are.

  slipway quota         how much you may have, and how much you use
  slipway home usage    what is big in your home
  rm, mv                make room; then stop this session and start your usual one

What you delete in JupyterLab is gone at once here: there is no waste basket.
`

// rescueEnv tells programs that they are in a rescue session, and where it is explained.
const rescueEnv = "SLIPWAY_RESCUE"

// rescued points what programs keep in a home to a directory in memory, as far as they can be told where. What the
// user's start names itself stays. JupyterLab's waste basket would be in the home: it deletes at once.
func rescued(env map[string]string, dir string) {
	for name, at := range map[string]string{
		"XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data", "XDG_STATE_HOME": "state",
		"JUPYTER_RUNTIME_DIR": "jupyter/runtime", "JUPYTER_CONFIG_DIR": "jupyter/config",
		"JUPYTER_DATA_DIR":        "jupyter/data",
		"JUPYTERLAB_SETTINGS_DIR": "jupyter/lab/settings", "JUPYTERLAB_WORKSPACES_DIR": "jupyter/lab/workspaces",
		"IPYTHONDIR": "ipython", "MPLCONFIGDIR": "matplotlib", "PYTHONPYCACHEPREFIX": "pycache",
		"HISTFILE": "history", "PYTHON_HISTORY": "python_history", "SQLITE_HISTORY": "sqlite_history",
		"LESSHISTFILE": "less_history", "NODE_REPL_HISTORY": "node_history",
	} {
		env[name] = filepath.Join(dir, at)
	}
	env[rescueEnv] = filepath.Join(dir, "README.txt")
}

// prepareRescue makes the directory and what stands in it.
func prepareRescue(dir string) error {
	for _, name := range []string{"jupyter/runtime", "jupyter/config", "ipython", "config", "data", "cache", "state"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return fmt.Errorf("make the directory of a rescue session: %w", err)
		}
	}
	config := `{"FileContentsManager": {"delete_to_trash": false}}` + "\n"
	for name, text := range map[string]string{
		"README.txt": fmt.Sprintf(rescueReadMe, dir), "jupyter/config/jupyter_server_config.json": config,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("make the directory of a rescue session: %w", err)
		}
	}
	return nil
}

// rescueDir returns where what the home cannot take is kept; it is there for a rescue session alone.
func rescueDir(cfg Config, app control.App) string {
	if !app.Rescue {
		return ""
	}
	return filepath.Join(filepath.Dir(cfg.CodeDir), filepath.Base(control.RescueDir))
}

// keepsIn returns where programs may keep settings for their user: her home, or nowhere in a rescue session.
func keepsIn(env []string) string {
	if variable(env, rescueEnv) != "" {
		return ""
	}
	return variable(env, "HOME")
}
