//go:build !linux

package transfer

import (
	"os"

	"slipway/internal/errs"
)

// lock has nothing to lock with: pulls run in the service, on Linux.
func lock(string) (*os.File, error) {
	return nil, errs.New(errs.Missing, "this system pulls no images").With("pull on Linux")
}
