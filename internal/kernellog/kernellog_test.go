package kernellog

import "testing"

func TestAtLimit(t *testing.T) {
	// Of a real kernel, 6.18.
	const limit = "4,2201,18826112391,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=1f7e9f,mems_allowed=0," +
		"oom_memcg=/docker/1f7e9f,task_memcg=/docker/1f7e9f/below,task=slipway,pid=26360,uid=41234\n"
	const scope = "4,2201,18826112391,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0," +
		"oom_memcg=/system.slice/docker-1f7e9f.scope,task_memcg=/system.slice/docker-1f7e9f.scope,task=python3,pid=2,uid=0\n"
	const machine = "4,2201,18826112391,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0," +
		"global_oom,task_memcg=/docker/1f7e9f,task=slipway,pid=26360,uid=41234\n"
	const above = "4,2201,18826112391,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0," +
		"oom_memcg=/all,task_memcg=/all/1f7e9f,task=slipway,pid=26360,uid=41234\n"
	const said = "12,2201,18826112391,-;somebody: oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/docker/1f7e9f,\n"
	for name, test := range map[string]struct {
		record, group string
		want          bool
	}{
		"its own limit":        {limit, "1f7e9f", true},
		"a group's of systemd": {scope, "1f7e9f", true},
		"another group's":      {limit, "abc", false},
		"the machine's":        {machine, "1f7e9f", false},
		"of a group above":     {above, "1f7e9f", false},
		"another's words":      {said, "1f7e9f", false},
		"no such record":       {"6,1,0,-;Linux version 6.18\n", "Linux", false},
	} {
		if got := atLimit(test.record, test.group); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
