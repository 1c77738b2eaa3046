package pool

import (
	"strings"

	"slipway/spawner/htcondor/classad"
)

// slot is a machine's slot as it tells itself to the pool: one that is divided for jobs, or one that is given whole.
// The parts that were cut off for jobs are not among them.
type slot struct{ *classad.Ad }

// slotsOf returns the slots among ads.
func slotsOf(ads []*classad.Ad) []slot {
	var all []slot
	for _, a := range ads {
		if a.Get("DynamicSlot") != true && a.Text("SlotType") != "Dynamic" && a.Text("MyType") != "Submitter" {
			all = append(all, slot{a})
		}
	}
	return all
}

// machine names the host.
func (s slot) machine() string { return s.Text("Machine") }

func (s slot) partitionable() bool { return s.Get("PartitionableSlot") == true }

// empty returns the slot's ad as it would be if nothing ran there.
func (s slot) empty() *classad.Ad {
	changes := map[string]classad.Value{"State": "Unclaimed", "Activity": "Idle"}
	if s.partitionable() {
		for now, all := range map[string]string{"Cpus": "TotalSlotCpus", "Memory": "TotalSlotMemory", "Disk": "TotalSlotDisk", "GPUs": "TotalSlotGPUs"} {
			if v := s.Get(all); v != nil {
				changes[now] = v
			}
		}
		if gpus := s.gpus(); len(gpus) > 0 {
			changes["AvailableGPUs"] = asList(gpus)
		}
	}
	return s.Over(changes)
}

func asList(gpus []*classad.Ad) []classad.Value {
	list := make([]classad.Value, len(gpus))
	for i, g := range gpus {
		list[i] = g
	}
	return list
}

// takes reports whether the slot could take a job now.
func (s slot) takes(cs []clause, job *classad.Ad) bool {
	if !s.partitionable() && s.Text("State") != "Unclaimed" {
		return false
	}
	for _, c := range cs {
		if c.judge(s.Ad, job) == fails {
			return false
		}
	}
	return true
}

// gpus returns the ads of all GPUs of the slot, taken or not. One that is listed several times is shared so often.
func (s slot) gpus() []*classad.Ad {
	var all []*classad.Ad
	for _, id := range s.gpuIDs() {
		if g, is := s.Get("GPUs_" + adName(id)).(*classad.Ad); is {
			all = append(all, g)
		}
	}
	return all
}

// gpuIDs are the names of the slot's GPUs.
func (s slot) gpuIDs() []string { return classad.StringList(s.Text("AssignedGPUs")) }

// available returns the ads of those GPUs of the slot that a job could have now.
func (s slot) available() []*classad.Ad {
	list, _ := s.Get("AvailableGPUs").([]classad.Value)
	var all []*classad.Ad
	for _, item := range list {
		if g, is := item.(*classad.Ad); is {
			all = append(all, g)
		}
	}
	return all
}

// adName is how a GPU's id stands in an attribute's name.
func adName(id string) string { return strings.NewReplacer("-", "_", "/", "_").Replace(id) }
