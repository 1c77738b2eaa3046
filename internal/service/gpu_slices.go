package service

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/gpu/fakegpu"
	"slipway/internal/gpu/placement"
)

// checkSlices finds the slices of kernels that none of the simulated GPUs can be cut into. What real ones can be only
// their driver says.
func checkSlices(c config.Config) error {
	if c.GPU.Driver != config.DriverSimulated {
		return nil
	}
	tables := simulatedTables(c.GPU.Simulated)
	var all []error
	for i, k := range c.Kernels.Specs {
		if slices.ContainsFunc(c.Profiles, func(f config.Profile) bool { return f.Name == k.Profile && config.BatchSystem(f.Backend) != "" }) {
			continue
		}
		for _, word := range append([]string{k.GPU}, k.GPUs...) {
			r, err := gpu.ParseRequest(word)
			if err != nil || r.Mode != gpu.MIG || slices.ContainsFunc(tables, func(t *placement.Table) bool { return t.Name(r.Profile) != "" }) {
				continue
			}
			all = append(all, errs.Bad(fmt.Sprintf("kernels.specs[%d].gpu", i), word, slicesWords(tables)))
		}
	}
	return errors.Join(all...)
}

// simulatedTables returns what the models of simulated GPUs can be cut into.
func simulatedTables(models []string) (tables []*placement.Table) {
	for _, name := range models {
		d, known := fakegpu.Model(strings.TrimSuffix(name, "/mig"))
		if t, err := placement.NewTable(d.Slots, d.Profiles); known && err == nil {
			tables = append(tables, t)
		}
	}
	return tables
}

// slicesWords says what there is.
func slicesWords(tables []*placement.Table) string {
	var names []string
	for _, t := range tables {
		names = append(names, t.Profiles()...)
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return "no MIG profile: none of gpu.simulated can be cut"
	}
	return "a MIG profile that one of gpu.simulated has: " + strings.Join(names, ", ")
}
