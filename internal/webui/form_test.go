package webui

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"slipway/spawner"
	"slipway/spawner/catalog"
)

func catalogue() catalog.Catalogue {
	return catalog.Catalogue{
		BatchSystems: map[string]string{"htcondor": "HTCondor"},
		Images:       []catalog.ImageChoice{{Name: "notebook", Title: "Python <3>", Ref: "x"}, {Name: "root", Ref: "y"}},
		Profiles: []catalog.Profile{
			{Name: "small", Title: "Small", Description: `<script>alert("x")</script>`, Images: []string{"notebook"}, CPUs: 1, MaxCPUs: 2, Memory: 2 << 30, MaxMemory: 6 << 30, Default: true},
			{Name: `big" onclick="x`, Images: []string{"root", "notebook"}, CPUs: 4, Memory: 4 << 30},
		},
	}
}

func spawnForm(t *testing.T) *html.Node {
	t.Helper()
	var b bytes.Buffer
	if err := SpawnForm(&b, Form{Catalogue: catalogue()}); err != nil {
		t.Fatal(err)
	}
	return parse(t, b.String())
}

func TestFormHasItsFields(t *testing.T) {
	doc := spawnForm(t)
	if len(all(doc, "form")) > 0 {
		t.Error("the Hub's page has the form")
	}
	radios := []string{}
	for _, in := range all(doc, "input") {
		if attr(in, "type") == "radio" && attr(in, "name") == "profile" {
			radios = append(radios, attr(in, "value"))
			if has(in, "checked") != (attr(in, "value") == "small") {
				t.Errorf("%q: checked is %t", attr(in, "value"), has(in, "checked"))
			}
		}
	}
	if !slices.Equal(radios, []string{"small", `big" onclick="x`}) {
		t.Errorf("profiles %q", radios)
	}
	options := map[string][]string{}
	for _, s := range all(doc, "select") {
		for _, o := range all(s, "option") {
			options[attr(s, "name")] = append(options[attr(s, "name")], attr(o, "value"))
		}
	}
	if !slices.Equal(options["image"], []string{"", "notebook", "root"}) || !slices.Equal(options["memory"], []string{"", "512M", "1G", "2G", "4G", "6G"}) {
		t.Errorf("choices %q", options)
	}
	for _, in := range all(doc, "input") {
		if attr(in, "name") == "cpus" && (attr(in, "type") != "number" || attr(in, "min") == "" || attr(in, "max") != "4" || attr(in, "step") == "") {
			t.Errorf("cpus: %v", in.Attr)
		}
	}
}

func TestFormIsAccessible(t *testing.T) {
	doc := spawnForm(t)
	labels := map[string]bool{}
	for _, l := range all(doc, "label") {
		labels[attr(l, "for")] = text(l) != ""
	}
	for _, name := range []string{"input", "select"} {
		for _, field := range all(doc, name) {
			inLabel := field.Parent != nil && field.Parent.Data == "label"
			if !inLabel && !labels[attr(field, "id")] {
				t.Errorf("%s %q has no label", name, attr(field, "name"))
			}
		}
	}
	for _, f := range all(doc, "fieldset") {
		if len(all(f, "legend")) != 1 {
			t.Error("a fieldset lacks its legend")
		}
	}
	ids := map[string]bool{}
	for d := range doc.Descendants() {
		if id := attr(d, "id"); id != "" {
			ids[id] = true
		}
	}
	for d := range doc.Descendants() {
		if by := attr(d, "aria-describedby"); by != "" && !ids[by] {
			t.Errorf("%q is described by nothing", by)
		}
	}
}

// TestFormChoosesNothingUnknown: where it is not known whether a profile is open to her, no other stands for it.
func TestFormChoosesNothingUnknown(t *testing.T) {
	c := catalogue().Only(func(p catalog.Profile) (bool, error) {
		if p.Name == "small" {
			return false, errors.New("the Hub does not say")
		}
		return true, nil
	})
	for _, chosen := range []map[string]any{nil, {"profile": "small"}} {
		var b bytes.Buffer
		if err := SpawnForm(&b, Form{Catalogue: c, Chosen: chosen}); err != nil {
			t.Fatal(err)
		}
		doc := parse(t, b.String())
		if !strings.Contains(text(doc), "whether profile small is open to you is not known: the Hub does not say. Load this page again") {
			t.Errorf("%v: it does not say so: %s", chosen, text(doc))
		}
		for _, in := range all(doc, "input") {
			if attr(in, "name") == "profile" && has(in, "checked") {
				t.Errorf("%v: %q is chosen", chosen, attr(in, "value"))
			}
		}
	}
}

func TestFormEscapesText(t *testing.T) {
	card := all(spawnForm(t), "label")[0]
	if got := text(card); !strings.Contains(got, `<script>alert("x")</script>`) || !strings.Contains(got, "Python <3>") || !strings.Contains(got, "1 CPU (at most 2), 2 GiB of memory (at most 6 GiB)") {
		t.Errorf("the card says %q", got)
	}
	for d := range spawnForm(t).Descendants() {
		if has(d, "onclick") {
			t.Error("a name broke out of its attribute")
		}
	}
}

func TestFormOfNothing(t *testing.T) {
	var b bytes.Buffer
	if err := SpawnForm(&b, Form{}); err != nil {
		t.Error(err)
	}
}

// formOf fills the spawn form.
func formOf(t *testing.T, f Form) *html.Node {
	t.Helper()
	var b bytes.Buffer
	if err := SpawnForm(&b, f); err != nil {
		t.Fatal(err)
	}
	return parse(t, b.String())
}

func TestFormSaysWhatIsFree(t *testing.T) {
	c := catalogue()
	c.Profiles[1].Name = "big"
	doc := formOf(t, Form{Catalogue: c, Active: map[string]int{"root": 2}, Refresh: "/services/slipway/room?key=x&y=1", Rooms: map[string]spawner.Room{
		"small": {Most: 8, Free: 3, Estimate: -1},
		"big":   {Most: 2, Lacks: "4 CPUs asked, 1 of 8 free", Waiting: 1, Estimate: 12 * time.Minute},
	}})
	said := map[string]string{}
	for _, n := range all(doc, "span") {
		if has(n, "data-room") {
			said[attr(n, "data-room")] = text(n) + "/" + attr(n, "class")
		}
	}
	want := map[string]string{
		"small": "3 free now/slipway-room",
		"big":   "none free now: 4 CPUs asked, 1 of 8 free; you would be number 2 in line, about 12 min/slipway-room slipway-full",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
	for _, in := range all(doc, "input") {
		if has(in, "disabled") {
			t.Error("a profile cannot be chosen: it offers the line")
		}
	}
	for _, o := range all(doc, "option") {
		if attr(o, "value") == "root" && text(o) != "root (in 2 sessions now)" {
			t.Errorf("the image says %q", text(o))
		}
	}
	if got := attr(all(doc, "div")[0], "data-refresh"); got != "/services/slipway/room?key=x&y=1" {
		t.Errorf("asks at %q", got)
	}
	if has(all(formOf(t, Form{Catalogue: c}), "div")[0], "data-refresh") {
		t.Error("asks without an address")
	}
}

func TestFormRemembers(t *testing.T) {
	big := `big" onclick="x`
	for name, tc := range map[string]struct {
		options                      map[string]any
		profile, image, cpus, memory string
		notes                        int
	}{
		"nothing":               {nil, "small", "", "", "", 0},
		"all":                   {map[string]any{"profile": big, "image": "root", "cpus": 2.0, "memory": "3G", "fresh": "yes"}, big, "root", "2", "3G", 0},
		"words":                 {map[string]any{"profile": "small", "cpus": " 1.5 ", "memory": "2048M"}, "small", "", "1.5", "2G", 0},
		"an odd number":         {map[string]any{"cpus": "0.3"}, "small", "", "0.3", "", 0},
		"a profile that left":   {map[string]any{"profile": "<gone>", "image": "root", "cpus": 2.0}, "small", "", "", "", 1},
		"an image that left":    {map[string]any{"profile": "small", "image": "root", "cpus": 2.0}, "small", "", "2", "", 1},
		"more than is offered":  {map[string]any{"profile": "small", "cpus": 64.0, "memory": "1T"}, "small", "", "", "", 2},
		"what makes no sense":   {map[string]any{"profile": []any{}, "image": 7.0, "cpus": true, "memory": nil, "x": "y"}, "small", "", "", "", 1},
		"what is no number":     {map[string]any{"cpus": "NaN", "memory": "-2G"}, "small", "", "", "", 2},
		"the empty word":        {map[string]any{"profile": "", "image": "", "cpus": "", "memory": ""}, "small", "", "", "", 0},
		"memory as a number":    {map[string]any{"memory": 2147483648.0}, "small", "", "", "2G", 0},
		"memory of no one size": {map[string]any{"memory": "1500M"}, "small", "", "", "1500M", 0},
	} {
		doc := formOf(t, Form{Catalogue: catalogue(), Chosen: tc.options})
		got := map[string]string{"image": "", "memory": ""}
		for _, in := range all(doc, "input") {
			switch {
			case attr(in, "name") == "fresh" && has(in, "checked"):
				t.Errorf("%s: a fresh start is remembered", name)
			case attr(in, "type") == "radio" && has(in, "checked"):
				got["profile"] += attr(in, "value")
			case attr(in, "name") == "cpus":
				got["cpus"] = attr(in, "value")
				if odd := attr(in, "step") == "any"; odd != (tc.cpus == "0.3") {
					t.Errorf("%s: the step is %s", name, attr(in, "step"))
				}
			}
		}
		for _, s := range all(doc, "select") {
			for _, o := range all(s, "option") {
				if has(o, "selected") {
					got[attr(s, "name")] += attr(o, "value")
				}
			}
		}
		want := map[string]string{"profile": tc.profile, "image": tc.image, "cpus": tc.cpus, "memory": tc.memory}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		notes := 0
		for _, d := range all(doc, "div") {
			if attr(d, "role") == "note" {
				notes = len(all(d, "div")) - 1 // less the line that says what is chosen instead
			}
		}
		if notes != tc.notes {
			t.Errorf("%s: %d notes", name, notes)
		}
	}
}

func TestWords(t *testing.T) {
	for _, tc := range []struct {
		room spawner.Room
		want string
	}{
		{spawner.Room{Most: -1, Free: -1}, "free"},
		{spawner.Room{Most: 4, Free: 1}, "1 free now"},
		{spawner.Room{Most: 4, Lacks: "others wait in line", Waiting: 3, Estimate: -1}, "none free now: others wait in line; you would be number 4 in line"},
		{spawner.Room{Lacks: "64 CPUs asked, 8 of 8 free"}, "does not fit here: 64 CPUs asked, 8 of 8 free"},
	} {
		if got := RoomWords(tc.room); got != tc.want {
			t.Errorf("%+v: %q", tc.room, got)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "1 min", 30 * time.Second: "1 min", 90 * time.Second: "2 min", time.Hour: "1 h", 125 * time.Minute: "2 h 5 min", 100 * time.Hour: "4 days",
	} {
		if got := span(d); got != want {
			t.Errorf("%s: %q", d, got)
		}
	}
}
