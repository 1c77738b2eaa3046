package hub

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"slipway/internal/errs"
)

const allScopes = `{"kind":"service","name":"slipway","scopes":["list:users","read:servers"]}`

// roll is a Hub's list of users, as JupyterHub pages it.
type roll struct {
	names  []string
	most   int  // per page
	bare   bool // answers lists without pages
	deaf   bool // knows no offsets
	scopes string
	turn   func(r *roll, page int) // before each page
	pages  atomic.Int32
}

func (l *roll) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/hub/api/user" {
		_, _ = w.Write([]byte(l.scopes))
		return
	}
	q := r.URL.Query()
	if r.URL.Path != "/hub/api/users" || q.Get("state") != "active" || r.Header.Get("Accept") != paginated {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	if n := int(l.pages.Add(1)); l.turn != nil {
		l.turn(l, n)
	}
	offset, _ := strconv.Atoi(q.Get("offset"))
	limit, _ := strconv.Atoi(q.Get("limit"))
	limit = min(limit, l.most)
	if l.deaf {
		offset, limit = 0, len(l.names)
	}
	users := []User{}
	for _, n := range l.names[min(offset, len(l.names)):min(offset+limit, len(l.names))] {
		users = append(users, User{Name: n, Servers: map[string]Server{"": {Pending: "spawn"}}})
	}
	if l.bare {
		_ = json.NewEncoder(w).Encode(users)
		return
	}
	var next any
	if offset+limit < len(l.names) {
		next = map[string]any{"offset": offset + limit, "limit": limit, "url": "http://evil.example/steal?offset=" + strconv.Itoa(offset+limit)}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"items": users, "_pagination": map[string]any{"offset": offset, "limit": limit, "next": next}})
}

func people(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("u%04d", i))
	}
	return names
}

func TestUsersAreAllOrNone(t *testing.T) {
	drop := func(i, page int) func(*roll, int) {
		return func(l *roll, n int) {
			if n == page {
				l.names = slices.Delete(slices.Clone(l.names), i, i+1)
			}
		}
	}
	for _, tc := range []struct {
		name string
		roll *roll
		want int
		kind errs.Kind
	}{
		{"none", &roll{most: 50}, 0, 0},
		{"one page", &roll{names: people(50), most: 50}, 50, 0},
		{"pages", &roll{names: people(451), most: 50}, 451, 0},
		{"full pages", &roll{names: people(400), most: 200}, 400, 0},
		{"tiny pages", &roll{names: people(9), most: 2}, 9, 0},
		{"pages of one", &roll{names: people(9), most: 1}, 0, errs.Unavailable},
		{"bare", &roll{names: people(30), most: 200, bare: true}, 30, 0},
		{"bare, none", &roll{most: 200, bare: true}, 0, 0},
		{"bare, one", &roll{names: people(1), most: 200, bare: true}, 1, 0},
		{"bare, cut by the Hub", &roll{names: people(451), most: 50, bare: true}, 451, 0},
		{"bare, deaf", &roll{names: people(451), most: 50, bare: true, deaf: true}, 451, 0},
		{"a user leaves the part that was read", &roll{names: people(200), most: 50, turn: drop(3, 2)}, 199, 0},
		{"a user leaves the part to come", &roll{names: people(200), most: 50, turn: drop(180, 2)}, 199, 0},
		{"the last that was read leaves", &roll{names: people(200), most: 50, turn: drop(49, 2)}, 199, 0},
		{"most leave at once", &roll{names: people(200), most: 50, turn: func(l *roll, n int) {
			if n == 3 {
				l.names = l.names[:10]
			}
		}}, 10, 0},
		{"a user leaves at every page", &roll{names: people(200), most: 50, turn: func(l *roll, _ int) { l.names = l.names[1:] }}, 0, errs.Unavailable},
		{"filtered users", &roll{names: people(3), most: 50, scopes: `{"kind":"service","scopes":["list:users!group=a","read:servers"]}`}, 0, errs.Forbidden},
		{"no servers", &roll{names: people(3), most: 50, scopes: `{"kind":"service","scopes":["list:users"]}`}, 0, errs.Forbidden},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.roll.scopes == "" {
				tc.roll.scopes = allScopes
			}
			users, err := serviceOf(t, tc.roll.ServeHTTP).Users(t.Context())
			if (err != nil) != (tc.kind != 0) || err != nil && !errs.Is(err, tc.kind) || len(users) != tc.want {
				t.Fatalf("%d users, %v", len(users), err)
			}
			for i, u := range users {
				if i > 0 && u.Name <= users[i-1].Name || u.Servers[""].Pending != "spawn" {
					t.Errorf("%d: %+v", i, u)
				}
			}
			if err == nil && len(users) > 0 && users[len(users)-1].Name != tc.roll.names[len(tc.roll.names)-1] {
				t.Errorf("the last is %s", users[len(users)-1].Name)
			}
		})
	}
}

func TestABrokenListIsNoList(t *testing.T) {
	for _, body := range []string{
		``, `{`, `{}`, `null`, `{"items":null}`, `[{"name":"a","servers":{}}`, `{"items":[{"name":"a","servers":{}}`, `{"items":[{"name":"a","servers":{}}]`,
		`{"items":[{"name":7}]}`, `[{"name":"a"}]`, `[{"servers":{}}]`, `{"items":[{"name":"a","servers":null}]}`, `<html>`,
		`{"items":[{"name":"a","servers":{}}],"_pagination":{"next":{"offset":0}}}`,
		`{"items":[{"name":"a","servers":{}}],"_pagination":{"next":{"offset":-5}}}`,
		`[{"name":"` + strings.Repeat("x", 64) + `","servers":{"":{"started":"yesterday"}}}]`,
	} {
		c := serviceOf(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hub/api/user" {
				fmt.Fprint(w, allScopes)
				return
			}
			fmt.Fprint(w, body)
		})
		if users, err := c.Users(t.Context()); err == nil || users != nil {
			t.Errorf("%s: %v, %v", body, users, err)
		}
	}
}

func TestAListWithoutEndIsGivenUp(t *testing.T) {
	many := strings.Repeat(`{"name":"a","servers":{}},`, 50_000)
	n := 0
	c := serviceOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hub/api/user" {
			fmt.Fprint(w, allScopes)
			return
		}
		n += 50_000
		fmt.Fprintf(w, `{"items":[%s{"name":"a","servers":{}}],"_pagination":{"next":{"offset":%d}}}`, many, n)
	})
	if _, err := c.Users(t.Context()); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "more than") {
		t.Error(err)
	}
}

// TestALargeListIsGivenUp: pages that go on, none of them too large, must not fill the memory.
func TestALargeListIsGivenUp(t *testing.T) {
	const whole, size = 4 << 20, 1 << 20
	padding := strings.Repeat("x", size)
	pages := 0
	c := serviceOf(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/user") {
			fmt.Fprint(w, allScopes)
			return
		}
		offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
		pages++
		fmt.Fprintf(w, `{"items":[{"name":"u%d","servers":{}},{"name":"u%d","servers":{}}],"_pagination":{"next":{"offset":%d}},"x":%q}`,
			offset, offset+1, offset+2, padding)
	})
	if c.whole != wholeSize {
		t.Errorf("it takes lists of %d bytes", c.whole)
	}
	c.whole = whole
	if _, err := c.Users(t.Context()); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "larger than") || pages > whole/size+2 {
		t.Errorf("%d pages: %v", pages, err)
	}
}

func FuzzParsePage(f *testing.F) {
	f.Add([]byte(`[{"name":"a","servers":{"":{"pending":false}}}]`), 0)
	f.Add([]byte(`{"items":[],"_pagination":{"next":{"offset":50,"limit":50,"url":"x"}}}`), 0)
	f.Add([]byte(`{"items":[{"name":"a","servers":{"x":{"pending":"stop","started":null,"ready":true}}}]}`), 7)
	f.Fuzz(func(t *testing.T, b []byte, offset int) {
		offset &= 1<<30 - 1
		p, err := parsePage[User](b, offset)
		if err == nil && p.next != 0 && p.next <= offset && len(p.items) > 0 {
			t.Errorf("goes back from %d to %d", offset, p.next)
		}
	})
}
