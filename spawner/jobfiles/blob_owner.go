package jobfiles

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"

	"slipway/spawner"
)

// blobOwnerFile names the owner of the blobs that lie beside it: their directory's name does not.
const blobOwnerFile = ".owner"

// makeBlobDir makes the directory of a user's blobs, unless it is there.
func (s *Store) makeBlobDir(o spawner.Principal) error {
	dir := s.blobDir(o)
	if _, err := os.Lstat(filepath.Join(dir, blobOwnerFile)); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	text, err := json.Marshal([]string{o.Hub, string(o.User)})
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, blobOwnerFile), bytes.NewReader(text))
}

// blobOwners returns the users who have blobs. The blobs of a directory without an owner's file are not counted until
// its user puts one more.
func (s *Store) blobOwners() (owners []spawner.Principal) {
	dirs, _ := os.ReadDir(s.blobDirs()) // made with the first
	for _, d := range dirs {
		var o []string
		text, err := os.ReadFile(filepath.Join(s.blobDirs(), d.Name(), blobOwnerFile))
		if err == nil && json.Unmarshal(text, &o) == nil && len(o) == 2 {
			owners = append(owners, spawner.Principal{Hub: o[0], User: spawner.User(o[1])})
		}
	}
	return owners
}
