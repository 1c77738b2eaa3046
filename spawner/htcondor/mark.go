package htcondor

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// leastKey is how many bytes Config.MarkKey has at least.
const leastKey = 32

// signet marks the service's own jobs. Everybody in a pool can read the attributes of all jobs and submit some with the
// same, so a job is the service's only where it bears the mark of its account, workload and run, which only the service
// can make. An account that copies a mark of its own jobs gains nothing: what they are, it may end as well.
type signet struct {
	instance string
	key      []byte
}

func (c Config) signet() signet { return signet{c.Instance, c.MarkKey} }

// mark returns the mark of a run of a workload, as a job of an account. Only the run, which comes last, may have the
// sign that parts them.
func (s signet) mark(login, id, run string) string {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(strings.Join([]string{s.instance, login, id, run}, "|")))
	return hex.EncodeToString(h.Sum(nil))
}

// owns reports whether a job is the service's. Its owner is the schedd's word: nobody can say there that he is another.
func (s signet) owns(w wireJob) bool {
	return string(w.SlipwayInstance) == s.instance && validID.MatchString(string(w.SlipwayID)) && !strings.Contains(string(w.Owner), "|") &&
		hmac.Equal([]byte(w.SlipwayMark), []byte(s.mark(string(w.Owner), string(w.SlipwayID), string(w.SlipwayLaunch))))
}
