package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway/internal/errs"
	"slipway/internal/gpu"
)

// order is what administrators have said of a GPU. It is in force until they say otherwise, over restarts of the
// service and of the host.
type order struct {
	GPU     string     `json:"gpu"`
	Drained *gpu.Drain `json:"drained,omitempty"`
	// Seen is what spoke against the GPU when it was put back: as long as no more does, it does not take the GPU out
	// again.
	Seen gpu.Health `json:"seen"`
}

// unseen returns what speaks against a GPU that no administrator has seen.
func (o order) unseen(h gpu.Health) gpu.Health {
	if h.Reason != "" && h.Reason != o.Seen.Reason {
		return h
	}
	if h.Xid == o.Seen.Xid && h.Xids <= o.Seen.Xids {
		h.Xid = 0
	}
	if h.ECC <= o.Seen.ECC {
		h.ECC = 0
	}
	h.RowsPending = h.RowsPending && !o.Seen.RowsPending
	return h
}

// fade forgets what does not speak against the GPU any more: when it comes again, it is new.
func (o order) fade(h gpu.Health) order {
	if h.Xid != o.Seen.Xid || h.Xids < o.Seen.Xids {
		o.Seen.Xid, o.Seen.Xids = 0, 0
	}
	o.Seen.ECC = min(o.Seen.ECC, h.ECC)
	o.Seen.RowsPending = o.Seen.RowsPending && h.RowsPending
	if h.Reason != o.Seen.Reason {
		o.Seen.Reason = ""
	}
	return o
}

// Drain takes a GPU out until Resume: what runs on it goes on, nothing new starts. It is in the store before it counts.
// name is an index, a UUID or the beginning of one; the UUID is given back. Who may do so is for the caller to know.
func (f *Fleet) Drain(ctx context.Context, name, by, why string) (uuid string, err error) {
	if uuid, err = f.drain(ctx, name, gpu.Drain{By: by, Why: why, Since: time.Now()}); err != nil {
		return "", err
	}
	return uuid, f.cfg.Store.Sync(ctx)
}

func (f *Fleet) drain(ctx context.Context, name string, d gpu.Drain) (uuid string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if uuid, err = f.findLocked(name); err != nil {
		return "", err
	}
	o := f.book.orders[uuid]
	if o.Drained != nil && d.Why == "" { // a repetition adds nothing
		d = *o.Drained
	}
	o.GPU, o.Drained = uuid, &d
	if err := f.book.putOrder(ctx, o); err != nil {
		return "", fmt.Errorf("drain %s: %w", uuid, err)
	}
	f.publishLocked()
	return uuid, nil
}

// Resume puts a GPU back: it ends its drain and all its quarantines, and what speaks against the GPU now does not take
// it out again until there is more. What it cannot put right is said in left. Repeating it after an error is right: the
// drain is lifted last.
func (f *Fleet) Resume(ctx context.Context, name string) (uuid, left string, err error) {
	if uuid, left, err = f.resume(ctx, name); err != nil {
		return "", "", err
	}
	return uuid, left, f.cfg.Store.Sync(ctx)
}

func (f *Fleet) resume(ctx context.Context, name string) (uuid, left string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if uuid, err = f.findLocked(name); err != nil {
		return "", "", err
	}
	defer f.publishLocked()
	if err := f.liftLocked(ctx, uuid); err != nil {
		return "", "", fmt.Errorf("resume %s: %w", uuid, err)
	}
	c, o := f.cardLocked(uuid), order{GPU: uuid}
	if c != nil {
		o.Seen = c.health
		o.Seen.Lost, o.Seen.Temperature = false, 0
	}
	if err := f.book.putOrder(ctx, o); err != nil {
		return "", "", fmt.Errorf("resume %s: %w", uuid, err)
	}
	if c == nil {
		return uuid, "the driver does not list it", nil
	}
	c.due = true
	poke(f.wake)
	return uuid, f.leftLocked(c), nil
}

// liftLocked ends the quarantines of a GPU. Their records stay for a while: what has failed there is made anew when it
// is needed.
func (f *Fleet) liftLocked(ctx context.Context, uuid string) error {
	for _, q := range f.book.active(uuid, time.Now()) {
		key := placeKey(uuid, q.Slice.Placement)
		q.Lifted, q.Stuck = true, false
		if err := f.book.store.Put(ctx, bucketQuarantine, key, q); err != nil {
			return err
		}
		f.book.quarantines[key] = q
	}
	return nil
}

// leftLocked says what keeps a GPU, or a part of it, out of use though an administrator has put it back.
func (f *Fleet) leftLocked(c *card) string {
	v := f.view(c)
	var words []string
	switch {
	case v.condition != gpu.Ready:
		words = append(words, fmt.Sprintf("it is %s: %s", v.condition, v.why))
	case v.why != "":
		words = append(words, v.why)
	}
	if n := len(v.strangers); n > 0 && c.rule.Mode == gpu.MIG {
		words = append(words, fmt.Sprintf("%d processes that no workload has started are on parts of it", n))
	}
	if f.fault != "" {
		words = append(words, "the GPUs cannot be asked now: "+f.fault)
	}
	if len(words) == 0 {
		return ""
	}
	return strings.Join(words, "; ") + " (what the configuration says, what others run or have made, and a GPU that is lost are not put right by this)"
}

// findLocked returns the UUID of a GPU by its index, its UUID or the beginning of that. One that is not there any more
// but was drained is known too.
func (f *Fleet) findLocked(name string) (string, error) {
	var all, found []string
	note := func(uuid, shown string, named bool) {
		all = append(all, shown)
		if named {
			found = append(found, uuid)
		}
	}
	begins := func(uuid string) bool {
		return name != "" && strings.HasPrefix(strings.ToLower(uuid), strings.ToLower(name))
	}
	for _, c := range f.cards {
		if strings.EqualFold(name, c.uuid) {
			return c.uuid, nil
		}
		index := strconv.Itoa(c.device.Index)
		note(c.uuid, index+" ("+c.uuid+")", name == index || begins(c.uuid))
	}
	for _, uuid := range slices.Sorted(maps.Keys(f.book.orders)) {
		if f.cardLocked(uuid) == nil {
			note(uuid, uuid+" (not listed by the driver)", begins(uuid))
		}
	}
	there := "there is " + strings.Join(all, ", ")
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", errs.New(errs.Invalid, "gpu: %.80q is the beginning of %s", name, strings.Join(found, " and of ")).
			With("say more of it; " + there)
	case len(all) == 0:
		return "", errs.New(errs.NotFound, "there is no GPU %.80q: none is known here", name).With("`slipway doctor` says whether the driver answers")
	}
	return "", errs.New(errs.NotFound, "there is no GPU %.80q", name).
		With("an index, a UUID or the beginning of one; " + there)
}

// notice has the order of a GPU forget what does not speak against it any more. The lock is held.
func (f *Fleet) notice(c *card) {
	o, ok := f.book.orders[c.uuid]
	if !ok || c.health.Lost {
		return
	}
	faded := o.fade(c.health)
	if faded == o {
		return
	}
	if err := f.book.putOrder(context.Background(), faded); err != nil {
		f.log.Warn("that a GPU is well again is not saved", "gpu", c.uuid, "err", err)
		f.book.orders[c.uuid] = faded
	}
}

// drained says who has taken a GPU out, and what speaks against it. The lock is held.
func (f *Fleet) drained(c *card) string {
	o := f.book.orders[c.uuid]
	var words []string
	if o.Drained != nil {
		words = append(words, o.Drained.String())
	}
	if c.rule.Drain {
		words = append(words, "taken out by the administrator (gpu.devices: drain)")
	}
	if sick := sickness(o.unseen(c.health)); sick != "" {
		words = append(words, sick)
	}
	return strings.Join(words, "; ")
}
