package inspect

import "slipway/spawner"

// Stats returns the state of all workloads in numbers. The durations are given once.
func (i *Inspector) Stats() spawner.Stats {
	tx := i.engine.Begin()
	defer tx.End()
	s := spawner.Stats{Workloads: map[spawner.Kind]map[spawner.Phase]int{}, Use: map[string]spawner.Capacity{}}
	tx.Count(&s)
	for _, e := range tx.All() {
		if s.Workloads[e.Kind] == nil {
			s.Workloads[e.Kind] = map[spawner.Phase]int{}
		}
		s.Workloads[e.Kind][e.Phase]++
	}
	for name := range i.engine.Backends.All() {
		s.Use[name] = tx.Sched().Use(name)
	}
	if s.Capacity[spawner.Host] != (spawner.Capacity{}) {
		s.Use[spawner.Host] = tx.Sched().Use(spawner.Host)
	}
	return s
}
