package secretscan

// anchors lists what is searched for in every file's bytes. The key of each is chosen by how rare its pairs of bytes
// are in source code and prose.
func anchors() []anchor {
	list := []anchor{
		// PEM: RFC 7468 (labels), RFC 1421 4.6 (encrypted), PROTOCOL.key of OpenSSH, RFC 9580 6.2 (PGP).
		{"PRIVATE KEY", " KEY", checkPEM},
		// The same inside base64, as kubeconfig files and Kubernetes secrets hold it: base64 of "-----BEGIN ".
		{"LS0tLS1CRUdJTi", "UdJT", checkWrappedPEM},
		// PuTTY's manual, appendix C: the format of a private key file.
		{"PuTTY-User-Key-File-", "PuTT", checkPuTTY},
		// age, C2SP age.md: the identity is Bech32 with this prefix.
		{"AGE-SECRET-KEY-1", "T-KE", checkAge},
		// JWT: RFC 7519. A payload is a JSON object, and base64url of {" is eyJ.
		{".eyJ", ".eyJ", checkJWT},
		// Macaroons, libmacaroons' format 1: the first packet is location; this is base64 of its "cation" where it
		// stands there.
		{"Y2F0aW9u", "aW9u", checkMacaroon1},
		// Format 2: version 2, field 1 (location); this is base64 of the "htt" of its value.
		{"aHR0", "aHR0", checkMacaroon2},
	}
	return append(append(list, tokens()...), assignments()...)
}

// tokens are told by a prefix that was chosen by their makers so that scanners find them.
func tokens() []anchor {
	var list []anchor
	// GitHub, "Behind GitHub's new authentication token formats", 2021; the fine-grained ones: docs.github.com, token
	// types.
	for _, prefix := range []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"} {
		list = append(list, anchor{prefix, prefix, checkGitHub})
	}
	list = append(list, anchor{"github_pat_", "hub_", checkFineGrained})
	// GitLab, docs.gitlab.com, security/tokens: token prefixes.
	for prefix, key := range map[string]string{
		"glpat-": "glpa", "gldt-": "gldt", "glrt-": "glrt", "glptt-": "glpt", "gloas-": "gloa", "glcbt-": "lcbt",
		"glsoat-": "glso", "glft-": "glft",
	} {
		list = append(list, anchor{prefix, key, checkGitLab(prefix)})
	}
	// Slack, docs.slack.dev, token types.
	for _, prefix := range []string{"xoxb-", "xoxp-", "xoxe-", "xoxa-", "xoxs-", "xapp-"} {
		list = append(list, anchor{prefix, prefix[:4], checkSlack})
	}
	return append(list,
		// Slack, incoming webhooks: the URL is the secret.
		anchor{"hooks.slack.com/services/", "ooks", checkSlackHook},
		// Hugging Face: hf_ and 34 letters, as its partner in scanning publishes it (trufflesecurity, detector
		// huggingface).
		anchor{"hf_", "", checkHuggingFace},
		// PyPI, warehouse's docs, "token scanning": pypi- and a macaroon of format 2.
		anchor{"pypi-AgE", "-AgE", checkPyPI},
		// npm, "npm has a new access token format", GitHub's changelog of September 2021.
		anchor{"npm_", "npm_", checkNPM},
		// OpenAI: every key holds base64 of its maker's name (OpenAI in GitHub's secret scanning partner programme).
		anchor{"T3BlbkFJ", "bkFJ", checkOpenAI},
		// Anthropic, in the same programme.
		anchor{"sk-ant-", "sk-a", checkAnthropic},
		// Docker Hub, docs.docker.com, personal access tokens.
		anchor{"dckr_pat_", "dckr", checkDockerHub},
		// Vault, developer.hashicorp.com, concepts/tokens: the prefixes since 1.10.
		anchor{"hvs.", "hvs.", checkVault}, anchor{"hvb.", "hvb.", checkVault}, anchor{"hvr.", "hvr.", checkVault},
	)
}

// assignments are told by the name of the setting before them and by the value's form.
func assignments() []anchor {
	return []anchor{
		// AWS, IAM user guide, "unique identifiers": AKIA (long term) and ASIA (temporary), with the secret near it.
		{"AKIA", "AKIA", checkAWSPair}, {"ASIA", "ASIA", checkAWSPair},
		// AWS CLI user guide, configuration files and environment variables; STS API reference.
		{"secret_access_key", "s_ke", checkAWSSecret}, {"SECRET_ACCESS_KEY", "_KEY", checkAWSSecret},
		{"SecretAccessKey", "tAcc", checkAWSSecret},
		// JupyterHub, jupyterhub/orm.py: an API token is 16 random bytes in hex; services reference: the variable.
		{"JUPYTERHUB_API_TOKEN", "RHUB", checkHex(JupyterHub, 32)}, {"JPY_API_TOKEN", "JPY_", checkHex(JupyterHub, 32)},
		// Weights & Biases, docs.wandb.ai, environment variables: 40 digits.
		{"WANDB_API_KEY", "I_KE", checkHex(WandB, 40)},
		// Docker, docs.docker.com, docker login: auths of config.json. Podman and Apptainer write the same.
		{`"auths"`, `"aut`, checkDockerAuths},
		// Google, "Application Default Credentials": the file of type authorized_user.
		{`"authorized_user"`, "d_us", checkGoogleUser},
	}
}
