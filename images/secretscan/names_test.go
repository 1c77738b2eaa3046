package secretscan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFoundByName(t *testing.T) {
	value := random(50, 24, base62)
	url := "https://alice:" + value + "@example.org/x\n"
	digits := random(51, 64, alphabetHex)
	for path, c := range map[string]struct {
		text string
		want []Finding
	}{
		"/opt/.netrc":               {"# mine\nmachine a.example\n  login x\n  password " + value + "\n", []Finding{{Kind: Netrc, Line: 4}}},
		"/srv/_netrc":               {"default login a password " + value, []Finding{{Kind: Netrc, Line: 1}}},
		"/opt/.pgpass":              {"# host:port:db:user:password\nhost:5432:db:me:" + value + "\n", []Finding{{Kind: Password, Line: 2}}},
		"/opt/.git-credentials":     {url, []Finding{{Kind: URLPassword, Line: 1}}},
		"/opt/code/.git/config":     {"[remote]\n\turl = " + url, []Finding{{Kind: URLPassword, Line: 2}}},
		"/etc/pip.conf":             {"[global]\nextra-index-url = " + url, []Finding{{Kind: URLPassword, Line: 2}}},
		"/opt/requirements-dev.txt": {"numpy\n--index-url " + url, []Finding{{Kind: URLPassword, Line: 2}}},
		"/opt/conda/.condarc": {
			"channels:\n- " + url + "- https://conda.example/t/ab-" + digits[:12] + "/main\n", []Finding{{Kind: URLPassword, Line: 2}, {Kind: URLPassword, Line: 3}},
		},
		"/opt/.pypirc":             {"[pypi]\nusername: a\npassword: " + value, []Finding{{Kind: Password, Line: 3}}},
		"/opt/.npmrc":              {"//npm.example/:_authToken=" + value, []Finding{{Kind: NPM, Line: 1}}},
		"/opt/.vault-token":        {"s." + value + "\n", []Finding{{Kind: Vault, Line: 1}}},
		"/opt/vt_u1000":            {"s." + value, []Finding{{Kind: Vault, Line: 1}}},
		"/opt/user.p12":            {pkcs12(), []Finding{{Kind: KeyStore}}},
		"/data/me.keytab":          {kerberosKeytab(false), []Finding{{Kind: KerberosKeytab}}},
		"/data/eos.keytab":         {"0 u:daemon g:daemon n:eos N:1 c:1 e:0 f:0 k:" + digits + "\n", []Finding{{Kind: XRootDKeytab, Line: 1}}},
		"/opt/hole":                {kerberosKeytab(true), []Finding{{Kind: KerberosKeytab}}},
		"/opt/krb5cc_0":            {ticketCache(4), []Finding{{Kind: KerberosTicket}}},
		"/opt/old":                 {ticketCache(3), []Finding{{Kind: KerberosTicket}}},
		"/opt/my.kdbx":             {"\x03\xd9\xa2\x9a\x67\xfb\x4b\xb5 and its rest", []Finding{{Kind: KeePass}}},
		"/opt/.kube/config":        {"kind: Config\nusers:\n- user:\n    token: " + value, []Finding{{Kind: KubeConfig, Line: 4}}},
		"/opt/rclone.conf":         {"[eos]\ntype = webdav\npass = " + value, []Finding{{Kind: StorageKey, Line: 3}}},
		"/opt/.s3cfg":              {"secret_key = " + value, []Finding{{Kind: StorageKey, Line: 1}}},
		"/etc/passwd-s3fs":         {"id:" + value, []Finding{{Kind: StorageKey, Line: 1}}},
		"/opt/kaggle.json":         {`{"username":"a","key":"` + digits[:32] + `"}`, []Finding{{Kind: ServiceKey, Line: 1}}},
		"/opt/rucio/etc/rucio.cfg": {"[client]\npassword = " + value, []Finding{{Kind: Password, Line: 2}}},
		"/x/passwords.d/POOL":      {"\x01\x02", []Finding{{Kind: ServiceKey}}},
		"/srv/munge.key":           {value + value, []Finding{{Kind: ServiceKey}}},
		"/opt/jupyter_server_config.py": {
			"c.ServerApp.token = '" + value + "'\n# c.ServerApp.token = '" + value + "'\nc.IdentityProvider.hashed_password = 'argon2:x'\n",
			[]Finding{{Kind: JupyterConfig, Line: 1}},
		},
		"/opt/jupyter_server_config.json": {"{\n \"ServerApp\": {\"token\": \"" + value + "\"}}", []Finding{{Kind: JupyterConfig, Line: 2}}},
		"/srv/jupyterhub_config.py": {
			"c.JupyterHub.services = [{'name': 'a', 'api_token': '" + value + "'}]\nc.ConfigurableHTTPProxy.auth_token = \"" + value + "\"\n",
			[]Finding{{Kind: JupyterConfig, Line: 1}, {Kind: JupyterConfig, Line: 2}},
		},
		"/srv/code-server/config.yaml": {"auth: password\npassword: " + value + "\n", []Finding{{Kind: ProgramPassword, Line: 2}}},
		"/etc/ssh2/ssh_host_rsa_key":   {opensshKey("none"), []Finding{{Kind: HostKey, Line: 1}}},
	} {
		for i := range c.want {
			c.want[i].Path = path
		}
		if d := cmp.Diff(c.want, scanned(t, path, c.text)); d != "" {
			t.Errorf("%s (-want +got):\n%s", path, d)
		}
	}
}

func TestNamesAloneAreNothing(t *testing.T) {
	for path, text := range map[string]string{
		"/opt/.netrc": "", "/srv/_netrc": "# machine x password y", "/opt/netrc": "machine a login b password <password>",
		"/opt/.pgpass": "#a:b:c:d:e\n*:*:*:*:*", "/opt/.git-credentials": "\n", "/opt/code/.git/config": "url = https://gitlab.example/x.git",
		"/etc/pip.conf": "index-url = https://${USER}:${TOKEN}@x.example/simple", "/opt/.vault-token": "\n", "/opt/x.p12": "not DER",
		"/opt/x.keytab": "", "/opt/id_rsa": "", "/opt/id_ed25519": "ssh-ed25519 AAAA", "/opt/my.kdbx": "\n", "/opt/.kube/config": "users: []",
		"/opt/kubeconfig": "users:\n- user:\n    tokenFile: /x\n", "/opt/rclone.conf": "type = s3\nenv_auth = true", "/opt/kaggle.json": "{}",
		"/opt/jupyter_server_config.py": "c.ServerApp.token = ''\nc.ServerApp.token = os.environ['X']\n", "/opt/credentials.json": "{}",
		"/srv/code-server/config.yaml": "password: changeme", "/etc/munge.key": "short", "/opt/.npmrc": "//x/:_authToken=${NPM_TOKEN}",
		"/etc/passwords.txt": "a:b", "/opt/rucio.cfg": "password = secret",
	} {
		if got := scanned(t, path, text); len(got) != 0 {
			t.Errorf("%s: %v", path, got)
		}
	}
}
