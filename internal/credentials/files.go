package credentials

import (
	"context"
	"maps"
	"slices"
	"time"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// Files returns what a user's workloads are to have: her main token as "token", that for a storage element as
// "token-<its name>", those of further issuers as "token-<issuer>", and a proxy as "x509". What has ended stays until
// there is something new: who uses it is told so by the other side.
func (w *Manager) Files(_ context.Context, principal string) ([]File, error) {
	var files []File
	main := "token"
	for _, r := range w.of(principal) {
		if _, err := w.whose(r); errs.Is(err, errs.Forbidden) { // the rules are others than when it was taken
			w.log.Warn(
				"a credential is not given to a user's workloads", "principal", principal, "name", r.Name, "reason",
				errs.Brief(err),
			)
			continue
		} else if err != nil {
			w.log.Warn("the rules cannot be asked whose a credential is: as when it was taken, it is given", "principal", principal, "name", r.Name,
				"reason", errs.Brief(err))
		}
		c, err := w.open(r)
		if err != nil {
			w.log.Error("a user's credential cannot be opened", "name", r.Name, "err", err)
			continue
		}
		if r.Kind == Proxy {
			files = append(files, File{ProxyName, secret.New(c.Proxy), r.Expires, r.Issued})
			continue
		}
		if c.Access != "" {
			name := main
			if main = ""; name == "" {
				name = "token-" + r.Name
			}
			files = append(files, File{name, secret.New(c.Access), r.Expires, r.Issued})
		}
		for _, element := range slices.Sorted(maps.Keys(c.Narrow)) {
			files = append(
				files,
				File{"token-" + element, secret.New(c.Narrow[element].Token), c.Narrow[element].Expires, r.Issued},
			)
		}
	}
	return files, nil
}

// Fresh sees to it that what a workload is about to be given holds for a while: what has ended, or is about to, is
// refreshed first; and who has nothing may have something at the Hub.
func (w *Manager) Fresh(ctx context.Context, principal string) {
	w.Seek(ctx, principal)
	for _, r := range w.of(principal) {
		worn := time.Until(r.Ends) < r.Ends.Sub(r.Issued)/10
		if r.Kind == Token && !r.Refused && worn && time.Since(r.Tried) > firstWait && w.serves(r) {
			_ = w.refresh(ctx, r.key(), time.Now()) // its trouble is in the entry
		}
	}
}

// Stats are counts since the service's start, and what is wrong now.
type Stats struct {
	Refreshes map[[2]string]int // by issuer and result: ok, refused, unavailable, failed
	Held      map[string]int    // credentials by name
	Trouble   map[string]int    // those of them that something is wrong with
}

// Stats counts. Nobody waits meanwhile: the site's rules, which are asked, may be on a file system that does not
// answer.
func (w *Manager) Stats() Stats {
	w.mu.Lock()
	s := Stats{Refreshes: maps.Clone(w.stats), Held: map[string]int{}, Trouble: map[string]int{}}
	records := slices.Collect(maps.Values(w.records))
	w.mu.Unlock()
	now := time.Now()
	for _, r := range records {
		if r.Removed {
			continue
		}
		s.Held[r.Name]++
		if w.trouble(r, now) != "" {
			s.Trouble[r.Name]++
		}
	}
	return s
}

func (w *Manager) count(name, result string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats[[2]string{name, result}]++
}
