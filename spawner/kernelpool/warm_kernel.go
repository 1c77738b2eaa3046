package kernelpool

import (
	"context"
	"reflect"
	"strings"

	"slipway/spawner"
	"slipway/spawner/engine"
)

// alike reports whether kernels of two specs are started in the same way, up to what their clients say.
func alike(a, b spawner.Spec) bool {
	a.Life, b.Life = spawner.Life{}, spawner.Life{}
	for _, s := range []*spawner.Spec{&a, &b} {
		s.Env = withoutClients(s.Env)
	}
	return reflect.DeepEqual(a, b)
}

// withoutClients leaves out the variables that are a kernel's client's: their names begin all alike.
func withoutClients(env map[string]string) map[string]string {
	own := map[string]string{}
	for name, value := range env {
		if !strings.HasPrefix(name, "KERNEL_") {
			own[name] = value
		}
	}
	return own
}

// claim makes the kernel that is asked for of one of its owner's standbys; false: none would do.
func (k *Pool) claim(
	ctx context.Context, tx engine.Tx, hub string, r spawner.SessionRequest, account spawner.Account,
) (spawner.Workload, bool, error) {
	r.Spec.GPU = k.engine.InGroup(r.Spec.GPU, hub, r.User)
	for _, e := range tx.Owned(spawner.Principal{Hub: hub, User: r.User}) {
		if e.Standby != r.Name || !e.IsStandby() {
			continue
		}
		if e.Backend != r.Backend || !alike(e.Spec, r.Spec) || !reflect.DeepEqual(e.Account, account) {
			if e.Phase == spawner.Starting { // its account is known then
				tx.StandDown(ctx, e, "it is not what is asked for any more")
			}
			continue
		}
		if !e.Claimable() {
			continue
		}
		err := tx.Start(ctx, e, r.Launch, r.Secrets, func(e *engine.Entry) {
			e.Spec, e.Kernel, e.Session, e.Standby = r.Spec, r.Kernel, r.From, ""
			e.Created, e.Since = e.Started, e.Started
		})
		if err == nil {
			tx.Note(e, spawner.Event{Percent: 50, Message: "A kernel stood ready"})
		}
		return e.Workload, true, err
	}
	return spawner.Workload{}, false, nil
}

// standbys returns those of which is true, the oldest first.
func (k *Pool) standbys(v engine.View, is func(w *spawner.Workload) bool) (list []*engine.Entry) {
	for _, w := range v.Sched().Standbys(is) {
		list = append(list, v.Entry(w.ID))
	}
	return list
}
