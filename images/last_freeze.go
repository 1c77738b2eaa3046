package images

import (
	"os"

	"slipway/images/libdir"
	"slipway/images/pin"
	"slipway/images/records"
	"slipway/internal/errs"
)

// lastFreeze is what a source's last freeze found.
type lastFreeze struct {
	Owner    string `json:"owner"`
	Key      string `json:"key"`
	Identity string `json:"identity"`
	Frozen   frozen `json:"frozen"`
}

func (l *Library) saveLast(req Request, id string, f frozen) error {
	return libdir.WriteJSON(
		l.dir.Path("sources", libdir.Escape(req.Owner)), libdir.Escape(req.Key)+".json",
		lastFreeze{Owner: req.Owner, Key: req.Key, Identity: id, Frozen: f},
	)
}

// last returns what the source's last freeze made, when that is still what a freeze would make and its files are still
// there.
func (l *Library) last(req Request, id string) (frozen, bool) {
	var last lastFreeze
	if err := libdir.ReadJSON(l.dir.Path("sources", libdir.Escape(req.Owner), libdir.Escape(req.Key)+".json"), &last); err != nil {
		return frozen{}, false
	}
	f := last.Frozen
	l.keepFor(f.Digest, pin.Grace)
	if last.Owner != req.Owner || last.Key != req.Key || last.Identity != id || !l.complete(f.Digest, f.Size) ||
		!allows(req.Allow, f.Allowed) {
		return frozen{}, false
	}
	f.unchanged, f.Paused = true, 0
	return f, true
}

// complete says whether an environment's files are there, and none is known to be damaged; the image may have grown by
// signatures since it had size bytes.
func (l *Library) complete(digest string, size int64) bool {
	if _, err := l.document(digest); err != nil || l.isSpoilt(digest) {
		return false
	}
	st, err := os.Stat(l.dir.Image(digest))
	return err == nil && st.Size() >= size
}

// enter makes sure that the owner's references lead to what was frozen, and returns it as this request named it.
func (l *Library) enter(req Request, f frozen) (records.Environment, error) {
	l.Records.Lock()
	defer l.Records.Unlock()
	if l.abandoned[f.Digest] {
		return records.Environment{}, errs.New(
			errs.Conflict, "another freeze that made the same environment failed and took it away",
		).With("freeze again")
	}
	e, changed, err := l.Records.Enter(records.Entry{
		Content: f.Content, Owner: req.Owner,
		Label: records.Label{Name: req.Name, Tag: req.Tag, Note: req.Note, Key: req.Key},
		Use:   req.Use, Paused: f.Paused, Instead: req.Instead,
	})
	if err != nil {
		return records.Environment{}, err
	}
	e.Unchanged = f.unchanged
	if !changed {
		return e, nil
	}
	if _, err := l.facts(f.Digest); err == nil { // else they are tried when it is settled
		l.trials.Add(f.Digest)
	}
	return e, nil
}
