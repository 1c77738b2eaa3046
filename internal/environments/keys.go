package environments

import (
	"cmp"
	"log/slog"
	"path/filepath"
	"time"

	"slipway/images/signing"
	"slipway/internal/config"
)

// KeysDir is the directory of the keys that sign
func KeysDir(cfg config.Config) string {
	return cmp.Or(cfg.Environments.KeysDir, filepath.Join(cfg.DataDir, "keys"))
}

// OpenKeys opens the keys that sign environments, and makes the first one.
func OpenKeys(cfg config.Config, log *slog.Logger) (*signing.Keys, error) {
	return signing.New(signing.Config{Dir: KeysDir(cfg), Now: time.Now, Log: log, Site: cfg.Environments.Site})
}
