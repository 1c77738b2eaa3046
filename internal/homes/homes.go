package homes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"slipway/internal/errs"
	"slipway/internal/mounts"
)

// LookTime is how long a home or an area may take to answer. A start waits no longer for it.
const LookTime = 5 * time.Second

// Config is what Homes need.
type Config struct {
	Program  []string      // argv of what calls Look, but for its last argument
	Deadline time.Duration // for one look; 0: LookTime
}

// Homes look at directories. They are safe for concurrent use.
type Homes struct{ asker *mounts.Asker }

// New makes Homes.
func New(cfg Config) *Homes {
	return &Homes{mounts.NewAsker(mounts.AskerConfig{Program: cfg.Program, Deadline: cmp.Or(cfg.Deadline, LookTime)})}
}

// Want is a directory that somebody is to have.
type Want struct {
	Template Template
	Who      Who
	Groups   []int // whose quotas may bound her
	Checks
}

// Checks are what is seen to before a home is found.
type Checks struct {
	Create bool `json:"create,omitempty"` // make it when it is missing
	Hers   bool `json:"hers,omitempty"`   // refuse one that is another's
	// Guarded refuses a root that is another's than the site's, or that others can write to, where nothing is looked
	// for below it.
	Guarded bool `json:"guarded,omitempty"`
	Mounted bool `json:"mounted,omitempty"` // refuse where nothing is mounted at the template's root
}

// Found is one that is there.
type Found struct {
	Path       string // without links: nobody but the site can put another in its place
	Propagates bool   // what is mounted below it later is seen by those who bind it
	ReadOnly   bool   // its file system is
	Limits     []Limit
}

// Find finds a directory, and makes it where it may. An error of kind Unavailable: it does not answer, or not now.
func (h *Homes) Find(ctx context.Context, w Want) (Found, error) {
	rest, err := w.Template.fill(w.Who)
	if err != nil {
		return Found{}, err
	}
	q := question{
		Root: w.Template.root, Rest: rest, UID: w.Who.UID, GID: w.Who.GID, Groups: w.Groups,
		Checks: Checks{
			Create: w.Create, Hers: w.Hers && len(rest) > 0, Guarded: w.Guarded, Mounted: w.Mounted,
		}, Limits: true,
	}
	text, err := json.Marshal(q)
	if err != nil {
		return Found{}, err
	}
	said, err := h.asker.Ask(
		ctx, w.Template.root, filepath.Join(append([]string{w.Template.root}, rest...)...), string(text),
	)
	if err != nil {
		return Found{}, err
	}
	var a answer
	if err := json.Unmarshal(said, &a); err != nil {
		return Found{}, fmt.Errorf(
			"look at %s: the process that looks ended with %q", w.Template.root, strings.TrimSpace(string(said)),
		)
	}
	if a.Trouble != nil {
		return Found{}, a.Trouble.error()
	}
	if a.Path == "" {
		return Found{}, errs.New(errs.Internal, "look at %s: no path was said", w.Template.root)
	}
	return Found{Path: a.Path, Propagates: mounts.Propagates(a.Path), ReadOnly: a.ReadOnly, Limits: a.Limits}, nil
}
