package libdir

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// TempPrefix is how the names of files that are being written begin.
const TempPrefix = ".new-"

// ReadJSON reads what WriteJSON wrote.
func ReadJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// WriteJSON makes the file hold v, durably, or leaves it as it was.
func WriteJSON(dir, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return WriteFile(dir, name, data)
}

// WriteFile makes the file hold data, durably, or leaves it as it was.
func WriteFile(dir, name string, data []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, TempPrefix+"*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(f.Name()))
	}
	return errors.Join(SyncDir(dir), SyncDir(filepath.Dir(dir)))
}

// SyncDir makes what was created, renamed and removed in a directory durable.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Publish gives a file its place, durably, over what is there.
func Publish(file, place string) error {
	if err := os.Rename(file, place); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(place))
}

// maxPlain is the longest escaped name that stays readable: a file name holds 255 bytes.
const maxPlain = 180

// Escape turns any name into a file name, different names into different ones, also where the file system folds case:
// only lower-case letters, digits, - and _ stay, every other byte becomes =xx. What grows too long becomes ~ and a
// hash; no readable form begins with ~.
func Escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02x", c)
		}
	}
	if b.Len() > maxPlain {
		sum := sha256.Sum256([]byte(name))
		return "~" + hex.EncodeToString(sum[:])
	}
	return b.String()
}
