package backends

import (
	"log/slog"

	"slipway/internal/config"
)

// Host is what the backends of batch systems need of the service.
type Host struct {
	Config config.Config
	Key    func(purpose string) []byte                    // makes a key of the service's own for a purpose
	Arch   func(digest string) (goarch string, err error) // returns for which machines an environment is
	Log    *slog.Logger
}
