package credentials

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

const bucket = "wallet"

// record is a credential as it lies in the store: what may be shown, and the seal over what may not.
type record struct {
	Principal string `json:"principal"`
	Facts
	Claims map[string]string `json:"claims,omitempty"` // what the issuer has said of her that rules ask for
	Issued time.Time         `json:"issued,omitzero"`  // when what workloads have now was had
	Ends   time.Time         `json:"ends,omitzero"`    // when the first of what workloads have now ends

	Fault   string    `json:"fault,omitempty"`   // why the last try has failed
	Refused bool      `json:"refused,omitempty"` // nothing is tried any more until the user does something
	Tries   int       `json:"tries,omitempty"`   // that have failed since the last that has not
	Tried   time.Time `json:"tried,omitzero"`
	Owed    owed      `json:"owed,omitzero"`      // by the issuer, for storage elements
	HubMark []byte    `json:"hub_mark,omitempty"` // of the Hub's token that was last taken
	Removed bool      `json:"removed,omitempty"`  // the user has taken it away: that token of the Hub's is not taken again

	Sealed []byte `json:"sealed,omitempty"`
}

func (r record) key() key { return key{r.Principal, r.Name} }

// purpose binds the seal to the user and the issuer: a token is not opened for another address.
func (r record) purpose() string { return "wallet " + r.Name + " " + r.Issuer + " " + r.Principal }

// contents is what is sealed.
type contents struct {
	Refresh string            `json:"refresh,omitempty"`
	Access  string            `json:"access,omitempty"`
	Narrow  map[string]narrow `json:"narrow,omitempty"` // by storage element
	Proxy   string            `json:"proxy,omitempty"`
}

type narrow struct {
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`
}

// recordsOf returns what lies in a store.
func recordsOf(ctx context.Context, s Store) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		for row, err := range s.All(ctx, bucket) {
			var r record
			if err != nil {
				err = fmt.Errorf("read the credentials: %w", err)
			} else if err = json.Unmarshal(row.Value, &r); err != nil {
				err = fmt.Errorf("read the credential %q: %w", row.Key, err)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// Kept reports whether a store has credentials that are sealed, which are of no use without the key.
func Kept(ctx context.Context, s Store) (bool, error) {
	for r, err := range recordsOf(ctx, s) {
		if err != nil || len(r.Sealed) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}

func (w *Manager) open(r record) (contents, error) {
	var c contents
	plain, err := w.cfg.Sealer.Open(r.Sealed, r.purpose())
	if err == nil {
		err = json.Unmarshal(plain, &c)
	}
	if err != nil {
		return contents{}, errs.New(errs.Conflict, "the credential %q cannot be opened: %w", r.Name, err).
			With("log in again, or give it again")
	}
	return c, nil
}

// save brings a record to the disk and into force, in that order.
func (w *Manager) save(ctx context.Context, r record, c contents) error {
	plain, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("keep a credential: %w", err)
	}
	r.Sealed = w.cfg.Sealer.Seal(plain, r.purpose())
	return w.keep(ctx, r)
}

// keep is save for what is sealed already. When the disk does not take it, it is in force all the same: what the issuer
// has replaced is of no use to anybody. It is done also when who asked has gone away.
func (w *Manager) keep(ctx context.Context, r record) error {
	ctx = context.WithoutCancel(ctx)
	err := w.cfg.Store.Put(ctx, bucket, r.key().text(), r)
	if err == nil {
		err = w.cfg.Store.Sync(ctx)
	}
	w.take(r, false)
	if err != nil {
		return fmt.Errorf("keep the credential %q: %w", r.Name, err)
	}
	return nil
}

// drop removes a record from the disk, for good, then from force.
func (w *Manager) drop(ctx context.Context, r record) error {
	ctx = context.WithoutCancel(ctx)
	err := w.cfg.Store.Delete(ctx, bucket, r.key().text())
	if err == nil {
		err = w.cfg.Store.Sync(ctx)
	}
	if err != nil {
		return fmt.Errorf("remove the credential %q: %w", r.Name, err)
	}
	w.take(r, true)
	return nil
}

// markOf returns what a token of the Hub's is known again by.
func (w *Manager) markOf(token secret.Text) []byte {
	h := hmac.New(sha256.New, w.mark)
	h.Write([]byte(token.Reveal()))
	return h.Sum(nil)
}

// entry returns what may be shown of a record.
func (w *Manager) entry(r record, now time.Time) Entry {
	by, _ := w.whose(r) // that it is refused is its trouble
	return Entry{
		Facts: r.Facts, Rule: by,
		Renewable: r.Kind == Token && !r.Refused && w.serves(r), Trouble: w.trouble(r, now),
	}
}

// serves reports whether the configuration has the issuer of a record, at the same address.
func (w *Manager) serves(r record) bool {
	s, ok := w.tokens[r.Name]
	return ok && s.Issuer.URL() == r.Issuer
}

// trouble says what is wrong with a credential, and what its user does.
func (w *Manager) trouble(r record, now time.Time) string {
	left := r.Expires.Sub(now)
	holds := "what sessions and jobs have of it has ended"
	if left > 0 {
		holds = "what sessions and jobs have of it holds until " + r.Expires.UTC().Format("2006-01-02 15:04 UTC")
	}
	_, refused := w.whose(r)
	switch {
	case refused != nil && !errs.Is(refused, errs.Forbidden):
		return "whether it is yours by the site's rules cannot be asked (" + errs.Brief(refused) +
			"): sessions and jobs keep it. Tell your administrator if this lasts"
	case refused != nil:
		return "sessions and jobs do not get it: " + errs.Brief(refused) +
			". Remove it, and log in again as yourself; if it is you, tell your administrator"
	case r.Kind == Proxy && left <= 0:
		return "it has ended: put a new one"
	case r.Kind == Proxy && left < min(proxyWarning, r.Expires.Sub(r.Issued)/5):
		return "it ends at " + r.Expires.UTC().Format("2006-01-02 15:04 UTC") + ": put a new one"
	case r.Kind == Proxy:
		return ""
	case !w.serves(r):
		return "this service does not know its issuer any more: remove it; " + holds
	case r.Refused:
		return "it cannot be renewed any more (" + r.Fault + "): log in again; " + holds
	case r.Owed.Tries > 1 && r.Tries <= 1:
		return fmt.Sprintf(
			"tokens for storage elements could not be had (%s); they are asked for again by themselves, and %s",
			r.Owed.Fault, holds,
		)
	case r.Tries > 1: // one may be chance
		return fmt.Sprintf("it could not be renewed (%s); it is tried again by itself, and %s", r.Fault, holds)
	}
	return ""
}

// proxyWarning is how long before its end a proxy is in trouble at the most.
const proxyWarning = 3 * time.Hour
