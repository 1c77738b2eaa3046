package outpost

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/offers"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// The Hub's client gives a request up after 20 s: the answer must be there before.
const patience = 15 * time.Second

// sessionCommand is what a session of an OutpostSpawner runs: that protocol names the command of notebook jobs only.
const sessionCommand = "jupyterhub-singleuser"

// startAnswer is the answer to a start.
type startAnswer struct {
	Service string `json:"service"`
}

// start starts a session and answers at once with the address of the session proxy, which holds the Hub's question
// whether the session is up.
func (o *Outpost) start(w http.ResponseWriter, r *http.Request, c spawner.Caller, _ startPath) (int, any, error) {
	if err := o.cfg.Engine.Ready(); err != nil {
		return 0, nil, err
	}
	body, err := readBody(w, r)
	if err != nil {
		return 0, nil, err
	}
	audit.OnBehalf(r.Context(), spawner.User(shown(body.Env["JUPYTERHUB_USER"])))
	address, err := proxyAddress(o.hubs.Named(c.Hub), r)
	if err != nil {
		return 0, nil, err
	}
	req, err := sessionRequest(o.hubs.Named(c.Hub), o.offers.Of(c.Hub, spawner.User(body.Env["JUPYTERHUB_USER"])), body)
	if err != nil {
		return 0, nil, err
	}
	k := claim{c.Hub, req.Name, req.Launch}
	audit.Note(r.Context(), "a session is started", "of", req.User, "name", req.Name, "launch", req.Launch)
	req.Secrets = o.hubs.Named(c.Hub).SessionEnv(req.Secrets)
	if err := o.launchClaimed(r.Context(), c, k, req); err != nil {
		return 0, nil, err
	}
	return accepted(r), startAnswer{address}, nil
}

// async reports whether a caller does not want to wait.
func async(r *http.Request) bool {
	return strings.EqualFold(strings.TrimSpace(r.Header.Get("execution-type")), "async")
}

// accepted is the status of success.
func accepted(r *http.Request) int {
	if async(r) {
		return http.StatusAccepted
	}
	return http.StatusOK
}

// launchClaimed starts a session when no other request for the same start is in progress, and takes the start back when
// a stop has overtaken it.
func (o *Outpost) launchClaimed(ctx context.Context, c spawner.Caller, k claim, req spawner.SessionRequest) error {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	turn, release, err := o.claims.take(waiting, k)
	if err != nil {
		return err
	}
	defer release()
	if k.id == noStartID {
		if req.Launch, err = o.launchOfName(turn, c, req.Name); err != nil {
			return err
		}
	}
	started, err := o.launch(turn, c, req)
	if o.claims.wasStopped(k) {
		if err == nil {
			_, err = o.cfg.Engine.StopLaunch(context.WithoutCancel(ctx), c, started.Launch)
		}
		if err == nil || errs.Is(err, errs.NotFound) || turn.Err() != nil {
			err = stoppedFirst(k)
		}
	}
	return err
}

// launch starts a session whose id has not been used. A start that is in progress gives the same answer again.
func (o *Outpost) launch(ctx context.Context, c spawner.Caller, req spawner.SessionRequest) (spawner.Workload, error) {
	used := func(why string) error {
		return errs.New(errs.Conflict, "start id %s %s", req.Launch, why).With("each start needs an id of its own")
	}
	before, err := o.cfg.Engine.Launched(ctx, c, req.Launch)
	switch {
	case errs.Is(err, errs.NotFound):
		return o.startNew(ctx, c, req)
	case err != nil:
		return before, err
	case before.Owner != req.User || before.Name != req.Name:
		return before, used("belongs to the start of another server")
	case !before.Phase.Active() || before.Want != spawner.WantRunning:
		return before, used("belongs to a start that has ended")
	case !sameStart(before, req):
		return before, used("belongs to a start with other options")
	}
	return before, nil
}

// startNew starts a session. That an earlier one does not end in time is told as a failure, of which the Hub shows the
// text: of an unavailable service it does not.
func (o *Outpost) startNew(
	ctx context.Context, c spawner.Caller, req spawner.SessionRequest,
) (spawner.Workload, error) {
	w, err := o.cfg.Engine.StartSession(ctx, c, req)
	if errs.Is(err, errs.Unavailable) {
		return w, errs.New(errs.Conflict, "%w", err)
	}
	return w, err
}

// sameStart reports whether a request asks for what was started.
func sameStart(w spawner.Workload, req spawner.SessionRequest) bool {
	a, b := w.Spec, req.Spec
	return w.Kind == req.Kind && a.Profile == b.Profile && a.Image == b.Image && a.Resources == b.Resources &&
		a.Prefix == b.Prefix &&
		a.EventsURL == b.EventsURL && slices.Equal(a.Argv, b.Argv)
}

// unnamed begins the launches of starts without an id. The protocol then has one start a name, and after its end
// another.
const unnamed = noStartID + "-"

// launchOfName returns the launch of a start without an id: the one that goes on, or a new one.
func (o *Outpost) launchOfName(ctx context.Context, c spawner.Caller, name string) (string, error) {
	w, err := o.unnamedStart(ctx, c, name)
	switch {
	case err == nil && w.Phase.Active():
		return w.Launch, nil
	case err == nil || errs.Is(err, errs.NotFound):
		return unnamed + strings.ToLower(rand.Text()), nil
	}
	return "", err
}

// unnamedStart finds the last start of a server's name that has no id.
func (o *Outpost) unnamedStart(ctx context.Context, c spawner.Caller, name string) (last spawner.Workload, err error) {
	all, err := o.cfg.Engine.List(ctx, c)
	if err != nil {
		return last, err
	}
	for _, w := range all {
		mine := w.Kind.HubServer() && w.Name == name && (w.Launch == noStartID || strings.HasPrefix(w.Launch, unnamed))
		if mine && (last.ID == "" || w.Phase.Active() && !last.Phase.Active() ||
			w.Phase.Active() == last.Phase.Active() && w.Since.After(last.Since)) {
			last = w
		}
	}
	if last.ID == "" {
		return last, errs.New(errs.NotFound, "there is no start of %q without an id", name)
	}
	return last, nil
}

// startIDs are the ids that a start may have: they stand in paths.
var startIDs = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// notForSessions are variables that are not the session's business: the first has the Hub's idea of an address, from
// which the agent makes its own when there is none; the others are credentials of the service.
var notForSessions = []string{
	"JUPYTERHUB_SERVICE_URL", "JUPYTERHUB_FLAVORS_UPDATE_URL", "JUPYTERHUB_FLAVORS_UPDATE_TOKEN",
}

// userIDVariable has the Hub's number of the user.
const userIDVariable = "JUPYTERHUB_USER_ID"

// sessionRequest makes the engine's request of a start's body.
func sessionRequest(h hubs.Hub, catalogue catalog.Catalogue, b startBody) (req spawner.SessionRequest, err error) {
	user, prefix := b.Env["JUPYTERHUB_USER"], b.Env["JUPYTERHUB_SERVICE_PREFIX"]
	b.UserOptions.StartID = cmp.Or(b.UserOptions.StartID, noStartID)
	switch {
	case !startIDs.MatchString(b.UserOptions.StartID):
		return req, badField(
			"user_options.start_id", shown(b.UserOptions.StartID), "at most 64 letters, digits and hyphens",
		)
	case user == "":
		return req, badField("env.JUPYTERHUB_USER", "", "the name of the Hub's user")
	case prefix == "":
		return req, badField("env.JUPYTERHUB_SERVICE_PREFIX", "", "the path of the user's server")
	}
	if err := refuseMisc(b); err != nil {
		return req, err
	}
	decoded, err := prefixOf(h, b, user, prefix)
	if err != nil {
		return req, err
	}
	kind, spec, fresh, err := specOf(catalogue, b)
	if err != nil {
		return req, err
	}
	if spec.EventsURL, err = eventsURL(b.Env["JUPYTERHUB_EVENTS_URL"]); err != nil {
		return req, err
	}
	env := maps.Clone(b.Env)
	for _, name := range notForSessions {
		delete(env, name)
	}
	if id := b.Env[userIDVariable]; id != "" {
		spec.Env = maps.Clone(spec.Env)
		if spec.Env == nil {
			spec.Env = map[string]string{}
		}
		spec.Env[userIDVariable] = id
	}
	spec.Argv, spec.Prefix, spec.Ready = []string{sessionCommand}, decoded, prefix+spec.Ready
	return spawner.SessionRequest{
		User: spawner.User(user), Name: b.Name, Kind: kind, Spec: spec, Backend: catalogue.Backend(spec.Profile),
		Launch: b.UserOptions.StartID,
		Fresh:  fresh, Secrets: env,
	}, nil
}

// eventsURL checks where the Hub wants to be told how a start goes on.
func eventsURL(given string) (string, error) {
	u, err := url.Parse(given)
	if given != "" && (err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https") {
		return "", badField("env.JUPYTERHUB_EVENTS_URL", shown(given), "a URL that begins with http:// or https://")
	}
	return given, nil
}

// shown bounds what an error repeats of a value.
func shown(value string) string {
	if len(value) > 40 {
		return strings.ToValidUTF8(value[:40], "") + "..."
	}
	return value
}

// refuseMisc refuses what a site may ask of a remote spawner and this one does not give.
func refuseMisc(b startBody) error {
	switch {
	case given(b.Misc.Cmd) || given(b.Misc.Args):
		return errs.New(
			errs.Invalid,
			"misc.cmd, misc.args: a server with a command of its own, as a notebook job has one, is not started",
		).With("submit it as a job: `slipway submit` in a session")
	case len(b.Certs) > 0 || len(b.Bundles) > 0 || given(b.Misc.InternalSSL):
		return errs.New(
			errs.Invalid, "certs, internal_trust_bundles: c.JupyterHub.internal_ssl does not work with this service",
		).With("turn it off, and let the Hub's proxy reach the service over a private network")
	}
	return nil
}

// given reports whether a value from JSON is more than an empty one.
func given(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	default:
		return true
	}
}

// prefixOf decodes the session's path and checks that all that the body says of the server agrees.
func prefixOf(h hubs.Hub, b startBody, user, prefix string) (string, error) {
	if name, told := b.Env["JUPYTERHUB_SERVER_NAME"]; told && name != b.Name {
		return "", errs.Bad(
			"env.JUPYTERHUB_SERVER_NAME", shown(name), "the same as name, which is "+strconv.Quote(shown(b.Name)),
		)
	}
	decoded, err := h.SessionPrefix(prefix)
	if err != nil {
		return "", err
	}
	own := "/user/" + user + "/"
	if b.Name != "" {
		own += b.Name + "/"
	}
	if !strings.HasSuffix(decoded, own) {
		return "", errs.Bad(
			"env.JUPYTERHUB_SERVICE_PREFIX", shown(prefix),
			"a path that ends with "+shown(own)+", as JUPYTERHUB_USER and name say",
		)
	}
	return decoded, nil
}

// specOf makes the session's spec of the options: a flavor is a profile, and the options of the native API are taken as
// well.
func specOf(catalogue catalog.Catalogue, b startBody) (spawner.Kind, spawner.Spec, bool, error) {
	o := b.UserOptions
	options := map[string]any{
		"image": word(o.Image), "cpus": word(o.CPUs), "memory": word(o.Memory), "fresh": word(o.Fresh),
	}
	field := "profile"
	options["profile"] = word(o.Profile)
	for _, flavor := range []any{b.Flavor, word(o.Flavor)} {
		if given(flavor) {
			field, options["profile"] = "flavor", flavor
		}
	}
	fresh, err := offers.TakeFresh(options)
	if err != nil {
		return "", spawner.Spec{}, false, err
	}
	kind, spec, err := catalogue.Resolve(options)
	if e, ok := errors.AsType[*errs.Error](err); ok && e.Field == "profile" {
		err = errs.Bad(field, shown(fmt.Sprint(options["profile"])), e.Remedy)
	}
	return kind, spec, fresh, err
}

// word takes the word out of a list of one, as forms give it.
func word(v any) any {
	if list, ok := v.([]any); ok && len(list) == 1 {
		return list[0]
	}
	return v
}

// hosts are the addresses that the Hub's client can read: it splits at the colon and wants two parts.
var hosts = regexp.MustCompile(`^[A-Za-z0-9._-]{1,253}(:[0-9]{1,5})?$`)

// proxyAddress is where the Hub's proxy finds the session proxy: as configured, or else where the Hub has found the
// service.
func proxyAddress(h hubs.Hub, r *http.Request) (string, error) {
	if h.OutpostAddress != "" {
		return h.OutpostAddress, nil
	}
	if !hosts.MatchString(r.Host) {
		return "", errs.Bad(
			"Host", shown(r.Host),
			"a name or IPv4 address and a port; else set outpost.address of hub "+h.Name+" in Slipway's configuration",
		)
	}
	switch {
	case strings.Contains(r.Host, ":"):
		return r.Host, nil
	case r.TLS != nil:
		return r.Host + ":443", nil
	default:
		return r.Host + ":80", nil
	}
}
