package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"

	"slipway/internal/errs"
)

// Where a workload's programs find its user's tokens and proxy. The files are renewed while they run. The token is
// named to them from the start, whether or not there is one yet: who looks for tokens goes on to look elsewhere. The
// proxy is named only where there is one at the start, for a name of none keeps XRootD's client from TLS, and so from
// tokens too; one that comes later is found at UsualProxy.
const (
	CredentialsDir = RunDir + "/credentials"   // its user's alone
	TokenFile      = CredentialsDir + "/token" // by WLCG's bearer token discovery
	ProxyFile      = CredentialsDir + "/x509"  //
	TokenFileEnv   = "BEARER_TOKEN_FILE"       // names TokenFile
	ProxyFileEnv   = "X509_USER_PROXY"         // names ProxyFile
	MaxCredentials = 1 << 20                   // bytes of a Credentials on the wire
	mostCredential = 100                       // files
)

// UsualProxy is where Grid programs make this process's user a proxy, and look for one where ProxyFileEnv names none.
func UsualProxy() string { return fmt.Sprintf("/tmp/x509up_u%d", os.Getuid()) }

// Hidden is a text that is sent and not printed.
type Hidden string

// String hides it.
func (Hidden) String() string { return "[secret]" }

// GoString hides it.
func (Hidden) GoString() string { return "[secret]" }

// Credential is one file of CredentialsDir.
type Credential struct {
	Name string `json:"name"`
	Data Hidden `json:"data"`
	Mark int64  `json:"mark,omitempty"` // another one says that the user has put or renewed it, be it the same
}

// Credentials are all that a workload has: what it had before and is not among them is taken away.
type Credentials struct {
	Files []Credential `json:"files"`
}

var plainCredential = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,99}$`)

// Check refuses names that lead elsewhere.
func (c Credentials) Check() error {
	if len(c.Files) > mostCredential {
		return errs.Bad("files", len(c.Files), fmt.Sprintf("at most %d", mostCredential))
	}
	for _, f := range c.Files {
		if !plainCredential.MatchString(f.Name) {
			return errs.Bad(
				"name", shorten(f.Name, 80), "a plain file name of lower-case letters, digits, '.', '_' and '-'",
			)
		}
	}
	return nil
}

// PutCredentials has the workload hold these credentials and no others.
func (c Client) PutCredentials(ctx context.Context, all Credentials) error {
	if err := all.Check(); err != nil {
		return err
	}
	b, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("bring the credentials: %w", err)
	}
	return c.tell(ctx, http.MethodPut, "/credentials", bytes.NewReader(b), int64(len(b)))
}
