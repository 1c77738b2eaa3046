package service

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"slipway/internal/config"
	"slipway/internal/identity"
	"slipway/internal/store"
)

// realms say whose users each hub's are, by the hub's name. Hubs that were taken out of the configuration stay in them:
// what runs or waits for their users goes on as theirs, and must not become that of people of another realm who only
// have their names.
type realms map[string]string

// realmBucket is where the store keeps them.
const realmBucket = "realms"

// recallRealms returns what was known before and what is configured now, which counts.
func recallRealms(ctx context.Context, records *store.Store, hubs []config.Hub) (realms, error) {
	known := realms{}
	for r, err := range records.All(ctx, realmBucket) {
		var realm string
		if err == nil {
			err = json.Unmarshal(r.Value, &realm)
		}
		if err != nil {
			return nil, fmt.Errorf("read whose users the hubs' are: %w", err)
		}
		known[r.Key] = realm
	}
	for _, h := range hubs {
		realm := cmp.Or(h.Realm, identity.Site)
		if known[h.Name] == realm {
			continue
		}
		if err := records.Put(ctx, realmBucket, h.Name, realm); err != nil {
			return nil, err
		}
		known[h.Name] = realm
	}
	return known, nil
}
