package kernels

import (
	"net/http"
	"time"

	"slipway/kernels/wire"
)

// greeting is what a client says of itself to the kernel's agent.
func greeting(r *http.Request, name string) wire.Hello {
	q := r.URL.Query()
	return wire.Hello{
		Client: name, Came: time.Now().UnixMilli(), Fresh: q.Get("fresh") == "1", Once: q.Get("once") == "1",
	}
}
