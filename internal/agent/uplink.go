package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"

	"slipway/internal/agent/control"
	"slipway/internal/tunnel"
)

// uplinkLimit is the most bytes of an uplink's file: a chain of certificates is in it.
const uplinkLimit = 1 << 20

// wayTo returns how this agent reaches the service: by the socket of this host, or from another host as the uplink's
// file says. The file is read each time: whoever renews what is in it needs to tell nobody.
func wayTo(cfg Config) func(ctx context.Context) (net.Conn, error) {
	dialer := tunnel.NewDialer()
	return func(ctx context.Context) (net.Conn, error) {
		u, err := readUplink(cfg.UplinkFile)
		if errors.Is(err, fs.ErrNotExist) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", cfg.LinkSocket)
		}
		if err != nil {
			return nil, err
		}
		return dialer.Dial(ctx, u)
	}
}

// readUplink reads the file. Its errors tell nothing of what is in it.
func readUplink(path string) (control.Uplink, error) {
	f, err := os.Open(path)
	if err != nil {
		return control.Uplink{}, err
	}
	defer f.Close()
	var u control.Uplink
	if err := json.NewDecoder(io.LimitReader(f, uplinkLimit)).Decode(&u); err != nil {
		return control.Uplink{}, fmt.Errorf("%s is no JSON object that names the service", path)
	}
	return u, nil
}
