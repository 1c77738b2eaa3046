package server

import (
	"net/http"
	"strings"

	"slipway/hubapi"
)

// operation is what a route's types do not tell of it.
type operation struct {
	does   string            // one line
	query  map[string]string // what each parameter means
	header map[string]string // likewise
	in     any               // the body, where the route reads it by itself
	out    any               // the answer, likewise, or where the types leave it open
	or     any               // another answer
	sends  string            // the type of an answer that is no JSON
	takes  string            // of a body that is no JSON
	status int               // of an answer that the types do not tell
	open   bool              // to everybody
}

// Descriptions of parameters that several routes have.
const (
	eventStream = "text/event-stream"
	plainText   = "text/plain"
	anyFile     = "application/octet-stream"
)

var lastEvent = map[string]string{"Last-Event-ID": "the id of the last event that the reader has seen: the stream goes on behind it"}

// operations describes every route. One that is missing here, or that there is not, fails the test.
func operations() map[string]operation {
	chart := func(of []string) map[string]string {
		return map[string]string{"chart": "a picture (SVG) in place of JSON: " + strings.Join(of, ", ")}
	}
	user := map[string]string{"user": "an administrator names another user; else the caller's own are meant"}
	return map[string]operation{
		"GET /openapi.json": {does: "This document", sends: "application/json", open: true},
		"GET /docs":         {does: "This document as a page", sends: "text/html", open: true},

		"GET /me":                      {does: "Who the service takes the caller for"},
		"GET /whoami":                  {does: "Who the caller is, by which credential, and by which rule of the site"},
		"GET /accounts":                {does: "Which user has which number on this host. For administrators"},
		"DELETE /accounts/{principal}": {does: "Forget the number of a user who has nothing here any more. For administrators"},

		"GET /profiles": {does: "The kinds of session that the site offers the caller, and what is free"},
		"GET /spawn-form": {
			does: "The form in which users choose their session, for the Hub's page. For a Hub",
			query: map[string]string{
				"user": "whose form it is", "name": "of which server", "options": "what was chosen last, JSON",
			}, sends: "text/html",
		},
		"GET /quota": {does: "How full the caller's home and areas are"},
		"GET /usage": {
			does:  "What runs now of the caller's, and what it uses of CPU, memory and GPU",
			query: map[string]string{"all": "true: of everybody. For administrators"},
		},
		"GET /usage/site": {
			does: "How the site was used over the last 7 days. For administrators", out: hubapi.SiteUsage{},
			query: chart(hubapi.SiteCharts),
		},
		"GET /sessions/{id}/usage": {
			does: "What a session has used over the last 7 days", out: hubapi.UsageSeries{}, query: chart(hubapi.UsageCharts),
		},
		"GET /jobs/{id}/usage": {
			does: "What a job has used over the last 7 days", out: hubapi.UsageSeries{}, query: chart(hubapi.UsageCharts),
		},
		"GET /scans/{id}/progress": {
			does: "How many points of a scan had ended at each time", out: hubapi.ScanProgress{},
			query: chart([]string{"progress"}),
		},
		"GET /kernelspecs":                {does: "The kernels on slices of GPUs that the caller may start"},
		"POST /kernelspecs/{name}/switch": {does: "Have the caller's next kernels of this kind made otherwise"},

		"GET /gpus": {
			does: "The GPUs of this host, their slices, and who uses them", out: hubapi.GPUs{},
			query: map[string]string{"format": "for matchmaking in place of JSON: " + strings.Join(hubapi.GPUFormats, ", ")},
		},
		"GET /gpus/pool": {
			does: "The GPUs of the HTCondor pool", out: hubapi.PoolGPUs{},
			query: map[string]string{"format": "classad in place of JSON", "history": "how far back to say how many were free, such as 24h"},
		},
		"POST /gpus/{gpu}/drain":  {does: "Start nothing new on a GPU. For administrators"},
		"POST /gpus/{gpu}/resume": {does: "Use a GPU again. For administrators"},

		"GET /data": {does: "The storage elements of the site, and where a session has them as directories"},
		"GET /data/url": {does: "The address of a file on the site's storage", query: map[string]string{
			"lfn": "the file's logical name", "write": "true: to write it", "direct": "true: past the cache",
		}},
		"GET /data/plan":                 {does: "What a look at the data of the session or job that asks has to look at"},
		"GET /data/issuers/{name}":       {does: "Whether an issuer of tokens answers, and by how much its clock differs"},
		"GET /sessions/{id}/data-check":  {does: "What was found last of a session's data"},
		"PUT /sessions/{id}/data-check":  {does: "Say what was found of a session's data. For programs in it"},
		"POST /sessions/{id}/data-check": {does: "Have a session look at its data again"},

		"GET /sessions": {does: "The sessions that the caller may see", query: map[string]string{
			"user": "only this user's", "name": "only servers of this name; empty: the default server",
		}},
		"POST /sessions": {does: "Start a session. For a Hub: users ask for one by POST /servers, and the Hub asks here"},
		"DELETE /sessions": {
			does:  "Discard all sessions of a server. For a Hub",
			query: map[string]string{"user": "its user", "name": "its name; empty: the default server"},
		},
		"POST /servers": {
			does: "Ask the Hub for a server of the caller's own. Events of progress, then the session",
			in:   hubapi.ServerRequest{},
			out:  hubapi.Progress{}, sends: eventStream,
		},
		"GET /sessions/{id}":    {does: "One session; self is the one that the caller runs in"},
		"DELETE /sessions/{id}": {does: "Discard a session with all that it has not kept elsewhere"},
		"GET /sessions/{id}/wait": {does: "Wait for the end of a start, at most 20 s", query: map[string]string{
			"launch": "also return when the session is of another start than this",
		}},
		"POST /sessions/{id}/stop": {
			does:  "Stop a session",
			query: map[string]string{"wait": "yes (the default) or no: answer when it has stopped, or at once"},
		},
		"POST /sessions/{id}/keep": {does: "Keep a session running though nothing may go on in it"},
		"GET /sessions/{id}/gpu":   {does: "How much of its slice of a GPU a session has used"},
		"GET /sessions/{id}/events": {
			does:  "The steps of a session's start, as they happen",
			query: map[string]string{"launch": "of which start"}, header: lastEvent,
			out: hubapi.Event{}, sends: eventStream,
		},
		"GET /sessions/{id}/log": {
			does:  "The last lines of a session's output",
			query: map[string]string{"tail": "how many, 40 by default"}, sends: plainText,
		},
		"POST /sessions/{id}/freeze": {
			does: "Freeze a session into an environment. Events of progress, then the environment",
			in:   hubapi.FreezeRequest{},
			out:  hubapi.Progress{}, sends: eventStream,
		},

		"GET /environments": {
			does:  "The caller's environments",
			query: map[string]string{"shared": "true: those too that others have shared with her"},
		},
		"GET /environments/{ref}":         {does: "One environment, by its digest, the beginning of it, or a name"},
		"DELETE /environments/{ref}":      {does: "Take a name, or an environment, away"},
		"GET /environments/{ref}/details": {does: "What an environment has in it: packages, size, where it comes from"},
		"GET /environments/{ref}/history": {does: "What a name has stood for"},
		"GET /environments/{ref}/diff": {
			does:  "What sets an environment apart from another",
			query: map[string]string{"from": "the other one"},
		},
		"GET /environments/{ref}/sbom": {does: "The packages of an environment as a software bill of materials (SPDX)"},
		"GET /environments/{ref}/export": {
			does:  "An environment as one file. Ranges are served",
			query: map[string]string{"as": "sif or oci"}, sends: anyFile,
		},
		"POST /environments/{ref}/push": {
			does: "Send an environment to a registry. Events of progress, then the result",
			in:   hubapi.PushRequest{},
			out:  hubapi.Progress{}, sends: eventStream,
		},
		"POST /environments/{ref}/verify": {does: "Check an environment's bytes and its signature"},
		"POST /environments/{ref}/tags":   {does: "Give an environment a name"},
		"POST /environments/{ref}/share":  {does: "Say who else may use an environment"},
		"POST /environment-pulls": {
			does: "Fetch an environment from a registry. Events of progress, then the environment",
			in:   hubapi.PullRequest{},
			out:  hubapi.Progress{}, sends: eventStream,
		},
		"POST /environment-credentials": {
			does: "A credential by which a batch system fetches the environment of one job",
			out:  hubapi.EnvironmentCredential{},
		},
		"GET /environment-usage": {does: "What environments take on disk, by user"},
		"POST /environment-sweep": {
			does:  "Remove what no environment needs any more. For administrators",
			query: map[string]string{"dry": "true: only say what it would be"},
		},

		"GET /jobs": {does: "The caller's jobs", query: map[string]string{
			"scan": "only the points of this scan, and it", "points": "no: scans in place of their points", "state": "only these states, with commas between; a scan matches by any of its points",
			"name": "only those whose name contains this, or whose ID begins with it", "since": "only those created since: 90m, 2d, 1w, 2026-11-20",
			"offset": "how many to pass over", "limit": "how many at most", "files": "yes: count the files that each has left",
		}},
		"POST /jobs":               {does: "Submit a job, or a scan of many", out: hubapi.Job{}, or: hubapi.Jobs{}},
		"POST /jobs/check":         {does: "What a job would meet, without submitting it"},
		"GET /jobs/usage":          {does: "What the caller's jobs keep on disk, and her limits"},
		"GET /jobs/{id}":           {does: "One job"},
		"DELETE /jobs/{id}":        {does: "Remove a job that has ended, with its files"},
		"POST /jobs/{id}/cancel":   {does: "Cancel a job"},
		"POST /jobs/{id}/hold":     {does: "Have a job wait until it is released"},
		"POST /jobs/{id}/release":  {does: "Release a job that is held"},
		"POST /jobs/{id}/requeue":  {does: "Take a job back into the line"},
		"POST /jobs/{id}/retry":    {does: "Try a job again that has ended"},
		"POST /jobs/{id}/resubmit": {does: "Submit a job anew, changed by the request"},
		"GET /jobs/{id}/why":       {does: "Why a job waits, and what would help"},
		"GET /jobs/{id}/gpu":       {does: "How much of its slice of a GPU a job has used"},
		"GET /jobs/{id}/events": {
			does:   "What happens to a job, as it happens",
			header: lastEvent,
			out:    hubapi.Event{}, sends: eventStream,
		},
		"GET /jobs/{id}/log": {does: "A job's output", query: map[string]string{
			"from": "the first byte", "follow": "1: go on while it is written", "tail": "the last lines alone, in place of from and follow",
		}, sends: plainText},
		"GET /jobs/{id}/files":        {does: "The files that a job has left"},
		"GET /jobs/{id}/files/{name}": {does: "One of them. Slashes of its name are escaped", sends: anyFile},
		"PUT /blobs/{digest}": {
			does:  "Send an input file for jobs to come, by its SHA-256",
			takes: anyFile, status: http.StatusNoContent,
		},
		"HEAD /blobs/{digest}": {
			does:   "Whether the caller has sent a file: 204 or 404",
			status: http.StatusNoContent,
		},

		"GET /scans/{id}":           {does: "A scan summed up"},
		"DELETE /scans/{id}":        {does: "Remove the points of a scan that have ended"},
		"POST /scans/{id}/cancel":   {does: "Cancel what is left of a scan"},
		"POST /scans/{id}/hold":     {does: "Have the points wait that do not run yet"},
		"POST /scans/{id}/release":  {does: "Release the points that are held"},
		"POST /scans/{id}/requeue":  {does: "Take the running points back into the line"},
		"POST /scans/{id}/retry":    {does: "Try points again: those that failed, or of the states that are named"},
		"POST /scans/{id}/resubmit": {does: "Submit points anew, changed by the request"},
		"GET /scans/{id}/why":       {does: "Why the first point waits"},
		"GET /scans/{id}/events": {
			does:   "How a scan goes on, as it happens",
			header: lastEvent,
			out:    hubapi.PointEvent{}, sends: eventStream,
		},

		"GET /ssh": {does: "How this site is reached by ssh", open: true},
		"POST /ssh/logins": {
			does: "Ask for a certificate that the user confirms in her browser",
			open: true,
		},
		"GET /ssh/logins/{id}": {
			does: "What has become of that: 202 while it waits",
			out:  hubapi.SSHLoginState{}, open: true,
		},
		"POST /login/device": {
			does: "Ask for an access token that the user confirms in a browser",
			open: true,
		},
		"POST /login/token": {
			does: "What has become of that, by the statuses of RFC 8628; the token, once it is approved",
			open: true,
		},
		"GET /tokens":                       {does: "The caller's access tokens: what they are, never the tokens themselves"},
		"DELETE /tokens/{id}":               {does: "Revoke an access token of the caller's"},
		"POST /ssh/logouts":                 {does: "Withdraw a certificate, by its key", open: true},
		"GET /ssh/keys":                     {does: "The caller's keys"},
		"POST /ssh/keys":                    {does: "Register a key"},
		"DELETE /ssh/keys/{fingerprint}":    {does: "Remove a key, and end its connections"},
		"GET /ssh/certificates":             {does: "The caller's certificates"},
		"POST /ssh/certificates":            {does: "Issue a certificate for a key"},
		"DELETE /ssh/certificates/{serial}": {does: "Withdraw a certificate, and end its connections"},
		"DELETE /ssh/connections":           {does: "End all of the caller's connections"},

		"GET /credentials": {
			does:  "The caller's tokens and proxy: until when they hold, never what they are",
			query: user,
		},
		"PUT /credentials/x509":                 {does: "Bring an X.509 proxy"},
		"PUT /credentials/{name}/refresh-token": {does: "Bring a refresh token of an issuer"},
		"POST /credentials/{name}/renew":        {does: "Renew a credential now"},
		"DELETE /credentials/{name}": {
			does:  "Remove a credential, and have its issuer withdraw it",
			query: user,
		},
		"POST /credentials/{name}/login": {does: "Begin a login at an issuer of tokens"},
		"GET /credential-logins/{id}":    {does: "Wait for the end of that login"},
		"GET /link": {
			does:  "The connection of an agent on another host: a WebSocket. For agents",
			sends: anyFile, status: http.StatusSwitchingProtocols,
		},
	}
}

// groups are the headings of the document, by the first word of a path.
var groups = []struct {
	name  string
	words []string
}{
	{"Sessions", []string{"sessions", "servers", "profiles", "spawn-form"}},
	{"Jobs and scans", []string{"jobs", "scans", "blobs"}},
	{"Environments", []string{"environments", "environment-pulls", "environment-credentials", "environment-usage", "environment-sweep"}},
	{"GPUs and kernels", []string{"gpus", "kernelspecs"}},
	{"Data and credentials", []string{"data", "quota", "credentials", "credential-logins"}},
	{"ssh", []string{"ssh"}},
	{"Users", []string{"me", "whoami", "accounts", "usage", "login", "tokens"}},
	{"The service", []string{"openapi.json", "docs", "link"}},
}
