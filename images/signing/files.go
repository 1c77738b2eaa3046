package signing

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"slipway/internal/errs"
)

// maxFile bounds what is read of a key's file.
const maxFile = 64 << 10

func (k *Keys) path(name string) string { return filepath.Join(k.cfg.Dir, name) }

// own reads the site's keys. A key that has both halves here stands once.
func (k *Keys) own() ([]Key, error) {
	entries, err := k.entries(".")
	if err != nil {
		return nil, err
	}
	seen := map[string]int{}
	var keys []Key
	for _, e := range entries {
		name, isPrivate := strings.CutSuffix(e.Name(), privateEnding)
		name, isPublic := strings.CutSuffix(name, publicEnding)
		if !isPrivate && !isPublic || strings.HasPrefix(name, ".") {
			continue
		}
		if at, ok := seen[name]; ok {
			keys[at].private = keys[at].private || isPrivate
			continue
		}
		key, err := k.ownKey(name, isPrivate)
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", e.Name(), err)
		}
		seen[name], keys = len(keys), append(keys, key)
	}
	return keys, nil
}

func (k *Keys) ownKey(name string, isPrivate bool) (Key, error) {
	key, err := k.half(name, isPrivate)
	if err != nil {
		return Key{}, err
	}
	at, _, _ := strings.Cut(name, "-")
	key.Created, err = time.Parse(stamp, at)
	if err != nil || key.file() != name {
		return Key{}, errs.New(errs.Invalid, "its name is not the time and the id of the key in it").
			With("name it " + key.file())
	}
	key.name, key.private = name, isPrivate
	return key, nil
}

func (k *Keys) half(name string, isPrivate bool) (Key, error) {
	if !isPrivate {
		data, err := k.file(name+publicEnding, 0o022)
		if err != nil {
			return Key{}, err
		}
		return parsePublic(data)
	}
	private, err := k.private(name)
	if err != nil {
		return Key{}, err
	}
	return keyOf(&private.PublicKey)
}

func (k *Keys) private(name string) (*ecdsa.PrivateKey, error) {
	data, err := k.file(name+privateEnding, 0o077)
	if err != nil {
		return nil, err
	}
	return parsePrivate(data)
}

// foreign reads the trusted keys.
func (k *Keys) foreign() (keys []Key, broken []error, err error) {
	entries, err := k.entries(trustedDir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		site, ok := strings.CutSuffix(e.Name(), publicEnding)
		if !ok || strings.HasPrefix(site, ".") {
			continue
		}
		data, err := k.file(filepath.Join(trustedDir, e.Name()), 0o022)
		if err == nil {
			var key Key
			if key, err = parsePublic(data); err == nil {
				key.Site = site
				keys = append(keys, key)
				continue
			}
		}
		broken = append(broken, fmt.Errorf("trusted key %s: %w", site, err))
	}
	return keys, broken, nil
}

// entries lists a directory into which nobody else may put keys.
func (k *Keys) entries(dir string) ([]os.DirEntry, error) {
	info, err := os.Stat(k.path(dir))
	if err != nil {
		return nil, err
	}
	if err := guard(info, 0o022); err != nil {
		return nil, fmt.Errorf("directory %s: %w", k.path(dir), err)
	}
	return os.ReadDir(k.path(dir))
}

// file reads a key's file, unless its mode has one of bits.
func (k *Keys) file(name string, bits os.FileMode) ([]byte, error) {
	f, err := os.OpenFile(k.path(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := guard(info, bits); err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, errs.New(errs.Invalid, "it is not a file of at most %d bytes", maxFile)
	}
	data := make([]byte, info.Size())
	if _, err := f.ReadAt(data, 0); err != nil {
		return nil, err
	}
	return data, nil
}

// guard refuses what others than the service could have read or written.
func guard(info os.FileInfo, bits os.FileMode) error {
	if info.Mode().Perm()&bits != 0 {
		return errs.New(errs.Invalid, "it has mode %04o, by which others reach it", info.Mode().Perm()).
			With(fmt.Sprintf(
				"chmod go-%s it, and rotate keys if one may be known",
				map[bool]string{true: "rwx", false: "w"}[bits == 0o077],
			))
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return errs.New(errs.Invalid, "it belongs to user id %d, who could change it", stat.Uid).
			With("give it to the service's user")
	}
	return nil
}

// make makes a key that is newer than all others, and retires those, unless wanted says no once nobody else changes the
// directory.
func (k *Keys) make(wanted func(ring) bool) (Key, error) {
	unlock, err := k.lock(syscall.LOCK_EX)
	if err != nil {
		return Key{}, err
	}
	defer unlock()
	r, err := k.read()
	if err != nil || !wanted(r) {
		return Key{}, err
	}
	key, err := k.create(r)
	if err != nil {
		return Key{}, err
	}
	for _, old := range r.keys {
		if old.private {
			// The public half was written first, but an administrator may have restored the private one alone.
			err = errors.Join(err, k.write(old.name+publicEnding, old.PEM(), 0o644), k.remove(old.name+privateEnding))
		}
	}
	return key, err
}

func (k *Keys) create(r ring) (Key, error) {
	private, err := generate()
	if err != nil {
		return Key{}, err
	}
	key, err := keyOf(&private.PublicKey)
	if err != nil {
		return Key{}, err
	}
	key.Created, key.Signs, key.private = k.cfg.Now().UTC().Truncate(time.Second), true, true
	for _, old := range r.keys { // the clock may have gone back
		if old.Own() && !old.Created.Before(key.Created) {
			key.Created = old.Created.Add(time.Second)
		}
	}
	key.name = key.file()
	data, err := encodePrivate(private)
	if err != nil {
		return Key{}, err
	}
	if err := k.write(key.name+publicEnding, key.PEM(), 0o644); err != nil {
		return Key{}, err
	}
	return key, k.write(key.name+privateEnding, data, 0o600)
}

// lock keeps others, in this process or another, from changing the directory; with LOCK_EX from reading it too.
func (k *Keys) lock(how int) (unlock func(), err error) {
	dir, err := os.Open(k.cfg.Dir)
	if err != nil {
		return nil, err
	}
	if err := flock(int(dir.Fd()), how); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the directory of keys: %w", err), dir.Close())
	}
	return func() { dir.Close() }, nil
}

func flock(fd, how int) error {
	for {
		if err := syscall.Flock(fd, how); err != syscall.EINTR {
			return err
		}
	}
}

// write makes a file whole or not at all.
func (k *Keys) write(name string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(k.path(name)), ".new-*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone after the rename
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), k.path(name)); err != nil {
		return err
	}
	return syncDir(filepath.Dir(k.path(name)))
}

func (k *Keys) remove(name string) error {
	if err := os.Remove(k.path(name)); err != nil {
		return err
	}
	return syncDir(filepath.Dir(k.path(name)))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
