package secretscan

import (
	"encoding/asn1"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const alphabetHex = "0123456789abcdef"

// anywhere has a secret of each kind that is found in any file.
func anywhere() map[string]struct {
	text string
	kind Kind
} {
	awsID := "AK" + "IA" + random(20, 16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
	awsSecret := random(21, 40, base62)
	hour := time.Now().Add(time.Hour)
	return map[string]struct {
		text string
		kind Kind
	}{
		"rsa":               {rsaKey(), PrivateKey},
		"ec":                {ecKey(), PrivateKey},
		"pkcs8":             {pkcs8Key(), PrivateKey},
		"encrypted pkcs8":   {sealedPKCS8(), EncryptedKey},
		"encrypted rsa":     {sealedRSA(), EncryptedKey},
		"openssh":           {opensshKey("none"), PrivateKey},
		"encrypted openssh": {opensshKey("aes256-ctr"), EncryptedKey},
		"pgp":               {pgpKey(), PGPKey},
		"indented":          {"key: |\n  " + strings.ReplaceAll(ecKey(), "\n", "\n  "), PrivateKey},
		"one line":          {`KEY = "` + strings.ReplaceAll(ecKey(), "\n", `\n`) + `"`, PrivateKey},
		"wrapped":           {"client-key-data: " + base64Of(ecKey()), PrivateKey},
		"putty":             {"PuTTY-User-Key-" + "File-3: ssh-ed25519\nEncryption: none\nPrivate-" + "Lines: 1\nAAAA\n", PrivateKey},
		"encrypted putty":   {"PuTTY-User-Key-" + "File-3: ssh-ed25519\nEncryption: aes256-cbc\nPrivate-" + "Lines: 1\nAAAA\n", EncryptedKey},
		"age":               {"AGE-SECRET-" + "KEY-1" + random(22, 58, bech32), PrivateKey},
		"service account":   {`{"type": "service_account", "private_key": "` + strings.ReplaceAll(pkcs8Key(), "\n", `\n`) + `"}`, ServiceAccount},
		"google user":       {fmt.Sprintf(`{"client_secret": "x", "refresh_token": "1//%s", "type": "authorized_user"}`, random(23, 60, base62)), ServiceAccount},
		"proxy":             {gridProxy(hour, proxyCertInfo()), Proxy},
		"globus proxy":      {gridProxy(hour, asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 3536, 1, 222}), Proxy},
		"host certificate":  {gridProxy(hour, asn1.ObjectIdentifier{1, 2, 3, 4}), PrivateKey},
		"jwt":               {jwt(map[string]any{"sub": "alice"}), JWT},
		"oidc":              {jwt(map[string]any{"iss": "https://iam.example", "exp": later()}), OIDC},
		"wlcg":              {jwt(map[string]any{"iss": "https://iam.example", "exp": later(), "wlcg.ver": "1.0"}), WLCG},
		"scitoken":          {jwt(map[string]any{"iss": "https://osg.example", "exp": later(), "ver": "scitoken:2.0"}), SciToken},
		"offline":           {jwt(map[string]any{"iss": "https://sso.example", "exp": 0, "typ": "Offline"}), RefreshToken},
		"iam refresh":       {token(map[string]string{"alg": "none"}, map[string]string{"jti": random(24, 36, base62)}, ""), RefreshToken},
		"macaroon 1":        {macaroonV1("activity:DOWNLOAD", "before:"+hour.UTC().Format(time.RFC3339)), Macaroon},
		"macaroon 2":        {macaroonV2("https://storage.example"), Macaroon},
		"pypi":              {"pypi-" + macaroonV2("pypi.org"), PyPI},
		"github":            {github("ghp"), GitHub},
		"github server":     {github("ghs"), GitHub},
		"fine-grained":      {"github_" + "pat_" + random(25, 22, base62) + "_" + random(26, 59, base62), GitHub},
		"gitlab":            {"gl" + "pat-" + random(27, 20, base62), GitLab},
		"gitlab job":        {"gl" + "cbt-64_" + random(28, 20, base62), GitLab},
		"slack":             {"xo" + "xb-123456789012-210987654321-" + random(29, 24, base62), Slack},
		"slack hook":        {"https://hooks.slack.com/" + "services/T0123ABCD/B0123ABCD/" + random(30, 24, base62), Slack},
		"hugging face":      {"h" + "f_" + random(31, 34, base62[10:]), HuggingFace},
		"npm":               {"np" + "m_" + random(32, 36, base62), NPM},
		"openai":            {"s" + "k-proj-" + random(33, 40, base62) + "T3Blbk" + "FJ" + random(34, 40, base62), OpenAI},
		"anthropic":         {"s" + "k-ant-api03-" + random(35, 93, base62) + "AA", Anthropic},
		"docker hub":        {"dckr_" + "pat_" + random(36, 27, base62), DockerHub},
		"vault":             {"hv" + "s." + random(37, 24, base62), Vault},
		"aws pair":          {awsID + "\n" + awsSecret, AWS},
		"aws file":          {"[default]\naws_" + "secret_access_key = " + awsSecret, AWS},
		"aws environment":   {"export AWS_" + "SECRET_ACCESS_KEY='" + awsSecret + "'", AWS},
		"sts":               {`{"Secret` + `AccessKey": "` + awsSecret + `"}`, AWS},
		"jupyterhub":        {"{'JUPYTERHUB_" + "API_TOKEN': '" + random(38, 32, alphabetHex) + "'}", JupyterHub},
		"wandb":             {"WANDB_" + "API_KEY=" + random(39, 40, alphabetHex), WandB},
		"docker":            {`{"auths": {"registry.example": {"auth": "` + base64Of("alice:"+random(40, 12, base62)) + `"}}}`, RegistryLogin},
	}
}

func TestFoundAnywhere(t *testing.T) {
	for name, c := range anywhere() {
		for where, text := range map[string]string{
			"alone": c.text, "in a line": "\n# x\n" + c.text + "\nrest\n",
			"far": strings.Repeat("some text\n", 1000) + c.text + strings.Repeat("\nmore", 50),
		} {
			got := scanned(t, "/opt/x/file", text)
			if len(got) != 1 || got[0].Kind != c.kind {
				t.Errorf("%s %s: found %v, want %s", name, where, got, c.kind)
			}
		}
	}
}

// Every alignment of the search must find what begins there.
func TestFoundAtEveryPlace(t *testing.T) {
	secret := github("gho")
	for pad := range 40 {
		for tail := range 20 {
			text := strings.Repeat(".", pad) + secret + strings.Repeat("!", tail)
			if got := scanned(t, "/f", text); len(got) != 1 {
				t.Fatalf("%d bytes before, %d behind: %v", pad, tail, got)
			}
		}
	}
}

func TestFoundInNotebook(t *testing.T) {
	for name, c := range anywhere() {
		if strings.HasPrefix(c.text, "{") || strings.Contains(c.text, `"`) {
			continue // JSON in JSON has its quotes escaped
		}
		if got := scanned(t, "/opt/a.ipynb", notebook("token:\n"+c.text+"\n")); len(got) == 0 || got[0].Kind != c.kind {
			t.Errorf("%s: found %v, want %s", name, got, c.kind)
		}
	}
}

func TestLines(t *testing.T) {
	want := []Finding{{"/f", GitHub, 2}, {"/f", HuggingFace, 4}}
	got := scanned(t, "/f", "x\n"+github("ghp")+" "+github("ghp")+"\ny\n'h"+"f_"+random(1, 34, base62[10:])+"'")
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := scanned(t, "/f", "\x00\n"+github("ghp")); len(got) != 1 || got[0].Line != 0 {
		t.Errorf("a binary file has no lines: %v", got)
	}
}

func TestChecksumIsThePublishedOne(t *testing.T) {
	if got := string(checksum62([]byte("zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ"))); got != "0mLq17" {
		t.Errorf("checksum %q", got)
	}
}

// What looks like a secret and is none must not stop a freeze.
func TestLookAlikes(t *testing.T) {
	key, past := rsaKey(), time.Now().Add(-time.Hour)
	changed := []byte(github("ghp"))
	changed[10] ^= 1
	for name, text := range map[string]string{
		"markers":             "if '-----BEGIN RSA " + "PRIVATE KEY-----' in text and '-----END RSA " + "PRIVATE KEY-----' in text:",
		"no body":             "-----BEGIN " + "PRIVATE KEY-----\n...\n-----END " + "PRIVATE KEY-----\n",
		"shortened":           key[:200] + "...\n" + key[len(key)-60:],
		"cut off":             key[:len(key)-40],
		"damaged":             strings.Replace(key, "MII", "XII", 1),
		"public key":          armored("PUBLIC KEY", []byte("x"), nil),
		"certificate":         armored("CERTIFICATE", make([]byte, 300), nil),
		"wrapped certificate": base64Of(armored("CERTIFICATE", make([]byte, 300), nil)),
		"proxy that ended":    gridProxy(past, proxyCertInfo()),
		"jwt that ended":      jwt(map[string]any{"iss": "x", "exp": past.Unix()}),
		"jwt of jwt.io":       jwt(map[string]any{"sub": "1234567890", "name": "John Doe", "iat": 1516239022}),
		"jwt without claims":  jwt(map[string]any{"some": "payload"}),
		"unsigned jwt":        token(map[string]string{"alg": "none"}, map[string]string{"sub": "alice"}, ""),
		"header without alg":  token(map[string]string{"typ": "x"}, map[string]string{"sub": "alice"}, random(1, 43, base62)),
		"macaroon that ended": macaroonV1("before:" + past.UTC().Format(time.RFC3339)),
		"half a macaroon":     macaroonV1()[:60],
		"github, one bit":     string(changed),
		"github placeholder":  "ghp_" + strings.Repeat("x", 36),
		"github, longer":      github("ghp") + "a",
		"gitlab placeholder":  "glpat-" + strings.Repeat("x", 20),
		"hugging face name":   "from h" + "f_transfer import x; h" + "f_hub_download_the_model_from_the_hub_now()",
		"identifier":          "the_h" + "f_" + random(31, 34, base62[10:]),
		"npm setting":         "npm_config_registry npm_" + strings.Repeat("abc", 12),
		"aws example":         "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY AKIAIOSFODNN7EXAMPLE",
		"aws id alone":        "AK" + "IA" + random(20, 16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
		"aws id and commit":   "AK" + "IA" + random(20, 16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") + " " + random(1, 40, alphabetHex),
		"variable":            "token = os.environ['JUPYTERHUB_API_TOKEN']",
		"other value":         "JUPYTERHUB_API_TOKEN=" + strings.Repeat("0", 32),
		"docker helper":       `{"auths": {"registry.example": {}}, "credsStore": "pass"}`,
		"auths elsewhere":     `{"auths": 3} "auths"`,
		"slack words":         "xoxb-your-token-goes-right-here-please",
	} {
		if got := scanned(t, "/opt/x/file", "a\n"+text+"\n"); len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestKeysOfTheIndexDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, a := range anchors() {
		if a.key == "" {
			continue
		}
		if len(a.key) != 4 || !strings.Contains(a.text, a.key) {
			t.Errorf("%q is no key of %q", a.key, a.text)
		}
		if other, ok := seen[a.key]; ok {
			t.Errorf("%q and %q share a key", a.text, other)
		}
		seen[a.key] = a.text
	}
}

func TestEveryKindIsExplained(t *testing.T) {
	for name, c := range anywhere() {
		if c.kind.Text() == string(c.kind) {
			t.Errorf("%s: kind %s has no text", name, c.kind)
		}
	}
}
