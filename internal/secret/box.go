//go:build linux

package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// keySize is that of AES-256.
const keySize = 32

// Box seals secrets that must survive a restart, so that they can lie in a database: AES-256 in Galois/Counter Mode
// with a random nonce for each seal (NIST SP 800-38D). Its key lies in a file of its own; who has the database alone
// has nothing. It is safe for concurrent use.
type Box struct {
	key  []byte
	aead cipher.AEAD
}

// OpenBox opens the box whose key is in file, and makes the key when there is none.
func OpenBox(file string) (*Box, error) {
	key, err := readKey(file)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = makeKey(file)
	}
	if err != nil {
		return nil, fmt.Errorf("open the secret key: %w", err)
	}
	return boxOf(key)
}

// NewBox makes a box whose key nobody else has, and which is gone with the process.
func NewBox() *Box {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	b, _ := boxOf(key)    // nor this with a key of that size
	return b
}

func boxOf(key []byte) (*Box, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &Box{key, aead}, err
}

func readKey(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf(
			"%s has mode %04o: others can read it; chmod 600 it, or remove it when it may be known", file,
			info.Mode().Perm(),
		)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return nil, fmt.Errorf(
			"%s belongs to user id %d, who knows it: give it to the service's user, or remove it", file, stat.Uid,
		)
	}
	key, err := os.ReadFile(file)
	if err == nil && len(key) != keySize {
		err = fmt.Errorf("%s holds %d bytes, not %d: it is damaged; restore it, or remove it", file, len(key), keySize)
	}
	return key, err
}

// makeKey writes a new key, which is on the disk before it is used.
func makeKey(file string) ([]byte, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	f, err := os.CreateTemp(filepath.Dir(file), ".key-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name()) // gone after the rename
	_, err = f.Write(key)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	if err := os.Rename(f.Name(), file); err != nil {
		return nil, err
	}
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	return key, errors.Join(dir.Sync(), dir.Close())
}

// Derive returns a key of 32 bytes for a purpose (HKDF, RFC 5869): the same after a restart, and of no use for finding
// the box's own or that for another purpose.
func (b *Box) Derive(purpose string) []byte {
	key, _ := hkdf.Expand(sha256.New, b.key, purpose, keySize) // never fails for so few bytes
	return key
}

// Seal seals plain. What is sealed for one purpose is not opened for another.
func (b *Box) Seal(plain []byte, purpose string) []byte {
	return b.aead.Seal(nil, nil, plain, []byte(purpose))
}

// Open opens what Seal has made. It fails for what was changed, sealed with another key or for another purpose.
func (b *Box) Open(sealed []byte, purpose string) ([]byte, error) {
	plain, err := b.aead.Open(nil, nil, sealed, []byte(purpose))
	if err != nil {
		return nil, errors.New("it was sealed with another key, or changed since")
	}
	return plain, nil
}
