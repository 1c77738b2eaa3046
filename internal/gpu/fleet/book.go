package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"slipway/internal/gpu"
)

// The buckets of the store.
const (
	bucketInstances  = "gpu-instances"
	bucketQuarantine = "gpu-quarantine"
	bucketUses       = "gpu-uses"
	bucketOrders     = "gpu-orders"
)

// record says that an instance is ours, or that we are about to make it: then its ids are not known yet.
type record struct {
	GPU       string        `json:"gpu"`
	Profile   string        `json:"profile"`
	Placement gpu.Placement `json:"placement"`
	GI        int           `json:"gi"` // -1: not known yet
	CI        int           `json:"ci"`
	UUID      string        `json:"uuid,omitempty"`
	Made      time.Time     `json:"made"`
	Boot      string        `json:"boot,omitempty"`
}

// is reports whether r speaks of in. A remnant has no UUID, nor has what we were about to make.
func (r record) is(in gpu.Instance) bool {
	return r.GPU == in.GPU && r.Profile == in.Profile && r.Placement == in.Placement && (r.UUID == "" ||
		in.UUID == "" || r.UUID == in.UUID)
}

// use is what a workload has been given that must be taken back: a share of a GPU, or a limit of its control group.
type use struct {
	Holder string    `json:"holder,omitempty"`
	Slice  gpu.Slice `json:"slice"`
	Cgroup string    `json:"cgroup,omitempty"`

	released bool // the engine has said so
}

func (u use) key() string {
	if u.Cgroup != "" {
		return u.Slice.GPU + "/cgroup/" + u.Cgroup
	}
	return u.Slice.GPU + "/" + u.Holder
}

// book is what the store has, in memory. The Fleet's lock guards it.
type book struct {
	store       Store
	instances   map[string]record
	quarantines map[string]quarantine
	uses        map[string]use
	orders      map[string]order // by UUID
}

// placeKey names a place on a GPU in the store.
func placeKey(uuid string, at gpu.Placement) string {
	return fmt.Sprintf("%s/%d-%d", uuid, at.Start, at.Size)
}

// openBook reads the store. Instances do not survive a boot: what another one made is forgotten.
func openBook(ctx context.Context, s Store, boot string) (book, error) {
	b := book{
		store: s, instances: map[string]record{}, quarantines: map[string]quarantine{}, uses: map[string]use{},
		orders: map[string]order{},
	}
	if err := load(ctx, s, bucketInstances, b.instances); err != nil {
		return book{}, err
	}
	if err := load(ctx, s, bucketQuarantine, b.quarantines); err != nil {
		return book{}, err
	}
	if err := load(ctx, s, bucketUses, b.uses); err != nil {
		return book{}, err
	}
	if err := load(ctx, s, bucketOrders, b.orders); err != nil {
		return book{}, err
	}
	for key, r := range b.instances {
		if boot != "" && r.Boot != boot {
			if err := b.forget(ctx, key); err != nil {
				return book{}, err
			}
		}
	}
	return b, nil
}

func load[T any](ctx context.Context, s Store, bucket string, into map[string]T) error {
	for r, err := range s.All(ctx, bucket) {
		if err != nil {
			return err
		}
		var v T
		if err := json.Unmarshal(r.Value, &v); err != nil {
			return fmt.Errorf("decode %s/%s: %w", bucket, r.Key, err)
		}
		into[r.Key] = v
	}
	return nil
}

// own finds the record of an instance.
func (b *book) own(in gpu.Instance) (record, bool) {
	r, ok := b.instances[placeKey(in.GPU, in.Placement)]
	return r, ok && r.is(in)
}

func (b *book) note(ctx context.Context, r record) error {
	key := placeKey(r.GPU, r.Placement)
	if b.instances[key] == r {
		return nil
	}
	if err := b.store.Put(ctx, bucketInstances, key, r); err != nil {
		return err
	}
	b.instances[key] = r
	return nil
}

func (b *book) forget(ctx context.Context, key string) error {
	if err := b.store.Delete(ctx, bucketInstances, key); err != nil {
		return err
	}
	delete(b.instances, key)
	return nil
}

func (b *book) putUse(ctx context.Context, u use) error {
	if err := b.store.Put(ctx, bucketUses, u.key(), u); err != nil {
		return err
	}
	b.uses[u.key()] = u
	return nil
}

func (b *book) dropUse(ctx context.Context, u use) error {
	if err := b.store.Delete(ctx, bucketUses, u.key()); err != nil {
		return err
	}
	delete(b.uses, u.key())
	return nil
}

// putOrder saves what administrators have said of a GPU, and forgets it when that is nothing.
func (b *book) putOrder(ctx context.Context, o order) error {
	if o.Drained == nil && o.Seen == (gpu.Health{}) {
		if err := b.store.Delete(ctx, bucketOrders, o.GPU); err != nil {
			return err
		}
		delete(b.orders, o.GPU)
		return nil
	}
	if err := b.store.Put(ctx, bucketOrders, o.GPU, o); err != nil {
		return err
	}
	b.orders[o.GPU] = o
	return nil
}

// tidy forgets the instances of a GPU that are not there. found is all that is.
func (b *book) tidy(ctx context.Context, uuid string, found []gpu.Instance) error {
	there := map[string]bool{}
	for _, in := range found {
		if _, ok := b.own(in); ok {
			there[placeKey(in.GPU, in.Placement)] = true
		}
	}
	for key, r := range b.instances {
		if r.GPU == uuid && !there[key] {
			if err := b.forget(ctx, key); err != nil {
				return err
			}
		}
	}
	return nil
}
