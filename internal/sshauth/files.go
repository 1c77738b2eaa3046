package sshauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/crypto/ssh"
)

// keyFile is a file with a private key.
type keyFile struct {
	name string
	kind string // of its public key
	make func() (crypto.PrivateKey, error)
}

// The authorities' files.
const (
	hostAuthority = "host_ca"
	userAuthority = "user_ca"
)

// keyFiles are all that an authority has: the authorities, and the host keys in the order in which clients are to
// prefer them.
func keyFiles() []keyFile {
	ed := func() (crypto.PrivateKey, error) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return []keyFile{
		{hostAuthority, ssh.KeyAlgoED25519, ed},
		{userAuthority, ssh.KeyAlgoED25519, ed},
		{"ssh_host_ed25519_key", ssh.KeyAlgoED25519, ed},
		{
			"ssh_host_ecdsa_key", ssh.KeyAlgoECDSA256,
			func() (crypto.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) },
		},
		{
			"ssh_host_rsa_key", ssh.KeyAlgoRSA,
			func() (crypto.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, rsaLeast) },
		},
	}
}

// open reads the key of a file in dir, or makes it where there is no such file.
func (f keyFile) open(dir string, log *slog.Logger) (ssh.Signer, error) {
	path := filepath.Join(dir, f.name)
	text, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		if text, err = f.write(path); err == nil {
			log.Info("an ssh key is made", "file", path)
		}
	}
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParsePrivateKey(text)
	if err != nil || key.PublicKey().Type() != f.kind {
		return nil, fmt.Errorf("%s holds no %s key: it is damaged; restore it from a backup. Without one remove it: a new key is made, "+
			"of which all users' clients warn, or by which certificates are not known any more", path, f.kind)
	}
	if key.PublicKey().Type() == ssh.KeyAlgoRSA {
		return ssh.NewSignerWithAlgorithms(
			key.(ssh.AlgorithmSigner), []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256},
		)
	}
	return key, nil
}

// readPrivate reads a file that nobody else can have read.
func readPrivate(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf(
			"%s has mode %04o: others can read it; chmod 600 it, or remove it when it may be known", path,
			info.Mode().Perm(),
		)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return nil, fmt.Errorf(
			"%s belongs to user id %d, who knows it: give it to the service's user, or remove it", path, stat.Uid,
		)
	}
	return os.ReadFile(path)
}

// write makes a new key, which is on the disk before it is used. What is there in the meantime stays.
func (f keyFile) write(path string) ([]byte, error) {
	key, err := f.make()
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, "slipway "+f.name)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(block)
	file, err := os.CreateTemp(filepath.Dir(path), ".key-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(file.Name(), path); err != nil {
		return nil, err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	return text, errors.Join(dir.Sync(), dir.Close())
}

// makeDir makes the directory of the files, or sees that others cannot look into it.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = fmt.Errorf("%s has mode %04o: others can look into it; chmod 700 it", dir, info.Mode().Perm())
	}
	return err
}
