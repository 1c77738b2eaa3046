package audit

// Words say what has been done by a request of each route that changes something.
func Words() map[string]string {
	words := map[string]string{
		"POST /sessions":                        "a session is started",
		"DELETE /sessions":                      "all sessions of a server are removed",
		"POST /servers":                         "a session is asked for at the Hub",
		"DELETE /sessions/{id}":                 "a session is removed, with its changes",
		"POST /sessions/{id}/stop":              "a session is stopped",
		"POST /sessions/{id}/keep":              "a session is kept though it idles",
		"POST /sessions/{id}/freeze":            "a session is frozen",
		"POST /sessions/{id}/data-check":        "a session's data is to be looked at again",
		"PUT /sessions/{id}/data-check":         "what a session has found of its data is taken",
		"POST /pages/sessions/{id}/check":       "a session's data is to be looked at again",
		"POST /environments/{ref}/push":         "an environment was pushed",
		"POST /environments/{ref}/verify":       "an environment is verified",
		"POST /environments/{ref}/tags":         "an environment has a name more",
		"POST /environments/{ref}/share":        "an environment is shared",
		"DELETE /environments/{ref}":            "an environment's name is removed",
		"POST /environment-pulls":               "an environment was pulled",
		"POST /environment-credentials":         "a credential for an environment is given out",
		"POST /environment-sweep":               "environments that nobody uses are looked for",
		"POST /gpus/{gpu}/drain":                "an administrator has taken a GPU out of use",
		"POST /gpus/{gpu}/resume":               "an administrator has put a GPU back",
		"PUT /credentials/x509":                 "a proxy is put",
		"PUT /credentials/{name}/refresh-token": "a refresh token is given",
		"POST /credentials/{name}/renew":        "a credential is renewed",
		"DELETE /credentials/{name}":            "a credential is removed",
		"POST /credentials/{name}/login":        "a login at an issuer is begun",
		"DELETE /accounts/{principal}":          "a user's number is forgotten",
		"POST /login/device":                    "a login for an access token is begun",
		"DELETE /tokens/{id}":                   "an access token is revoked",
		"POST /pages/tokens/revoke":             "an access token is revoked",
		"POST /ssh/logins":                      "an ssh login is begun",
		"POST /ssh/logouts":                     "a certificate was to be withdrawn that is none any more",
		"POST /ssh/keys":                        "an ssh key is added",
		"DELETE /ssh/keys/{fingerprint}":        "an ssh key is removed",
		"POST /ssh/certificates":                "an ssh certificate is issued",
		"DELETE /ssh/certificates/{serial}":     "an ssh certificate is revoked",
		"DELETE /ssh/connections":               "all ssh connections are ended",
		"POST /jobs":                            "a job is submitted",
		"POST /kernelspecs/{name}/switch":       "a user's next kernels are switched",
		"PUT /blobs/{digest}":                   "a file for jobs is put",
		"DELETE /jobs/{id}":                     "a job is removed",
		// Of kernels.
		"POST /kernels/api/kernels":                "a kernel is started",
		"DELETE /kernels/api/kernels/{id}":         "a kernel is shut down",
		"POST /kernels/api/kernels/{id}/interrupt": "a kernel is interrupted",
		"POST /kernels/api/kernels/{id}/restart":   "a kernel is restarted",
		"POST /kernels/api/sessions":               "a notebook has a kernel",
		"PATCH /kernels/api/sessions/{id}":         "a notebook with a kernel is changed",
		"DELETE /kernels/api/sessions/{id}":        "a notebook's kernel is shut down",
		// The Outpost protocol.
		"POST /services":                     "a session is started",
		"DELETE /services/{name}/{start_id}": "a session is stopped",
		// Pages of other names than the API's routes.
		"POST /pages/logout":                    "a visit of the pages is ended",
		"POST /pages/sessions/{id}/discard":     "a session is removed, with its changes",
		"POST /pages/jobs/{id}/stop":            "a job is canceled",
		"POST /pages/jobs-chosen":               "jobs are canceled, retried or removed together",
		"POST /pages/theme":                     "a visitor chooses light or dark pages",
		"POST /pages/jobs/{id}/keep":            "a job is kept",
		"POST /pages/jobs/{id}/discard":         "a job is removed",
		"POST /pages/scans/{id}/discard":        "the ended points of a scan are removed",
		"POST /pages/environments/{ref}/tag":    "an environment has a name more",
		"POST /pages/environments/{ref}/remove": "an environment's name is removed",
		"POST /pages/ssh/keys/remove":           "an ssh key is removed",
		"POST /pages/ssh/certificates/revoke":   "an ssh certificate is revoked",
		"POST /pages/ssh/connections/end":       "all ssh connections are ended",
		"POST /pages/login":                     "a login is looked up by its code",
		"POST /pages/login/decide":              "a login is decided on",
		"POST /pages/credentials/proxy":         "a proxy is put",
		"POST /pages/credentials/{name}/remove": "a credential is removed",
		"DELETE /scans/{id}":                    "the ended points of a scan are removed",
	}
	for of, called := range map[string]string{"/jobs/{id}": "a job", "/scans/{id}": "a scan"} {
		words["POST "+of+"/cancel"], words["POST "+of+"/hold"] = called+" is canceled", called+" is held"
		words["POST "+of+"/retry"], words["POST "+of+"/resubmit"] = called+" is tried again", called+
			" is submitted anew"
		words["POST "+of+"/release"], words["POST "+of+"/requeue"] = called+" is released", called+" goes back in line"
	}
	for _, same := range []string{
		"/sessions/{id}/stop", "/sessions/{id}/keep", "/jobs/{id}/hold", "/jobs/{id}/release", "/jobs/{id}/requeue",
		"/jobs/{id}/retry", "/scans/{id}/retry", "/scans/{id}/cancel", "/scans/{id}/hold",
		"/scans/{id}/release", "/scans/{id}/requeue", "/environments/{ref}/share", "/ssh/keys",
		"/credentials/{name}/renew", "/credentials/{name}/login",
	} {
		words["POST /pages"+same] = words["POST "+same]
	}
	return words
}
