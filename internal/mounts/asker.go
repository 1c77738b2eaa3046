package mounts

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway/internal/errs"
)

// AskerConfig is what an Asker needs.
type AskerConfig struct {
	Program  []string      // argv of what looks, but for what it is asked
	Deadline time.Duration // for one answer
}

// Asker asks file systems that may never answer, each question in a process of its own.
type Asker struct {
	cfg AskerConfig

	mu    sync.Mutex
	stuck map[string][]*child // that can neither be ended nor waited for, by what they look at
}

// NewAsker makes an Asker.
func NewAsker(cfg AskerConfig) *Asker {
	return &Asker{cfg: cfg, stuck: map[string][]*child{}}
}

// mostStuck bounds the processes that hang in one place: whoever asks after those is told at once that it does not answer.
const mostStuck = 4

// Ask has a process look at what lies below place, and gives what it says; an error of kind Unavailable: it does not answer.
func (a *Asker) Ask(ctx context.Context, place string, question ...string) ([]byte, error) {
	if a.hanging(place) >= mostStuck {
		return nil, silent(place)
	}
	c, err := begin(slices.Concat(a.cfg.Program, question))
	if err != nil {
		return nil, err
	}
	said, heard, err := c.read(ctx, a.cfg.Deadline)
	if !c.end() {
		a.mu.Lock()
		a.stuck[place] = append(a.stuck[place], c)
		a.mu.Unlock()
	}
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !heard:
		return nil, silent(place)
	}
	return said, nil
}

func silent(place string) error {
	return errs.New(errs.Unavailable, "%s does not answer", strings.TrimSuffix(place, "/")).
		With("the administrator looks at the file system there, and at the server that it is on")
}

// hanging counts the processes that hang in a place, and forgets those that have ended.
func (a *Asker) hanging(place string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stuck[place] = slices.DeleteFunc(a.stuck[place], (*child).gone)
	return len(a.stuck[place])
}

// Propagates reports whether what is mounted below a directory later reaches those who have bound it. It takes the path as it is, without
// links, and touches nothing.
func Propagates(dir string) bool {
	info, err := readMountinfo()
	if err != nil {
		return false
	}
	shared, _ := propagates(info, dir)
	return shared
}
