package publish

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"time"

	"slipway/internal/gpu"
)

// environment is GLUE 2.1's AcceleratorEnvironment, with the names and units that the specification's JSON has.
// Slipway's slices are its logical accelerators.
type environment struct {
	glueEntity
	PhysicalAccelerators  int            `json:"PhysicalAccelerators"`
	LogicalAccelerators   int            `json:"LogicalAccelerators"`
	Vendor                string         `json:"Vendor"`
	Model                 string         `json:"Model"`
	Version               string         `json:"Version,omitempty"`    // of the driver
	ClockSpeed            int            `json:"ClockSpeed,omitempty"` // MHz
	Memory                int            `json:"Memory"`               // MB
	ComputeCapability     string         `json:"ComputeCapability,omitempty"`
	TotalAcceleratorSlots int            `json:"TotalAcceleratorSlots"`
	UsedAcceleratorSlots  int            `json:"UsedAcceleratorSlots"`
	TotalInstances        int            `json:"TotalInstances"`
	UsedInstances         int            `json:"UsedInstances"`
	UnavailableInstances  int            `json:"UnavailableInstances"`
	Extension             map[string]any `json:"Extension,omitempty"`
	Associations          map[string]any `json:"Associations"`
}

// shareInfo is ComputingShareAcceleratorInfo: what can be had now.
type shareInfo struct {
	glueEntity
	FreeAcceleratorSlots int            `json:"FreeAcceleratorSlots"`
	UsedAcceleratorSlots int            `json:"UsedAcceleratorSlots"`
	Associations         map[string]any `json:"Associations"`
}

// glueEntity is what GLUE has of everything (Entity).
type glueEntity struct {
	CreationTime string `json:"CreationTime"`
	Validity     int    `json:"Validity"` // s
	ID           string `json:"ID"`
	Name         string `json:"Name"`
	Type         string `json:"Type"`
}

const glueValidity = 300

// GLUE writes inv as GLUE 2.1 JSON: one AcceleratorEnvironment for each model and mode.
func GLUE(inv gpu.Inventory, o Options) ([]byte, error) {
	document := struct {
		Environments []environment `json:"AcceleratorEnvironment"`
		Shares       []shareInfo   `json:"ComputingShareAcceleratorInfo"`
	}{[]environment{}, []shareInfo{}}
	resource := cmp.Or(o.Resource, "localhost")
	for _, group := range alike(inv.GPUs) {
		e := environmentOf(inv, group, resource)
		document.Environments = append(document.Environments, e)
		document.Shares = append(document.Shares, shareInfo{
			glueEntity: glueEntity{
				CreationTime: e.CreationTime, Validity: e.Validity, Name: e.Name, Type: e.Type, ID: fmt.Sprintf(
					"urn:glue2:ComputingShareAcceleratorInfo:%s.%s", e.Name, resource,
				),
			},
			FreeAcceleratorSlots: e.TotalAcceleratorSlots - e.UsedAcceleratorSlots,
			UsedAcceleratorSlots: e.UsedAcceleratorSlots,
			Associations:         map[string]any{"AcceleratorEnvironmentID": []string{e.ID}},
		})
	}
	out, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write GLUE: %w", err)
	}
	return append(out, '\n'), nil
}

// alike groups GPUs of one model and mode, in the order of the names that they are published under.
func alike(states []gpu.State) [][]gpu.State {
	byName := map[string][]gpu.State{}
	var names []string
	for _, s := range states {
		name := glueName(s)
		if byName[name] == nil {
			names = append(names, name)
		}
		byName[name] = append(byName[name], s)
	}
	slices.Sort(names)
	groups := make([][]gpu.State, len(names))
	for i, name := range names {
		groups[i] = byName[name]
	}
	return groups
}

func environmentOf(inv gpu.Inventory, group []gpu.State, resource string) environment {
	d, name := group[0].Device, glueName(group[0])
	e := environment{
		glueEntity: glueEntity{
			CreationTime: inv.Taken.UTC().Format(time.RFC3339), Validity: glueValidity, Name: name, Type: "GPU",
			ID: fmt.Sprintf("urn:glue2:AcceleratorEnvironment:%s.%s", name, resource),
		},
		Vendor: "NVIDIA", Model: d.Name, Version: inv.System.Driver, ClockSpeed: d.ClockMHz,
		Memory:            int(d.Memory >> 20),
		ComputeCapability: d.Capability, PhysicalAccelerators: len(group), TotalInstances: len(group),
		Extension:    map[string]any{"SlipwayMode": group[0].Mode, "SlipwayIsolation": group[0].Tier},
		Associations: map[string]any{"ResourceID": "urn:glue2:ComputingManager:" + resource},
	}
	if inv.System.Simulated {
		e.Extension["SlipwaySimulated"] = true
	}
	for _, s := range group {
		used, total := slots(s)
		e.UsedAcceleratorSlots += used
		e.TotalAcceleratorSlots += total
		if used > 0 {
			e.UsedInstances++
		}
		if s.Condition != gpu.Ready {
			e.UnavailableInstances++
		}
	}
	e.LogicalAccelerators = e.TotalAcceleratorSlots
	return e
}

// slots counts a GPU's slices: those that are held, and the most that can be had beside them, all of one kind.
func slots(s gpu.State) (used, total int) {
	for _, part := range s.Slices {
		if part.Holder != "" || part.Foreign {
			used++
		}
	}
	free := 0
	if s.Condition == gpu.Ready {
		for _, o := range s.Offers {
			free = max(free, o.Free)
		}
	}
	return used, used + free
}

var notWord = regexp.MustCompile(`[^A-Za-z0-9]+`)

func glueName(s gpu.State) string {
	return notWord.ReplaceAllString(s.Device.Name, "-") + "-" + cmp.Or(string(s.Mode), "unset")
}
