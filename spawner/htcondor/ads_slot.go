package htcondor

import "strings"

// slot is a machine's slot as it tells itself to the pool: one that is divided for jobs, or one that is given whole. The parts that
// were cut off for jobs are not among them.
type slot struct{ *ad }

// slotsOf gives the slots among ads.
func slotsOf(ads []*ad) []slot {
	var all []slot
	for _, a := range ads {
		if a.get("DynamicSlot") != true && a.text("SlotType") != "Dynamic" && a.text("MyType") != "Submitter" {
			all = append(all, slot{a})
		}
	}
	return all
}

// machine names the host.
func (s slot) machine() string { return s.text("Machine") }

func (s slot) partitionable() bool { return s.get("PartitionableSlot") == true }

// empty gives the slot's ad as it would be if nothing ran there.
func (s slot) empty() *ad {
	changes := map[string]value{"State": "Unclaimed", "Activity": "Idle"}
	if s.partitionable() {
		for now, all := range map[string]string{"Cpus": "TotalSlotCpus", "Memory": "TotalSlotMemory", "Disk": "TotalSlotDisk", "GPUs": "TotalSlotGPUs"} {
			if v := s.get(all); v != nil {
				changes[now] = v
			}
		}
		if gpus := s.gpus(); len(gpus) > 0 {
			changes["AvailableGPUs"] = asList(gpus)
		}
	}
	return s.over(changes)
}

func asList(gpus []*ad) []value {
	list := make([]value, len(gpus))
	for i, g := range gpus {
		list[i] = g
	}
	return list
}

// takes reports whether the slot could take a job now.
func (s slot) takes(cs []clause, job *ad) bool {
	if !s.partitionable() && s.text("State") != "Unclaimed" {
		return false
	}
	for _, c := range cs {
		if c.judge(s.ad, job) == fails {
			return false
		}
	}
	return true
}

// gpus gives the ads of all GPUs of the slot, taken or not. One that is listed several times is shared so often.
func (s slot) gpus() []*ad {
	var all []*ad
	for _, id := range s.gpuIDs() {
		if g, is := s.get("GPUs_" + adName(id)).(*ad); is {
			all = append(all, g)
		}
	}
	return all
}

// gpuIDs are the names of the slot's GPUs.
func (s slot) gpuIDs() []string { return words(s.text("AssignedGPUs")) }

// available gives the ads of those GPUs of the slot that a job could have now.
func (s slot) available() []*ad {
	list, _ := s.get("AvailableGPUs").([]value)
	var all []*ad
	for _, item := range list {
		if g, is := item.(*ad); is {
			all = append(all, g)
		}
	}
	return all
}

// adName is how a GPU's id stands in an attribute's name.
func adName(id string) string { return strings.NewReplacer("-", "_", "/", "_").Replace(id) }
