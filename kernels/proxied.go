package kernels

import (
	"net/http"
	"strings"

	"slipway/kernels/wire"
)

const noBinary = "\nSlipway: something here (such as an interactive figure) sent binary data, which Jupyter Server does not pass on with --gateway-url, " +
	"and may not work. It works with the same kernel from the launcher of a session.\n"

// proxied says whether a client that was given the old framing is a Jupyter Server with --gateway-url, by the library
// that it uses. It reads what is binary as if it were text, fails, and never reads again: its notebook would hang.
func proxied(r *http.Request) bool { return strings.HasPrefix(r.UserAgent(), "Tornado/") }

// fit takes from a message what the client cannot take, and tells it so once.
func (c *client) fit(m wire.Message) wire.Message {
	if !c.textOnly || len(m.Buffers) == 0 {
		return m
	}
	m.Buffers = nil
	if !c.toldOfBinary {
		c.toldOfBinary = true
		c.tell("stream", c.cell.last(), map[string]string{"name": "stderr", "text": noBinary})
	}
	return m
}
