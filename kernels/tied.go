package kernels

import (
	"net/http"
	"regexp"
	"time"

	"slipway/internal/errs"
	"slipway/kernels/wire"
	"slipway/spawner"
)

// What programs that stand in for a kernel in a session ask for beyond what Jupyter's clients do: package kernels/bridge has one.

// awayTime is how long a tied kernel may be without a client: a restart of the service, and of a session's Jupyter, are shorter.
const awayTime = 5 * time.Minute

var kernelID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// id is the kernel's: the client may choose it, as with other gateways. Asking for the same one again gives the same kernel.
func (q request) id() (string, error) {
	id, given := q.Env["KERNEL_ID"]
	if !given {
		return newID(), nil
	}
	if !kernelID.MatchString(id) {
		return "", errs.Bad("env.KERNEL_ID", shorten(id), "a UUID in lower case, or nothing")
	}
	return id, nil
}

// tie has a kernel end when its client stays away, if that wants it so.
func (q request) tie(s *spawner.Spec) {
	if q.Tied {
		s.Life.Away = awayTime
	}
}

// greeting is what a client says of itself to the kernel's agent.
func greeting(r *http.Request, name string) wire.Hello {
	q := r.URL.Query()
	return wire.Hello{Client: name, Came: time.Now().UnixMilli(), Fresh: q.Get("fresh") == "1", Once: q.Get("once") == "1"}
}
