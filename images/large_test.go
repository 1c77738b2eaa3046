package images

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/errs"
)

// aKey makes a private key.
func aKey(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// TestSecretsInLargeFiles: of files that are more than 1 MiB long texts are searched, where the session has changed
// them, in a graft and in a tree that is packed whole.
func TestSecretsInLargeFiles(t *testing.T) {
	key := aKey(t)
	big := func(at int) string {
		text := strings.Repeat("a line of a log\n", 3<<16)
		return text[:at] + "\n" + key + text[at:]
	}
	for name, options := range map[string]string{"graft": "", "whole tree": "redirect_dir=on,"} {
		f := newFixture(t, func(root string) error {
			return errors.Join(write(filepath.Join(root, "opt/base.log"), big(0)), write(filepath.Join(root, "opt/dir/x"), "x"), write(filepath.Join(root, "var/mail/x"), "x"))
		})
		f.options = options
		f.change(func(root string) error {
			err := write(filepath.Join(root, "opt/dir/big.log"), big(2<<20))
			if options != "" {
				err = errors.Join(err, os.Rename(filepath.Join(root, "var/mail"), filepath.Join(root, "opt/there")))
			}
			return err
		})
		_, err := newLibrary(t).Freeze(t.Context(), Request{Owner: "alice", Key: "s1", Source: f.source()})
		e, ok := errors.AsType[*errs.Error](err)
		if !ok || len(e.Details) != 1 || e.Details[0].Path != "/opt/dir/big.log" || e.Details[0].Line != 2<<20/16+2 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
