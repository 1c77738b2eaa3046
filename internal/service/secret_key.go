package service

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"slipway/internal/credentials"
	"slipway/internal/errs"
	"slipway/internal/secret"
	"slipway/internal/store"
)

// openBox opens what secrets are sealed with. It makes no new key where users' credentials are sealed with one that is
// gone: it may be on a file system that is not mounted yet.
func openBox(ctx context.Context, db *store.Store, file string) (*secret.Box, error) {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		kept, err := credentials.Kept(ctx, db)
		if err != nil {
			return nil, err
		}
		if kept {
			return nil, errs.New(
				errs.Missing, "secret_key_file: %s is not there, and users' credentials are sealed with it", file,
			).
				With("restore it; where it is lost for good, put 32 random bytes there, with mode 0600, and users log in again")
		}
	}
	return secret.OpenBox(file)
}
