package mounts

import (
	"context"
	"slices"
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
	stuck map[string][]hung // by the root of what they look at
}

// hung is a process that can neither be ended nor waited for.
type hung struct {
	*child
	place string
}

// NewAsker makes an Asker.
func NewAsker(cfg AskerConfig) *Asker {
	return &Asker{cfg: cfg, stuck: map[string][]hung{}}
}

// The processes that hang are bounded: whoever asks after those is told at once that it does not answer. Below a root
// may lie the mounts of many servers, of which one is silent.
const (
	mostStuck = 1  // in one place, of those that are asked for one after the other
	mostBelow = 64 // below one root
)

// Ask has a process look at a place below a root, and gives what it says; an error of kind Unavailable: it does not
// answer.
func (a *Asker) Ask(ctx context.Context, root, place string, question ...string) ([]byte, error) {
	if here, below := a.hanging(root, place); here >= mostStuck || below >= mostBelow {
		return nil, silent(place)
	}
	c, err := begin(slices.Concat(a.cfg.Program, question))
	if err != nil {
		return nil, err
	}
	said, heard, err := c.read(ctx, a.cfg.Deadline)
	if !c.end() {
		a.mu.Lock()
		a.stuck[root] = append(a.stuck[root], hung{c, place})
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
	return errs.New(errs.Unavailable, "%s does not answer", place).
		With("the administrator looks at the file system there, and at the server that it is on")
}

// hanging counts the processes that hang in a place, and below a root, and forgets those that have ended.
func (a *Asker) hanging(root, place string) (here, below int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stuck[root] = slices.DeleteFunc(a.stuck[root], func(h hung) bool { return h.gone() })
	for _, h := range a.stuck[root] {
		if h.place == place {
			here++
		}
	}
	return here, len(a.stuck[root])
}

// Propagates reports whether what is mounted below a directory later reaches those who have bound it. It takes the path
// as it is, without links, and touches nothing.
func Propagates(dir string) bool {
	info, err := readMountinfo()
	if err != nil {
		return false
	}
	shared, _ := propagates(info, dir)
	return shared
}
