package selftest

import (
	"fmt"
	"strings"
)

const (
	uncorrected = 1 // kind of ECC errors
	volatile    = 0 // since the driver was loaded
	sensorGPU   = 0
	slowdown    = 1 // the temperature at which the GPU slows itself down
)

// health looks at what the GPU itself counts. Not every GPU and mode tells all of it.
func (b *bench) health() outcome {
	if b.nvml == nil {
		return skipped("NVML did not load")
	}
	devices, err := b.nvml.handles()
	if err != nil {
		return failed("", "%v", err)
	}
	var said []string
	for _, d := range devices {
		if o, bad := b.nvml.memoryErrors(d, &said); bad {
			return o
		}
	}
	for _, d := range devices {
		if o, bad := b.nvml.heat(d, &said); bad {
			return o
		}
	}
	if len(said) == 0 {
		return skipped("the GPU tells neither its errors nor its temperature here")
	}
	return ok("%s", strings.Join(said, ", "))
}

func (n *nvml) memoryErrors(dev uintptr, said *[]string) (outcome, bool) {
	var corrected, bad, pending, broken uint32
	if n.remapped != nil && n.remapped(dev, &corrected, &bad, &pending, &broken) == 0 && broken != 0 {
		return failed("replace the GPU", "a faulty row of its memory could not be remapped"), true
	}
	var errors uint64
	if n.ecc == nil || n.ecc(dev, uncorrected, volatile, &errors) != 0 {
		return outcome{}, false
	}
	if errors > 0 {
		return failed(
			"reset the GPU when nothing runs on it; replace it if they come again",
			"%d uncorrected memory errors since the driver was loaded", errors,
		), true
	}
	*said = append(*said, "no memory errors")
	return outcome{}, false
}

// heat warns: a GPU that is hot is slow, and not wrong.
func (n *nvml) heat(dev uintptr, said *[]string) (outcome, bool) {
	var now, most uint32
	if n.temperature == nil || n.temperature(dev, sensorGPU, &now) != 0 {
		return outcome{}, false
	}
	if n.threshold != nil && n.threshold(dev, slowdown, &most) == 0 && most > 0 && now >= most {
		return warned("look at the node's cooling", "%d degrees Celsius: it slows down from %d on", now, most), true
	}
	*said = append(*said, fmt.Sprintf("%d degrees Celsius", now))
	return outcome{}, false
}
