package transfer

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"slipway/images/blobstore"
	"slipway/internal/errs"
)

// AddLogin puts a login into a file of logins, as DockerConfig reads it, and keeps what else is in it.
func AddLogin(path, host, username, password string) error {
	file := map[string]json.RawMessage{}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	logins := map[string]json.RawMessage{}
	if auths, there := file["auths"]; err == nil && there {
		err = json.Unmarshal(auths, &logins)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errs.New(errs.Invalid, "read the logins in %s: %w", path, err).
			With("name another file, or one that does not exist yet")
	}
	if file == nil { // the file says null
		file = map[string]json.RawMessage{}
	}
	if logins == nil {
		logins = map[string]json.RawMessage{}
	}
	login := struct {
		Auth string `json:"auth"`
	}{base64.StdEncoding.EncodeToString([]byte(username + ":" + password))}
	if logins[host], err = json.Marshal(login); err != nil {
		return err
	}
	if file["auths"], err = json.Marshal(logins); err != nil {
		return err
	}
	if text, err = json.MarshalIndent(file, "", "  "); err != nil {
		return err
	}
	return blobstore.WriteFile(path, append(text, '\n'))
}
