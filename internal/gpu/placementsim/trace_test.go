package placementsim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/gpu/placement"
)

const fleetAndRequest = "fleet: [{model: H200, mode: mig}]\nrequests: [{at: 0s, duration: 1h, gpu: 1g}]\n"

func TestMistakesNameTheirPlace(t *testing.T) {
	generate := func(line string) string { return "fleet: [{model: H200, mode: mig}]\ngenerate: " + line }
	for name, tt := range map[string]struct{ text, want string }{
		"empty":             {"", "fleet"},
		"unknown key":       {"fleet:\n  - {model: H200, mode: mig, number: 2}\n", "2:"},
		"unknown key above": {"fleets: []\n", "fleets"},
		"not YAML":          {"fleet: [", "line 2: this is no YAML"},
		"no GPUs":           {"fleet: []\nrequests: [{at: 0s, duration: 1h, gpu: 1g}]", "fleet"},
		"too many GPUs":     {"fleet: [{model: H200, mode: mig, count: 20000}]\nrequests: [{at: 0s, duration: 1h, gpu: 1g}]", "10000"},
		"mode":              {"fleet: [{model: H200, mode: half}]", "fleet[0].mode"},
		"count":             {"fleet: [{model: H200, mode: mig, count: -1}]", "fleet[0].count"},
		"layout elsewhere":  {"fleet: [{model: H200, mode: whole, layout: [1g]}]", "fleet[0].layout"},
		"equal elsewhere":   {"fleet: [{model: H200, mode: whole, equal_shares: true}]", "fleet[0].equal_shares"},
		"model":             {strings.Replace(fleetAndRequest, "H200", "H300", 1), "fleet[0].model: \"H300\" is not valid: one of A30"},
		"no model":          {strings.Replace(fleetAndRequest, "model: H200, ", "", 1), "fleet[0].model"},
		"cannot be cut":     {strings.Replace(fleetAndRequest, "H200", "L40S", 1), "fleet[0].mode"},
		"layout":            {"fleet: [{model: H200, mode: mig, layout: [4g, 4g]}]\nrequests: [{at: 0s, duration: 1h, gpu: 4g}]", "do not fit"},
		"layout's word":     {"fleet: [{model: H200, mode: mig, layout: [9g]}]\nrequests: [{at: 0s, duration: 1h, gpu: 4g}]", "9g is none of its profiles: 1g.18gb"},
		"headroom":          {fleetAndRequest + "headroom: 2", "headroom"},
		"not a number":      {fleetAndRequest + "headroom: .nan", "headroom"},
		"patience":          {fleetAndRequest + "patience: -1h", "patience"},
		"no requests":       {"fleet: [{model: H200, mode: mig}]", "requests"},
		"both":              {fleetAndRequest + "generate: {count: 1, load: 1, duration: 1h, mix: {1g: 1}}", "requests"},
		"request":           {"fleet: [{model: H200, mode: mig}]\nrequests: [{at: 0s, duration: 1h, gpu: 1g}, {at: 0s, duration: 1h, gpu: most}]", "requests[1].gpu"},
		"no GPU":            {"fleet: [{model: H200, mode: mig}]\nrequests: [{at: 0s, duration: 1h, gpu: none}]", "requests[0].gpu"},
		"no duration":       {"fleet: [{model: H200, mode: mig}]\nrequests: [{at: 0s, gpu: 1g}]", "requests[0].duration"},
		"before the start":  {"fleet: [{model: H200, mode: mig}]\nrequests: [{at: -1s, duration: 1h, gpu: 1g}]", "requests[0].at"},
		"a long time":       {"fleet: [{model: H200, mode: mig}]\nrequests: [{at: 2000000h, duration: 2000000h, gpu: 1g}]", "at most a year"},
		"not a time":        {"fleet: [{model: H200, mode: mig}]\nrequests:\n  - {at: soon, duration: 1h, gpu: 1g}", "3:"},
		"nothing generated": {generate("{count: 0, load: 1, duration: 1h, mix: {1g: 1}}"), "generate.count"},
		"no load":           {generate("{count: 1, duration: 1h, mix: {1g: 1}}"), "generate.load"},
		"no mean":           {generate("{count: 1, load: 1, mix: {1g: 1}}"), "generate.duration"},
		"no mix":            {generate("{count: 1, load: 1, duration: 1h}"), "generate.mix"},
		"wrong mix":         {generate("{count: 1, load: 1, duration: 1h, mix: {some: 1}}"), "generate.mix"},
		"negative mix":      {generate("{count: 1, load: 1, duration: 1h, mix: {1g: -1, 2g: 5}}"), "generate.mix.1g"},
		"groups":            {generate("{count: 1, load: 1, duration: 1h, mix: {1g: 1}, groups: -1}"), "generate.groups"},
		"impossible mix":    {generate("{count: 1, load: 1, duration: 1h, mix: {whole: 1}}"), "no GPU is given out whole"},
		"too long":          {generate("{count: 1000, load: 0.00001, duration: 1000h, mix: {1g: 1}}"), "ten years"},
	} {
		trace, err := Parse([]byte(tt.text))
		if err == nil {
			_, err = trace.Run(models(), placement.Policies())
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v does not say %q", name, err, tt.want)
		}
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.yaml")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := os.WriteFile(path, []byte(fleetAndRequest), 0o600); err != nil {
		t.Fatal(err)
	}
	if trace, err := Load(path); err != nil || len(trace.Requests) != 1 {
		t.Errorf("%+v %v", trace, err)
	}
	if err := os.WriteFile(path, []byte("fleet: 7"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.HasPrefix(err.Error(), path) {
		t.Errorf("a wrong file: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(fleetAndRequest))
	f.Add([]byte("fleet: [{model: A30, mode: mig, count: 2}]\npatience: 1h\ngenerate: {count: 5, load: 1, duration: 1h, mix: {1g: 1, 2g: 2}}"))
	f.Add([]byte("fleet: [{model: L40S, mode: mps, equal_shares: true}]\nrequests: [{at: 1h, duration: 1h, gpu: mps:25%/1G}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		trace, err := Parse(text)
		if err != nil || len(trace.Requests) > 100 || trace.Generate != nil && trace.Generate.Count > 100 {
			return
		}
		total := 0
		for _, g := range trace.Fleet {
			total += g.number()
		}
		if total > 100 {
			return
		}
		report, err := trace.Run(models(), placement.Policies())
		if err != nil {
			return
		}
		for _, p := range report.Policies {
			if p.Accepted > report.Requests || p.Utilisation < -1e-9 || p.Utilisation > 1+1e-9 || p.Weighted > 1+1e-9 || p.Wait.Mean < 0 {
				t.Errorf("%+v of %s", p, text)
			}
		}
	})
}
