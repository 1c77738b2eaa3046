package sessions

import (
	"strings"
	"testing"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

func TestMoreMemory(t *testing.T) {
	const gib = 1 << 30
	profiles := []catalog.Profile{
		{Name: "small", Title: "Small", Images: []string{"nb"}, Memory: gib, MaxMemory: 2 * gib},
		{Name: "large", Title: "Large", Images: []string{"nb"}, Memory: 8 * gib},
		{Name: "hers", Title: "Hers", Images: []string{"nb"}, Memory: 64 * gib, Users: []string{"bob"}},
		{Name: "code", Title: "Code", Images: []string{"code"}, Memory: 32 * gib},
	}
	m := &Sessions{cfg: Config{Catalogue: catalog.Catalogue{Profiles: profiles, Images: []catalog.ImageChoice{{Name: "nb", Ref: "i/nb:1"}, {Name: "code", Ref: "i/code:1"}}}}}
	for name, test := range map[string]struct {
		spec  spawner.Spec
		limit int64
		want  string
	}{
		"more of its own":    {spawner.Spec{SessionSpec: spawner.SessionSpec{Profile: "small", Image: "i/nb:1"}}, gib, "its profile, Small, gives up to 2 GiB"},
		"another profile":    {spawner.Spec{SessionSpec: spawner.SessionSpec{Profile: "small", Image: "i/nb:1"}}, 2 * gib, "the profile Large gives up to 8 GiB"},
		"no profile":         {spawner.Spec{SessionSpec: spawner.SessionSpec{Profile: "large", Image: "i/nb:1"}}, 8 * gib, "no profile here gives more memory"},
		"an unknown profile": {spawner.Spec{SessionSpec: spawner.SessionSpec{Profile: "gone", Image: "i/nb:1"}}, 4 * gib, "the profile Large gives up to 8 GiB"},
	} {
		if got := m.moreMemory(test.spec, test.limit); !strings.Contains(got, test.want) || !strings.HasPrefix(got, "Load less at a time") {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestOutOfMemoryWords(t *testing.T) {
	for want, o := range map[string]struct {
		killed int64
		o      control.OutOfMemory
	}{
		"Out of memory: a program of this session was killed. It had 1 GiB of its 1 GiB in use":      {1, control.OutOfMemory{Limit: 1 << 30}},
		"Out of memory: 3 programs of this session were killed. It had 1023 MiB of its 1 GiB in use": {3, control.OutOfMemory{Limit: 1 << 30, Peak: 1023 << 20}},
	} {
		if got := outOfMemory(o.killed, o.o); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
