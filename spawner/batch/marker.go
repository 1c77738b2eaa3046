package batch

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MinKey is how many bytes the key of a Marker has at least.
const MinKey = 32

// Marker marks the service's own jobs. Everybody in a pool can read the attributes of all jobs and submit some with the
// same, so a job is the service's only where it bears the mark of its account, workload and run, which only the service
// can make. An account that copies a mark of its own jobs gains nothing: what they are, it may end as well.
type Marker struct {
	instance string
	key      []byte
}

// NewMarker returns the marker of a service.
func NewMarker(instance string, key []byte) Marker { return Marker{instance, key} }

// Mark returns the mark of a run of a workload, as a job of an account. Only the run, which comes last, may have the
// sign that parts them.
func (s Marker) Mark(login, id, run string) string {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(strings.Join([]string{s.instance, login, id, run}, "|")))
	return hex.EncodeToString(h.Sum(nil))
}

// Owns reports whether a job with these attributes is the service's. The login is the batch system's word: nobody can
// say there that he is another.
func (s Marker) Owns(instance, login, id, run, mark string) bool {
	return instance == s.instance && ValidID.MatchString(id) && !strings.Contains(login, "|") &&
		hmac.Equal([]byte(mark), []byte(s.Mark(login, id, run)))
}
