package tree

import "slices"

// Rule is a strip rule with its reason, in words for users.
type Rule struct {
	Pattern string `json:"pattern"`
	Why     string `json:"why"`
}

// Reasons that many rules share.
const (
	whyMounted  = "home directories are mounted in a job, and hold what is private"
	whyKey      = "private keys, and what unlocks them"
	whyToken    = "tokens and passwords for services"
	whyHistory  = "what was typed or opened"
	whyEditor   = "state of an editor or desktop, of use in a session alone"
	whyRuntime  = "state of running programs"
	whyCache    = "a cache: it fills again"
	whyLog      = "logs"
	whyIdentity = "this host's identity"
)

// homes is where users' homes are.
const homes = "/home/*"

// DefaultRules is what never travels in an environment: what only interactive work needs, what only this host needs,
// and where secrets are kept. A pattern is a path from the root, with the wildcards of path.Match in each of its parts;
// a match on a directory takes all below it. A site adds its own; none can be taken away.
//
// Secrets in other places are found by their content (package secrets), and stop the freeze.
func DefaultRules() []Rule {
	return slices.Concat(
		rulesFor(whyMounted, homes),
		homeRules("/root"),
		rulesFor(whyRuntime, "/run/*"),
		rulesFor("temporary files: proxies, tickets and tokens among them", "/tmp/*", "/var/tmp/*"),
		rulesFor(whyCache,
			"/var/cache/apt/*.bin", "/var/cache/apt/archives/*", "/var/lib/apt/lists/*", "/var/cache/dnf", "/var/cache/yum",
			"/opt/*conda*/pkgs/*.conda", "/opt/*conda*/pkgs/*.tar.bz2", "/opt/*conda*/pkgs/cache",
			"/opt/*forge*/pkgs/*.conda", "/opt/*forge*/pkgs/*.tar.bz2", "/opt/*forge*/pkgs/cache"),
		rulesFor(
			whyLog, "/var/log/*.log", "/var/log/apt/*", "/var/log/journal/*", "/var/log/btmp", "/var/log/lastlog",
			"/var/log/wtmp",
		),
		rulesFor("mail", "/var/mail/*", "/var/spool/mail/*"),
		rulesFor(whyToken, "/etc/apt/auth.conf", "/etc/apt/auth.conf.d/*", "/var/cache/debconf/passwords.dat"),
		rulesFor(whyIdentity,
			"/etc/condor/passwords.d/*", "/etc/condor/tokens.d/*", "/etc/grid-security/hostkey.pem", "/etc/grid-security/*/*key.pem",
			"/etc/krb5.keytab", "/etc/munge/munge.key", "/etc/ssh/ssh_host_*", "/etc/ssl/private/*", "/var/lib/sss/*",
			"/var/lib/systemd/credential.secret", "/var/lib/systemd/random-seed"),
	)
}

// homeRules are those for a home directory that is part of the image. What a user installed there (.local/lib,
// .local/bin) travels.
func homeRules(home string) []Rule {
	below := func(why string, names ...string) []Rule {
		for i, name := range names {
			names[i] = home + "/" + name
		}
		return rulesFor(why, names...)
	}
	return slices.Concat(
		below(whyKey,
			".alien", ".config/oidc-agent", ".globus", ".gnupg", ".local/share/keyrings", ".local/share/jupyter/notebook_secret", ".oidc-agent",
			".password-store", ".pki", ".ssh", ".vnc/passwd", ".Xauthority", ".ICEauthority"),
		below(whyToken,
			".apptainer", ".aws", ".azure", ".boto", ".cargo/credentials*", ".condor", ".config/containers/auth.json", ".config/dask/*.pem",
			".config/gcloud", ".config/gh", ".config/git/credentials", ".config/glab-cli", ".config/kaggle", ".config/pypoetry/auth.toml",
			".config/rclone", ".config/s3cmd", ".config/wandb", ".docker", ".gem/credentials", ".git-credentials", ".gsutil", ".huggingface",
			".julia/servers", ".jupyter", ".kaggle", ".kube", ".local/share/python_keyring", ".local/share/uv/credentials", ".mc", ".my.cnf",
			".mylogin.cnf", ".netrc", ".npmrc", ".oci", ".passwd-s3fs", ".pgpass", ".pypirc", ".rclone.conf", ".rucio", ".rucio_*", ".s3cfg",
			".singularity", ".subversion/auth", ".terraform.d/credentials.tfrc.json", ".vault-token"),
		below(whyHistory,
			".Rhistory", ".bash_history", ".gdb_history", ".ipython/profile_*/history.sqlite*", ".julia/logs", ".lesshst", ".local/share/Trash",
			".local/share/fish/fish_history", ".local/share/recently-used.xbel*", ".local/state/python_history", ".mysql_history",
			".node_repl_history", ".octave_hist", ".psql_history", ".python_history", ".rdbg_history", ".recently-used*", ".root_hist",
			".sqlite_history", ".viminfo", ".wget-hsts", ".zsh_history", ".zhistory"),
		below(whyEditor,
			".config/Code", ".config/chromium", ".config/code-server", ".config/google-chrome", ".config/pulse", ".config/rstudio",
			".cursor-server", ".dbus", ".local/share/code-server", ".local/share/gvfs-metadata", ".local/share/rstudio", ".mozilla", ".rstudio",
			".rstudio-desktop", ".vscode", ".vscode-remote", ".vscode-server"),
		below(whyRuntime, ".ipython/profile_*/pid", ".ipython/profile_*/security", ".local/share/jupyter/runtime"),
		below(whyCache,
			".cache", ".cargo/registry", ".ccache", ".conda/pkgs/cache", ".npm/_cacache", ".npm/_logs", ".nv/ComputeCache", ".triton/cache",
			"go/pkg/mod"),
	)
}

func rulesFor(why string, patterns ...string) []Rule {
	list := make([]Rule, 0, len(patterns))
	for _, p := range patterns {
		list = append(list, Rule{p, why})
	}
	return list
}

// DefaultStrip returns the patterns of the default rules.
func DefaultStrip() []string {
	var list []string
	for _, r := range DefaultRules() {
		list = append(list, r.Pattern)
	}
	return list
}

// Explain returns the reasons of patterns, as a manifest lists them.
func Explain(patterns []string) []Rule {
	why := map[string]string{}
	for _, r := range DefaultRules() {
		why[r.Pattern] = r.Why
	}
	list := make([]Rule, 0, len(patterns))
	for _, p := range patterns {
		reason, ok := why[p]
		if !ok {
			reason = "a rule of the site"
		}
		list = append(list, Rule{p, reason})
	}
	return list
}
