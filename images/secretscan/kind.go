package secretscan

import "time"

// Kind says what was found. It stands in the audit log and in manifests: stable.
type Kind string

// The kinds.
const (
	PrivateKey      Kind = "private-key"
	EncryptedKey    Kind = "encrypted-private-key"
	HostKey         Kind = "ssh-host-key"
	Proxy           Kind = "x509-proxy"
	PGPKey          Kind = "pgp-private-key"
	KeyStore        Kind = "pkcs12"
	KeePass         Kind = "keepass-database"
	ServiceAccount  Kind = "google-credentials"
	JWT             Kind = "jwt"
	OIDC            Kind = "oidc-token"
	WLCG            Kind = "wlcg-token"
	SciToken        Kind = "scitoken"
	RefreshToken    Kind = "refresh-token"
	Macaroon        Kind = "macaroon"
	GitHub          Kind = "github-token"
	GitLab          Kind = "gitlab-token"
	Slack           Kind = "slack-token"
	HuggingFace     Kind = "huggingface-token"
	PyPI            Kind = "pypi-token"
	NPM             Kind = "npm-token"
	OpenAI          Kind = "openai-key"
	Anthropic       Kind = "anthropic-key"
	DockerHub       Kind = "docker-hub-token"
	Vault           Kind = "vault-token"
	AWS             Kind = "aws-secret-key"
	JupyterHub      Kind = "jupyterhub-token"
	JupyterConfig   Kind = "jupyter-secret"
	WandB           Kind = "wandb-key"
	Netrc           Kind = "netrc-password"
	Password        Kind = "password"
	URLPassword     Kind = "url-password"
	RegistryLogin   Kind = "registry-login"
	KubeConfig      Kind = "kubernetes-credential"
	KerberosTicket  Kind = "kerberos-ticket"
	KerberosKeytab  Kind = "kerberos-keytab"
	XRootDKeytab    Kind = "xrootd-keytab"
	ServiceKey      Kind = "service-key"
	StorageKey      Kind = "storage-key"
	ProgramPassword Kind = "program-password"
)

// Text says what k is, to a user.
func (k Kind) Text() string {
	if text, ok := texts()[k]; ok {
		return text
	}
	return string(k)
}

func texts() map[Kind]string {
	return map[Kind]string{
		PrivateKey: "a private key without a passphrase", EncryptedKey: "a private key (with a passphrase)",
		HostKey: "an ssh host key",
		Proxy:   "a grid proxy", PGPKey: "a PGP private key", KeyStore: "a certificate with its private key (PKCS #12)",
		KeePass: "a password database (KeePass)", ServiceAccount: "Google credentials", JWT: "a signed token (JWT)",
		OIDC: "an OIDC token",
		WLCG: "a WLCG token", SciToken: "a SciToken", RefreshToken: "a refresh token", Macaroon: "a macaroon",
		GitHub: "a GitHub token",
		GitLab: "a GitLab token", Slack: "a Slack token", HuggingFace: "a Hugging Face token", PyPI: "a PyPI token",
		NPM:    "an npm token",
		OpenAI: "an OpenAI key", Anthropic: "an Anthropic key", DockerHub: "a Docker Hub token", Vault: "a Vault token",
		AWS: "an AWS or S3 secret key", JupyterHub: "a JupyterHub API token",
		JupyterConfig: "a token in a Jupyter configuration",
		WandB:         "a Weights & Biases key", Netrc: "a netrc entry with a password", Password: "a password",
		URLPassword:   "a URL with a password",
		RegistryLogin: "a container registry login", KubeConfig: "a Kubernetes credential",
		KerberosTicket: "a Kerberos ticket",
		KerberosKeytab: "a Kerberos keytab", XRootDKeytab: "an XRootD keytab", ServiceKey: "a service's shared key",
		StorageKey: "a storage credential", ProgramPassword: "the password of a program",
	}
}

// Finding is one secret in one file.
type Finding struct {
	Path string `json:"path"` // from the environment's root
	Kind Kind   `json:"kind"`
	Line int    `json:"line,omitempty"` // counted from 1; 0 in a binary file
}

// view is one file that is looked at.
type view struct {
	path    string
	content []byte
	now     time.Time
}

// hit is where in a view a secret stands; a negative place is the file as a whole.
type hit struct {
	kind Kind
	at   int
}
