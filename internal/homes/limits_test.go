package homes

import (
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/internal/quota"
)

func TestPercent(t *testing.T) {
	tests := []struct {
		limit Limit
		want  int
	}{
		{Limit{}, 0},
		{Limit{Used: 5}, 0}, // no bound
		{Limit{Used: 50, Most: 100}, 50},
		{Limit{Used: 150, Most: 100}, 150},
		{Limit{Used: 1, Most: 100, Files: 9, MostFiles: 10}, 90}, // files
		{Limit{Used: 1 << 62, Most: 1}, 1e6},
	}
	for _, test := range tests {
		if got := test.limit.Percent(); got != test.want {
			t.Errorf("%+v: %d, want %d", test.limit, got, test.want)
		}
	}
}

func TestTightest(t *testing.T) {
	user, group := Limit{Kind: ByUser, Used: 50, Most: 100}, Limit{Kind: ByGroup, Used: 70, Most: 100}
	disk := func(used int64) Limit { return Limit{Kind: ByDisk, Used: used, Most: 100} }
	tests := []struct {
		all  []Limit
		want string
	}{
		{nil, ""},
		{[]Limit{{Kind: ByUser}}, ""},
		{[]Limit{disk(10)}, ByDisk},
		{[]Limit{user, group, disk(10)}, ByGroup},
		{[]Limit{user, disk(90)}, ByUser},
		{[]Limit{user, disk(96)}, ByDisk},
		{[]Limit{{Kind: ByUser, Used: 99, Most: 100}, disk(96)}, ByUser},
	}
	for _, test := range tests {
		if got, _ := Tightest(test.all); got.Kind != test.want {
			t.Errorf("%+v: %+v, want %s", test.all, got, test.want)
		}
	}
}

func TestSoftAndHard(t *testing.T) {
	tests := map[quota.Block]Limit{
		{HardBlocks: 10, SoftBlocks: 8, Space: 5}: {Most: 8 << 10, Used: 5},
		{HardBlocks: 10}:         {Most: 10 << 10},
		{SoftBlocks: 8}:          {Most: 8 << 10},
		{HardFiles: 3, Files: 4}: {MostFiles: 3, Files: 4},
		{Space: 7}:               {Used: 7}, // a quota of 0 is none
	}
	for q, want := range tests {
		if got := limitOf(q, ""); got != want {
			t.Errorf("%+v: %+v, want %+v", q, got, want)
		}
	}
}

// TestWhatIsAsked: quotas of the user, her groups and the project; CephFS's of the nearest directory above.
func TestWhatIsAsked(t *testing.T) {
	size := unix.Statfs_t{Blocks: 100, Bfree: 40, Bavail: 30, Bsize: 10, Frsize: 10}
	h := host{
		statfs: func(int) (unix.Statfs_t, error) { return size, nil },
		projid: func(string) (int, error) { return 7, nil },
		quota: func(_ int, kind quota.Kind, id int) (quota.Block, error) {
			switch [2]int{int(kind), id} {
			case [2]int{int(quota.User), 1}, [2]int{int(quota.Group), 3}, [2]int{int(quota.Project), 7}:
				return quota.Block{HardBlocks: uint64(id), Space: 1}, nil
			}
			return quota.Block{}, unix.ESRCH
		},
		xattr: func(path, name string) ([]byte, error) {
			switch path + " " + name {
			case "/c/home ceph.quota.max_bytes":
				return []byte("1000\x00"), nil
			case "/c/home ceph.dir.rbytes":
				return []byte("900"), nil
			}
			return nil, unix.ENODATA
		},
	}
	disk := Limit{Kind: ByDisk, Used: 600, Most: 900}
	got := limitsAt(h, 0, "/h/alice", question{UID: 1, GID: 2, Groups: []int{3}})
	want := []Limit{{Kind: ByUser, Used: 1, Most: 1 << 10}, {Kind: ByGroup, Used: 1, Most: 3 << 10}, {Kind: ByProject, Used: 1, Most: 7 << 10}, disk}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	size.Type = unix.CEPH_SUPER_MAGIC
	if got := limitsAt(h, 0, "/c/home/alice", question{}); !reflect.DeepEqual(got, []Limit{{Kind: ByCephFS, Used: 900, Most: 1000}, disk}) {
		t.Errorf("CephFS: %+v", got)
	}
}

func TestFull(t *testing.T) {
	const tera, mega = 1 << 40, 1 << 20
	tests := map[Limit]bool{
		{}:                                                    false,
		{Used: 5 * tera, Most: 5 * tera}:                      true,
		{Used: 6 * tera, Most: 5 * tera}:                      true,
		{Used: 5*tera - 50<<30, Most: 5 * tera}:               false, // 99 %, and 50 GiB left
		{Used: 5*tera - mega, Most: 5 * tera}:                 true,
		{Used: 10 * mega, Most: 12 * mega}:                    false, // little is left, but not next to nothing of what there is
		{Used: 12*mega - 1000, Most: 12 * mega}:               true,
		{Used: 1, Most: tera, Files: 999_999, MostFiles: 1e6}: true,
		{Used: 1, Most: tera, Files: 995_000, MostFiles: 1e6}: false,
	}
	for l, want := range tests {
		if got := l.Full(); got != want {
			t.Errorf("%+v: %t", l, got)
		}
	}
}
