package engine

import (
	"encoding/json"

	"slipway/internal/agent/control"
	"slipway/spawner"
)

// purpose ties what is sealed to one start of one session.
func purpose(id spawner.ID, launch string) string { return string(id) + " " + launch }

// Seal makes a session's secrets fit for its record, so that a start outlives a restart of the service.
func (m *Manager) Seal(id spawner.ID, launch string, secrets control.Env) []byte {
	plain, err := json.Marshal(map[string]string(OrEmpty(secrets)))
	if err != nil {
		return nil // strings always have a JSON form
	}
	return m.cfg.Sealer.Seal(plain, purpose(id, launch))
}

// unseal gives back the secrets of a start that an earlier run of the service began; nil when there are none, or the
// service's key is another one now.
func (m *Manager) unseal(w spawner.Workload) control.Env {
	if len(w.Sealed) == 0 {
		return nil
	}
	plain, err := m.cfg.Sealer.Open(w.Sealed, purpose(w.ID, w.Launch))
	secrets := control.Env{}
	if err == nil {
		err = json.Unmarshal(plain, &secrets)
	}
	if err != nil {
		m.log.Error("the secrets of a start cannot be opened", "id", w.ID, "err", err)
		return nil
	}
	return secrets
}

// OrEmpty makes sure that secrets which were given are told from secrets which were lost.
func OrEmpty(e control.Env) control.Env {
	if e == nil {
		return control.Env{}
	}
	return e
}
