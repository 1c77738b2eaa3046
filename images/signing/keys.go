package signing

import (
	"cmp"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"slipway/internal/errs"
)

// Config tells New where the keys are.
type Config struct {
	Dir  string           // of the service alone; made when it is missing
	Now  func() time.Time // time.Now in production
	Log  *slog.Logger
	Site string // this site's name, for statements
}

// Keys are a site's keys. They are safe for concurrent use, by several processes too.
type Keys struct {
	cfg Config
}

// New opens the directory of keys, and makes the first key when it has none. Every key there must be fit for use;
// later, a foreign key that is not is left out, so that it stops no work.
func New(cfg Config) (*Keys, error) {
	k := &Keys{cfg}
	if err := errors.Join(os.MkdirAll(cfg.Dir, 0o700), os.MkdirAll(k.path(trustedDir), 0o700)); err != nil {
		return nil, fmt.Errorf("make the directory of keys: %w", err)
	}
	if err := k.start(); err != nil {
		return nil, fmt.Errorf("open the keys in %s: %w", cfg.Dir, err)
	}
	return k, nil
}

func (k *Keys) start() error {
	r, err := k.ring()
	if err == nil {
		err = errors.Join(r.broken...)
	}
	if err != nil || r.signing() != nil {
		return err
	}
	_, err = k.make(func(r ring) bool { return r.signing() == nil })
	return err
}

// List returns every key whose signatures count: own ones, newest first, then the trusted ones by site.
func (k *Keys) List() ([]Key, error) {
	r, err := k.ring()
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	return r.keys, nil
}

// Rotate makes a new key, which signs from now on, and destroys the private halves of all others. What they have signed
// stays valid until their public halves are removed.
func (k *Keys) Rotate() (Key, error) {
	key, err := k.make(func(ring) bool { return true })
	if err != nil {
		return Key{}, fmt.Errorf("rotate keys: %w", err)
	}
	k.cfg.Log.Info("a new key signs environments", "key", key.ID)
	return key, nil
}

// Remove makes an own key's signatures count no longer. The key that signs now cannot be removed.
func (k *Keys) Remove(id string) error {
	r, err := k.ring()
	if err != nil {
		return fmt.Errorf("remove key: %w", err)
	}
	at := slices.IndexFunc(r.keys, func(key Key) bool { return key.Own() && key.ID == id })
	switch {
	case at < 0:
		return errs.New(errs.NotFound, "this site has no key %.80q", id)
	case r.keys[at].private:
		return errs.New(errs.Conflict, "the key %s signs now", id).With("rotate keys first")
	}
	k.cfg.Log.Warn("signatures of an own key count no longer", "key", id)
	return k.remove(r.keys[at].name + publicEnding)
}

// Trust makes the signatures of a site count. One site may have several keys, under several names.
func (k *Keys) Trust(site string, publicKey []byte) (Key, error) {
	if !siteName.MatchString(site) {
		return Key{}, errs.Bad("site", site, "lower case letters, digits, dots and dashes, at most 64")
	}
	key, err := parsePublic(publicKey)
	if err != nil {
		return Key{}, fmt.Errorf("trust %s: %w", site, err)
	}
	r, err := k.ring()
	if err != nil {
		return Key{}, fmt.Errorf("trust %s: %w", site, err)
	}
	if slices.ContainsFunc(r.keys, func(own Key) bool { return own.Own() && own.ID == key.ID }) {
		return Key{}, errs.New(
			errs.Conflict, "trust %s: the key %s is this site's own, whose signatures count already", site, key.ID,
		).With("name the file with what `slipway keys show` printed at the other site")
	}
	if err := k.write(filepath.Join(trustedDir, site+publicEnding), key.PEM(), 0o644); err != nil {
		return Key{}, fmt.Errorf("trust %s: %w", site, err)
	}
	k.cfg.Log.Warn("signatures of another site count", "site", site, "key", key.ID)
	key.Site = site
	return key, nil
}

// Distrust takes back what Trust has done.
func (k *Keys) Distrust(site string) error {
	if !siteName.MatchString(site) {
		return errs.New(errs.NotFound, "no site %.80q is trusted", site)
	}
	err := k.remove(filepath.Join(trustedDir, site+publicEnding))
	if errors.Is(err, fs.ErrNotExist) {
		return errs.New(errs.NotFound, "no site %.80q is trusted", site)
	}
	k.cfg.Log.Warn("signatures of another site count no longer", "site", site)
	return err
}

// Sign puts payload into an envelope, signed with the newest own key.
func (k *Keys) Sign(payloadType string, payload []byte) ([]byte, error) {
	private, err := k.current()
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return signEnvelope(private, payloadType, payload)
}

func (k *Keys) current() (*ecdsa.PrivateKey, error) {
	unlock, err := k.lock(syscall.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer unlock()
	r, err := k.read()
	if err != nil {
		return nil, err
	}
	key := r.signing()
	if key == nil {
		return nil, errs.New(errs.Missing, "there is no key to sign with in %s", k.cfg.Dir).
			With("rotate keys, or put the key back")
	}
	return k.private(key.name)
}

// Open returns the payload of an envelope and the accepted key that has signed it. The envelope may be a stranger's.
func (k *Keys) Open(payloadType string, envelope []byte) ([]byte, Key, error) {
	r, err := k.ring()
	if err != nil {
		return nil, Key{}, err
	}
	payload, key, err := openEnvelope(r.keys, payloadType, envelope)
	if err != nil && len(r.broken) != 0 {
		k.cfg.Log.Warn("trusted keys that cannot be used", "error", errors.Join(r.broken...))
	}
	return payload, key, err
}

// Unseal is Open for who needs the key's id alone.
func (k *Keys) Unseal(payloadType string, envelope []byte) (payload []byte, keyID string, err error) {
	payload, key, err := k.Open(payloadType, envelope)
	return payload, key.ID, err
}

const (
	trustedDir    = "trusted"
	privateEnding = ".key"
	publicEnding  = ".pem"
)

var siteName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,63}$`)

// ring is what the directory holds at one moment.
type ring struct {
	keys   []Key
	broken []error // foreign keys that cannot be used
}

// signing returns the newest key whose private half is here, nil when there is none.
func (r ring) signing() *Key {
	for i := range r.keys {
		if r.keys[i].Signs {
			return &r.keys[i]
		}
	}
	return nil
}

// ring reads the directory while nobody changes it.
func (k *Keys) ring() (ring, error) {
	unlock, err := k.lock(syscall.LOCK_SH)
	if err != nil {
		return ring{}, err
	}
	defer unlock()
	return k.read()
}

func (k *Keys) read() (ring, error) {
	own, err := k.own()
	if err != nil {
		return ring{}, err
	}
	slices.SortFunc(
		own, func(a, b Key) int { return cmp.Or(b.Created.Compare(a.Created), strings.Compare(b.name, a.name)) },
	)
	if i := slices.IndexFunc(own, func(key Key) bool { return key.private }); i >= 0 {
		own[i].Signs = true
	}
	foreign, broken, err := k.foreign()
	return ring{append(own, foreign...), broken}, err
}
