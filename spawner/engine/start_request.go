package engine

import (
	"context"
	"encoding/json"
	"time"

	"slipway/internal/agent/control"
	"slipway/spawner"
)

// purpose ties what is sealed to one start of one session.
func purpose(id spawner.ID, launch string) string { return string(id) + " " + launch }

// Start saves that e, a new workload or one that is kept, is to be started, and completes it by also. Its secrets are
// sealed for its record, so that the start outlives a restart of the service.
func (tx Tx) Start(ctx context.Context, e *Entry, launch string, secrets control.Env, also func(*Entry)) error {
	if secrets == nil {
		secrets = control.Env{} // there are none, and none are lost
	}
	now, turn := time.Now(), tx.r.sched.NextTurn()
	plain, err := json.Marshal(map[string]string(secrets))
	if err != nil {
		return err
	}
	sealed := tx.r.sealer.Seal(plain, purpose(e.ID, launch))
	return tx.Change(ctx, e, func(e *Entry) {
		e.Launch, e.Want, e.Started, e.Turn = launch, spawner.WantRunning, now, turn
		e.Secrets, e.Sealed = secrets, sealed
		e.Begun, e.Collecting = false, time.Time{} // should it have run unseen, it is started anew
		also(e)
	})
}

// unseal gives back the secrets of a start that an earlier run of the service began; nil when there are none, or the
// service's key is another one now.
func (r *Records) unseal(w spawner.Workload) control.Env {
	if len(w.Sealed) == 0 {
		return nil
	}
	plain, err := r.sealer.Open(w.Sealed, purpose(w.ID, w.Launch))
	secrets := control.Env{}
	if err == nil {
		err = json.Unmarshal(plain, &secrets)
	}
	if err != nil {
		r.log.Error("the secrets of a start cannot be opened", "id", w.ID, "err", err)
		return nil
	}
	return secrets
}
