package homemounts

import (
	"context"
	"encoding/json"
	"fmt"

	"slipway/hubapi"
	"slipway/internal/homes"
	"slipway/spawner"
)

// alarmBucket is where the store keeps of which marks users were told: a new start of the service tells nobody anew.
const alarmBucket = "homes-told"

// recallAlarm returns what users were told before.
func (m *Mounts) recallAlarm(ctx context.Context) (*homes.Alarm, error) {
	passed := map[string]int{}
	for r, err := range m.cfg.Store.All(ctx, alarmBucket) {
		var mark int
		if err == nil {
			err = json.Unmarshal(r.Value, &mark)
		}
		if err != nil {
			return nil, fmt.Errorf("read who was told how full her directories are: %w", err)
		}
		passed[r.Key] = mark
	}
	return homes.NewAlarm(warnAt(), passed, func(what string, mark int) {
		keep := func() error { return m.cfg.Store.Put(context.Background(), alarmBucket, what, mark) }
		if mark == 0 {
			keep = func() error { return m.cfg.Store.Delete(context.Background(), alarmBucket, what) }
		}
		if err := keep(); err != nil {
			m.cfg.Logger.Warn("of what a user is told now she may be told again", "directory", what, "error", err)
		}
	}), nil
}

// warnAt returns at which percentages of what they may have a user is told, once each.
func warnAt() []int { return []int{80, 95} }

// passes returns the mark beyond which a directory has gone since its user was last told; 0: none.
func (m *Mounts) passes(hub string, user spawner.User, q hubapi.Quota) int {
	if q.Trouble != "" {
		return 0
	}
	return m.alarm.See(m.cfg.Principal(hub, user)+" "+q.Name, q.Percent)
}
