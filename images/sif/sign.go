package sif

import (
	"bytes"
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"slipway/internal/errs"
)

// ErrChanged tells that a file is no longer what an accepted key has signed.
var ErrChanged = errors.New("it is not what was signed")

// Seal signs a payload and gives the DSSE envelope that holds both.
type Seal func(payloadType string, payload []byte) (envelope []byte, err error)

// Unseal returns the payload of a DSSE envelope and the id of the accepted key that has signed it, or says why none has.
type Unseal func(payloadType string, envelope []byte) (payload []byte, keyID string, err error)

// Sign appends a signature to the SIF in f, which it reads whole; progress gets the bytes read since its last call and
// may be nil. Readers of the file meanwhile see it without the signature or with it. A crash may leave a half: Repair
// takes it away.
func Sign(ctx context.Context, f *os.File, seal Seal, progress func(int64)) error {
	return SignAs(ctx, f, f, seal, progress)
}

// SignAs is Sign for a file that has holes where r, which otherwise reads the file, has what belongs there.
func SignAs(ctx context.Context, f *os.File, r io.ReaderAt, seal Seal, progress func(int64)) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	i, err := Open(r, info.Size())
	if err != nil {
		return err
	}
	if len(i.Signatures) == descriptors-2 {
		return errs.New(errs.Conflict, "the SIF has no room for another signature: it has %d", len(i.Signatures))
	}
	m, err := i.digests(ctx, progress)
	if err != nil {
		return err
	}
	payload, err := m.encode()
	if err != nil {
		return err
	}
	envelope, err := seal(payloadType, payload)
	if err != nil {
		return fmt.Errorf("sign the SIF: %w", err)
	}
	return i.append(f, envelope)
}

// append writes the signature behind everything else, and then the head that tells of it.
func (i *Image) append(f *os.File, envelope []byte) error {
	w := &window{}
	copy(w.head[:], i.head)
	if err := w.add(bytes.NewReader(envelope), crypto.SHA256, nil); err != nil {
		return fmt.Errorf("describe the signature: %w", err)
	}
	if _, err := f.WriteAt(w.behind, w.start); err != nil {
		return fmt.Errorf("append the signature: %w", noSpace(err))
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("flush the signature: %w", noSpace(err))
	}
	if _, err := f.WriteAt(w.head[:], 0); err != nil {
		return fmt.Errorf("write the signed head: %w", noSpace(err))
	}
	return f.Sync()
}

// Verify reads the whole file and gives the ids of the keys that have signed what it holds. It fails when there is
// none, and with ErrChanged when an accepted key has signed something else. Signatures by other keys, and PGP's, are
// passed over.
func (i *Image) Verify(ctx context.Context, unseal Unseal, progress func(int64)) (keyIDs []string, err error) {
	signed, passed, err := i.statements(unseal)
	if err != nil {
		return nil, err
	}
	if len(signed) == 0 {
		return nil, errs.New(errs.Forbidden, "the SIF has %d signatures and none by a key that is accepted here: %w",
			len(i.Signatures), errors.Join(passed...)).
			With("ask who made it to sign it, and the administrator to trust that key")
	}
	m, err := i.digests(ctx, progress)
	if err != nil {
		return nil, err
	}
	for _, s := range signed {
		if part := m.differs(s.metadata); part != "" {
			return nil, errs.New(
				errs.Invalid, "the SIF's %s has been changed since %s signed it: %w", part, s.keyID, ErrChanged,
			).With("fetch or freeze it again")
		}
		keyIDs = append(keyIDs, s.keyID)
	}
	return keyIDs, nil
}

type statement struct {
	metadata
	keyID string
}

// statements returns what accepted keys have signed, and why the other signatures do not count.
func (i *Image) statements(unseal Unseal) (signed []statement, passed []error, err error) {
	for _, span := range i.Signatures {
		envelope, err := i.read(span)
		if err != nil {
			return nil, nil, err
		}
		payload, keyID, err := unseal(payloadType, envelope)
		if err != nil {
			passed = append(passed, err)
			continue
		}
		s := statement{keyID: keyID}
		if err := json.Unmarshal(payload, &s.metadata); err != nil {
			return nil, nil, errs.New(errs.Invalid, "the SIF's signature by %s cannot be read: %w", keyID, err)
		}
		signed = append(signed, s)
	}
	return signed, passed, nil
}
