package publish

import (
	"fmt"
	"strconv"
	"strings"

	"slipway/internal/gpu"
)

// attributes are names with values as ClassAds write them.
type attributes map[string]string

func (a attributes) text(name, value string) {
	if value != "" {
		a[name] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
	}
}

// basic are those of -properties.
func (u unit) basic() attributes {
	d, a := u.state.Device, attributes{}
	uuid, name, memory := d.UUID, d.Name, d.Memory
	if u.bare {
		uuid = strings.TrimPrefix(uuid, "GPU-")
	}
	if u.slice != nil {
		uuid, name, memory = u.slice.UUID, name+" MIG "+u.slice.Slice.Profile, u.slice.Slice.Memory
	}
	a.text("DeviceUuid", uuid)
	a.text("DeviceName", name)
	a.text("DevicePciBusId", shortBus(d.Bus))
	if d.Capability != "" {
		a["Capability"] = d.Capability
	}
	a["ECCEnabled"] = strconv.FormatBool(d.ECC)
	a["GlobalMemoryMb"] = mebi(memory)
	a.text("NvidiaDriver", u.system.Driver)
	// 12040 is told as 12.40: jobs compare with what the tool says, not with what is right
	if v := u.system.CUDA; v > 0 {
		a["DriverVersion"] = fmt.Sprintf("%d.%d", v/1000, v%100)
		a["MaxSupportedVersion"] = strconv.Itoa(v)
	}
	return a
}

// extra are those of -extra.
func (u unit) extra(a attributes) {
	d := u.state.Device
	if d.ClockMHz > 0 {
		a["ClockMhz"] = fmt.Sprintf("%d.00", d.ClockMHz)
	}
	if sms := u.sms(); sms > 0 {
		a["ComputeUnits"] = strconv.Itoa(sms)
	}
	if d.Capability != "" {
		a["CoresPerCU"] = strconv.Itoa(coresPerSM(d.Capability))
	}
}

// dynamic are those of -dynamic. The sensors are the GPU's: an instance has none.
func (u unit) dynamic(a attributes) {
	if u.slice != nil {
		return
	}
	if r := u.state.Reading; r != nil {
		if r.Temperature >= 0 {
			a["DieTempC"] = strconv.Itoa(r.Temperature)
		}
		if r.Power >= 0 {
			a["PowerUsage_mw"] = strconv.FormatInt(r.Power, 10)
		}
	}
	if h := u.state.Health; h != nil && u.state.Device.ECC {
		a["EccErrorsDoubleBit"] = strconv.FormatInt(h.ECC, 10)
	}
}

// own are Slipway's. SlipwayIsolation is a gpu.Tier, as a request names it.
func (u unit) own(a attributes, all bool) {
	profile := string(u.state.Mode)
	if u.slice != nil {
		profile = u.slice.Slice.Profile
		a.text("ParentUuid", u.state.Device.UUID)
	}
	a.text("SlipwayMode", string(u.state.Mode))
	a.text("SlipwayIsolation", string(u.state.Tier))
	a.text("SlipwayProfile", profile)
	a.text("SlipwayUsageSource", string(u.source()))
	a["SlipwayLent"] = strconv.FormatBool(u.lent)
	if sms := u.sms(); sms > 0 {
		a["SMCount"] = strconv.Itoa(sms)
	}
	if all {
		a["SlipwayFree"] = strconv.FormatBool(u.free)
	}
	if u.system.Simulated {
		a["SlipwaySimulated"] = "true"
	}
}

// source is how the use of the unit is known, or would be if somebody held it.
func (u unit) source() gpu.Source {
	switch d := u.state.Device; {
	case u.used != gpu.SourceNone:
		return u.used
	case u.state.Mode == gpu.MPS || u.state.Mode == gpu.Shared:
		return gpu.SourceProcess
	case d.GPM:
		return gpu.SourceGPM
	case u.slice != nil:
		return gpu.SourceProcessList
	default:
		return gpu.SourceUtilisation
	}
}

func (u unit) sms() int {
	if u.slice != nil {
		return u.slice.Slice.SMs
	}
	return u.state.Device.SMs
}

func (u unit) attributes(o Options) attributes {
	a := u.basic()
	if o.Extra {
		u.extra(a)
	}
	if o.Own {
		u.own(a, o.All)
	}
	return a
}

// mebi writes bytes in MiB, rounded.
func mebi(n int64) string { return strconv.FormatInt((n+1<<19)>>20, 10) }

// shortBus writes a PCI address with a domain of four digits.
func shortBus(bus string) string {
	domain, rest, found := strings.Cut(strings.ToUpper(bus), ":")
	if !found {
		return bus
	}
	return domain[max(len(domain)-4, 0):] + ":" + rest
}

// coresPerSM counts the CUDA cores of one processor.
func coresPerSM(capability string) int {
	switch capability {
	case "6.0", "7.0", "7.2", "7.5", "8.0":
		return 64
	default:
		return 128
	}
}
