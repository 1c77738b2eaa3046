package secretscan

import (
	"bytes"
	"path"
	"regexp"
	"strings"
)

// nameRule looks into files whose name says what they hold, as the program that owns them reads them.
type nameRule struct {
	base string // a pattern of path.Match for the last part of the path
	in   string // what the directory's path must hold; empty for any
	look func(v view) []hit
}

// nameRules lists them, with the manual that describes each file.
func nameRules() []nameRule {
	url := pattern(URLPassword, `[a-z+]+://[^/\s:@'"]+:([^/\s@'"]+)@`)
	sss := pattern(XRootDKeytab, `(?m)^\s*\d+\s[^\n]*\bk:([0-9a-f]{32,})`)
	return []nameRule{
		// GNU inetutils, "The .netrc file". wandb, curl and DVC keep keys in it as well.
		{".netrc", "", netrc}, {"_netrc", "", netrc}, {"netrc", "", netrc},
		// PostgreSQL, "The Password File"; MySQL, "Option Files".
		{".pgpass", "", pattern(Password, `(?m)^[^#:\n][^:\n]*:[^:\n]*:[^:\n]*:[^:\n]*:([^\n]+)$`)},
		{".my.cnf", "", pattern(Password, `(?m)^\s*password\s*=\s*"?([^"\s]+)`)},
		// git-credential-store(1), git-config(1): a remote's URL.
		{".git-credentials", "", url}, {"credentials", "/git/", url}, {".gitconfig", "", url},
		{"config", ".git/", url}, {"gitconfig", "/etc/", url},
		// pip, "Configuration" and "Authentication"; conda, "Configuration"; uv, "Authentication"; poetry,
		// "Repositories".
		{"pip.conf", "", url}, {"requirements*.txt", "", url}, {"uv.toml", "", url}, {"Pipfile", "", url},
		{".condarc", "", condarc(url)}, {"condarc", "", condarc(url)}, {".mambarc", "", condarc(url)},
		{".pypirc", "", pattern(Password, `(?m)^\s*password\s*[=:]\s*(\S+)`)},
		{"auth.toml", "/pypoetry/", pattern(Password, `(?m)^\s*password\s*=\s*"([^"]+)"`)},
		// npm, ".npmrc"; Yarn, ".yarnrc.yml"; Cargo, "Credentials"; apt_auth.conf(5) (a netrc).
		{".npmrc", "", pattern(NPM, `(?m)^[^#;\n]*:_(?:authToken|password|auth)\s*=\s*(\S+)`)},
		{".yarnrc.yml", "", pattern(NPM, `(?m)^\s*npmAuthToken:\s*"?([^"\s]+)`)},
		{"credentials.toml", "/.cargo/", pattern(ServiceKey, `(?m)^\s*token\s*=\s*"([^"]+)"`)},
		{"auth.conf", "/apt/", netrc}, {"*.conf", "/apt/auth.conf.d/", netrc}, {"*.list", "/apt/", url},
		// HashiCorp, Vault's token helper; htgettoken(1) writes vt_uUID.
		{".vault-token", "", alone(Vault, 20)}, {"vt_u*", "", alone(Vault, 20)},
		// PKCS #12: the certificate and key as a browser exports them.
		{"*.p12", "", stored}, {"*.pfx", "", stored},
		// Kubernetes, "Organizing Cluster Access Using kubeconfig Files".
		{"config", "/.kube/", kube}, {"kubeconfig", "", kube}, {"*.kubeconfig", "", kube},
		{"kubeconfig.y*ml", "", kube},
		// rclone, "Configuration encryption": what it obscures can be read back. s3cmd, boto, s3fs, the MinIO client,
		// davfs2.
		{"rclone.conf", "", pattern(StorageKey, `(?m)^\s*(?:pass|password2?|token|secret_access_key|bearer_token|key|client_secret)\s*=\s*(\S+)`)},
		{".s3cfg", "", pattern(StorageKey, `(?m)^\s*secret_key\s*=\s*(\S+)`)},
		{".boto", "", pattern(StorageKey, `(?m)^\s*(?:aws|gs)_secret_access_key\s*=\s*(\S+)`)},
		{"*passwd-s3fs", "", pattern(StorageKey, `(?m)^[^#:\n][^:\n]*:([^\n:]{16,})$`)},
		{"config.json", "/.mc/", pattern(StorageKey, `"secretKey"\s*:\s*"([^"]+)"`)},
		// Kaggle's API, "Authentication".
		{"kaggle.json", "", pattern(ServiceKey, `"key"\s*:\s*"([0-9a-f]{32})"`)},
		// XRootD, security reference, "Simple shared secrets"; rucio, "Configuration"; HTCondor, "Security", pool
		// password.
		{"*keytab", "", sss}, {"*keytab.grp", "", sss},
		{"rucio.cfg", "", pattern(Password, `(?m)^\s*password\s*=\s*(\S+)`)},
		{"*", "/passwords.d/", whole(ServiceKey, 1)}, {"pool_password", "", whole(ServiceKey, 1)},
		// MUNGE, munged(8); JupyterHub, "Security", cookie secret.
		{"munge.key", "", whole(ServiceKey, 32)}, {"jupyterhub_cookie_secret", "", whole(JupyterHub, 32)},
		// Jupyter Server and JupyterHub, "Config file and command line options".
		{"jupyter_*config*.py", "", jupyter}, {"jupyter_*config*.json", "", jupyter},
		{"jupyterhub_config*.py", "", jupyter},
		// code-server, "FAQ", config.yaml.
		{"config.yaml", "/code-server/", pattern(ProgramPassword, `(?m)^\s*password:\s*"?([^"\s#]+)`)},
	}
}

// byName are name rules, ordered for the look at many files: those for one name, and the patterns.
type byName struct {
	exact    map[string][]nameRule
	patterns []nameRule
}

func newByName(rules []nameRule) byName {
	n := byName{exact: map[string][]nameRule{}}
	for _, r := range rules {
		if strings.ContainsAny(r.base, "*?[") {
			n.patterns = append(n.patterns, r)
			continue
		}
		n.exact[r.base] = append(n.exact[r.base], r)
	}
	return n
}

// search returns what the rules find in v by its name.
func (n byName) search(v view) (hits []hit) {
	dir, base := path.Split(v.path)
	for _, rules := range [][]nameRule{n.exact[base], n.patterns} {
		for i := range rules {
			if rules[i].matches(dir, base) {
				hits = append(hits, rules[i].look(v)...)
			}
		}
	}
	return hits
}

func (r *nameRule) matches(dir, base string) bool {
	if r.in != "" && !strings.Contains(dir, r.in) {
		return false
	}
	// path.Match costs more than the rest of the search in a small file: most names differ from the pattern at an end.
	if !strings.HasPrefix(base, r.base[:strings.IndexAny(r.base+"*", "*?[")]) || !strings.HasSuffix(base, r.base[strings.LastIndexAny(r.base, "*?]")+1:]) {
		return false
	}
	ok, err := path.Match(r.base, base)
	return err == nil && ok
}

// pattern finds values: what the expression's group matches, unless it is a placeholder.
func pattern(k Kind, expression string) func(v view) []hit {
	re := regexp.MustCompile(expression)
	return func(v view) []hit {
		var hits []hit
		for _, m := range re.FindAllSubmatchIndex(v.content, maxHits) {
			if !placeholder(v.content[m[2]:m[3]]) {
				hits = append(hits, hit{k, m[2]})
			}
		}
		return hits
	}
}

// condarc also finds Anaconda's tokens, which stand in channels' paths.
func condarc(url func(v view) []hit) func(v view) []hit {
	token := pattern(URLPassword, `://[^\s/]+/t/([A-Za-z0-9-]{8,})/`)
	return func(v view) []hit { return append(url(v), token(v)...) }
}

func jupyter(v view) []hit {
	const names = `(?:api_|auth_|[a-z]*\.)?token|client_secret|cookie_secret|secret_key|crypt_keys?`
	values := pattern(JupyterConfig, `(?m)^[^#\n]*?(?:\b|_)(?:`+names+`)['"]?\s*[:=]\s*\[?[brfu]?['"]([^'"\s]{8,})['"]`)
	return values(v)
}

func kube(v view) []hit {
	if !bytes.Contains(v.content, []byte("users")) {
		return nil
	}
	return pattern(KubeConfig, `(?m)^[\s-]*"?(?:token|password|client-key-data)"?:\s*"?([^"\s,#]+)`)(v)
}

func stored(v view) []hit {
	if keyStore(v.content) {
		return []hit{{KeyStore, -1}}
	}
	return nil
}

// alone finds a file that is one word of at least so many characters.
func alone(k Kind, length int) func(v view) []hit {
	return func(v view) []hit {
		word := bytes.TrimSpace(v.content)
		if len(word) < length || bytes.ContainsAny(word, " \t\n\x00") || placeholder(word) {
			return nil
		}
		return []hit{{k, 0}}
	}
}

// whole finds a file of at least so many bytes, whatever they are.
func whole(k Kind, length int) func(v view) []hit {
	return func(v view) []hit {
		if len(bytes.TrimSpace(v.content)) < length {
			return nil
		}
		return []hit{{k, -1}}
	}
}

// netrc reads words as ftp(1) does: machine NAME or default, then login, password and account with their values.
// macdef's lines end with an empty one.
func netrc(v view) []hit {
	var hits []hit
	machine := false
	for next := words(v.content); ; {
		word, _ := next()
		switch string(word) {
		case "":
			return hits
		case "machine":
			next()
			machine = true
		case "default":
			machine = true
		case "login", "account":
			next()
		case "password":
			if word, at := next(); machine && !placeholder(word) && len(hits) < maxHits {
				hits = append(hits, hit{Netrc, at})
			}
		}
	}
}

// words returns the words of text one by one, less comments, and where each begins; an empty one at the end.
func words(text []byte) func() ([]byte, int) {
	at := 0
	return func() ([]byte, int) {
		for at < len(text) {
			switch {
			case bytes.IndexByte([]byte(" \t\r\n"), text[at]) >= 0:
				at++
			case text[at] == '#' && (at == 0 || text[at-1] == '\n'):
				_, rest, _ := bytes.Cut(text[at:], []byte("\n"))
				at = len(text) - len(rest)
			default:
				begin := at
				for at < len(text) && bytes.IndexByte([]byte(" \t\r\n"), text[at]) < 0 {
					at++
				}
				return text[begin:at], begin
			}
		}
		return nil, at
	}
}
