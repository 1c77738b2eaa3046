package archtest

// module is the import path of the root.
const module = "slipway"

// rule says what a package may import beside the standard library.
type rule struct {
	own     []string // packages of this module, by directory
	outside []string // others, by the beginning of their path
	tests   []string // what its tests may import on top: directories and beginnings of paths
}

// everywhere is what every package's tests may import.
func everywhere() []string { return []string{"internal/testenv", "github.com/google/go-cmp"} }

// rules has a row for every package. A new package needs one: that is the moment to look at the picture in internal/README.md.
// A new name under outside needs its reason in the commit.
func rules() map[string]rule {
	return map[string]rule{
		".": {own: []string{"internal/cli"}},

		// The bottom: these know nothing of each other, or of Slipway.
		"internal/apptainer": {},
		"internal/backoff":   {own: []string{"internal/clock"}},
		"internal/clock":     {},
		"internal/ctxio":     {},
		"internal/errs":      {},
		"internal/kernellog": {},
		"internal/loglimit":  {},
		"internal/loopback":  {},
		"internal/secret":    {},
		"internal/taskgroup": {},
		"internal/units":     {},
		"internal/version":   {},
		"internal/testenv":   {},
		"internal/archtest":  {},
		"internal/chart":     {},

		"internal/timeseries": {own: []string{"internal/clock"}},
		"internal/usage": {
			own: []string{
				"hubapi", "internal/agent/control", "internal/gpu", "internal/timeseries", "spawner",
			},
			outside: []string{"golang.org/x/sync"},
		},

		"internal/config":             {own: []string{"internal/units", "internal/errs", "internal/loopback", "internal/identity", "internal/homes", "internal/secret", "internal/gpu"}, outside: []string{"go.yaml.in/yaml/v4"}, tests: []string{"github.com/invopop/jsonschema"}},
		"internal/mounts":             {own: []string{"internal/backoff", "internal/errs"}, outside: []string{"golang.org/x/sys"}, tests: []string{"internal/testenv/autofs"}},
		"internal/quota":              {own: []string{"internal/clock"}, outside: []string{"golang.org/x/sys"}},
		"internal/homes":              {own: []string{"internal/errs", "internal/mounts", "internal/quota"}, outside: []string{"golang.org/x/sys"}},
		"internal/testenv/autofs":     {own: []string{"internal/testenv"}}, // for tests
		"internal/reserve":            {own: []string{"internal/clock", "internal/errs", "internal/units"}, outside: []string{"golang.org/x/sys"}, tests: []string{"internal/store"}},
		"internal/store":              {own: []string{"internal/errs"}, outside: []string{"modernc.org/sqlite"}},
		"internal/workloadtoken":      {own: []string{"internal/errs", "internal/secret", "spawner"}, outside: []string{"github.com/golang-jwt/jwt"}},
		"internal/identity":           {own: []string{"internal/errs", "internal/store"}},
		"internal/x509proxy":          {own: []string{"internal/errs", "internal/secret"}, outside: []string{"golang.org/x/crypto/cryptobyte"}},
		"internal/oidc":               {own: []string{"internal/clock", "internal/errs", "internal/secret"}, outside: []string{"github.com/coreos/go-oidc"}, tests: []string{"internal/testenv/oidcissuer", "github.com/golang-jwt/jwt"}},
		"internal/testenv/program":    {outside: []string{"github.com/rogpeppe/go-internal"}}, // for tests
		"internal/testenv/oidcissuer": {outside: []string{"github.com/golang-jwt/jwt"}},       // for tests
		"internal/credentials": {
			own: []string{"internal/backoff", "internal/errs", "internal/identity", "internal/oidc", "internal/secret", "internal/taskgroup"}, tests: []string{"internal/store", "internal/testenv/oidcissuer"},
		},
		"internal/devicelogin":  {own: []string{"internal/errs"}},
		"internal/accesstokens": {own: []string{"hubapi", "internal/clock", "internal/devicelogin", "internal/errs", "internal/secret"}, tests: []string{"internal/store"}},
		"internal/sshauth":      {own: []string{"internal/clock", "internal/devicelogin", "internal/errs"}, outside: []string{"golang.org/x/crypto/ssh"}, tests: []string{"internal/store"}},

		// GPUs. The words and the pure parts know no driver.
		"internal/gpu":           {own: []string{"internal/errs", "internal/units"}},
		"internal/gpu/poolview":  {own: []string{"hubapi", "internal/gpu", "spawner/htcondor/pool"}},
		"internal/gpu/placement": {own: []string{"internal/gpu", "internal/units"}},
		"internal/gpu/placementsim": {
			own:   []string{"internal/config", "internal/errs", "internal/gpu", "internal/gpu/placement"},
			tests: []string{"internal/gpu/fakegpu"},
		},
		"internal/gpu/metering": {own: []string{"internal/gpu"}},
		"internal/gpu/publish":  {own: []string{"internal/gpu"}},
		"internal/gpu/fakegpu":  {own: []string{"internal/errs", "internal/gpu"}, tests: []string{"internal/gpu/gputest"}},
		"internal/gpu/gputest":  {own: []string{"internal/gpu"}},
		"internal/gpu/cdi":      {own: []string{"internal/agent/control", "internal/errs", "internal/gpu"}, outside: []string{"golang.org/x/sys"}},
		"internal/gpu/mps":      {own: []string{"internal/errs", "internal/gpu", "internal/units"}},
		"internal/gpu/fleet": {
			own:   []string{"internal/clock", "internal/errs", "internal/gpu", "internal/gpu/mps", "internal/gpu/placement"},
			tests: []string{"internal/gpu/fakegpu"},
		},
		"internal/gpu/notify":   {own: []string{"internal/gpu"}},
		"internal/gpu/watchdog": {own: []string{"internal/gpu", "internal/units"}},
		"internal/gpu/nvml": {
			own: []string{"internal/errs", "internal/gpu"}, outside: []string{"github.com/NVIDIA/go-nvml"}, tests: []string{"internal/gpu/gputest"},
		},
		"internal/gpu/driverrpc": {own: []string{"internal/errs", "internal/gpu"}, tests: []string{"internal/gpu/gputest", "internal/gpu/fakegpu"}},
		"internal/gpu/helper": {
			own: []string{
				"internal/errs", "internal/gpu", "internal/gpu/cuda", "internal/gpu/nvml", "internal/gpu/driverrpc", "internal/gpu/selftest", "internal/units", "internal/version",
			},
			tests: []string{"internal/gpu/cuda/cudatest", "internal/gpu/fakegpu"},
		},

		// NVIDIA's libraries, loaded at run time by programs with a libc.
		"internal/gpu/library":       {outside: []string{"github.com/ebitengine/purego"}},
		"internal/gpu/cuda":          {own: []string{"internal/gpu/library", "internal/errs"}, tests: []string{"internal/gpu/cuda/cudatest"}},
		"internal/gpu/cuda/cudatest": {own: []string{"internal/testenv"}},
		"internal/gpu/selftest": {
			own: []string{"internal/gpu", "internal/gpu/cuda", "internal/gpu/library", "internal/units"}, tests: []string{"internal/gpu/cuda/cudatest"},
		},

		// What runs inside sessions and jobs.
		"internal/agent/control":   {own: []string{"internal/errs", "internal/secret"}, tests: []string{"internal/tunnel"}},
		"internal/sshtunnel":       {own: []string{"internal/taskgroup"}, outside: []string{"golang.org/x/crypto"}},
		"internal/clientlogin":     {own: []string{"internal/errs"}},                                           // on users' own machines
		"internal/sshclientconfig": {own: []string{"internal/errs"}, outside: []string{"golang.org/x/crypto"}}, // on users' own machines
		"internal/tunnel": {
			own:     []string{"internal/clock", "internal/backoff", "internal/errs", "internal/loopback", "internal/units", "internal/secret", "internal/agent/control", "internal/taskgroup"},
			outside: []string{"github.com/coder/websocket", "github.com/hashicorp/yamux", "golang.org/x/sys"},
		},
		"internal/worker": {
			own: []string{"internal/agent/control", "internal/apptainer", "internal/clock", "internal/backoff", "internal/errs", "internal/loopback", "internal/units", "internal/tunnel"}, outside: []string{"golang.org/x/sys"}, tests: []string{"images/changeset"},
		},
		"internal/agent/stack": {own: []string{"internal/agent/control"}, tests: []string{"internal/testenv/autofs"}},
		"internal/agent/kernel": {
			own:   []string{"internal/agent/control", "internal/clock", "internal/errs", "internal/units", "kernels/wire", "kernels/zmtp"},
			tests: []string{"kernels/kernelstest"},
		},
		"internal/agent/process": {
			own: []string{"internal/agent/control", "internal/errs", "internal/units"}, outside: []string{"golang.org/x/sys"},
		},
		"internal/agent/kernelspecs": {own: []string{"hubapi", "internal/backoff", "internal/clock", "internal/errs"}},
		"internal/agent/authproxy":   {own: []string{"internal/errs", "internal/secret"}},
		"internal/agent": {
			own:     []string{"images/changeset", "images/tree", "internal/agent/control", "internal/agent/authproxy", "internal/agent/kernel", "internal/agent/kernelspecs", "internal/agent/process", "internal/agent/sshd", "internal/agent/stack", "internal/clock", "internal/errs", "internal/units", "internal/mounts", "internal/secret", "internal/tunnel", "kernels/wire"},
			outside: []string{"golang.org/x/sys"}, tests: []string{"internal/sshtunnel", "github.com/coder/websocket", "golang.org/x/crypto/ssh"},
		},
		"internal/agent/sshd": {
			own: []string{"internal/sshtunnel", "internal/taskgroup"}, outside: []string{"github.com/pkg/sftp", "golang.org/x/crypto/ssh", "golang.org/x/sys"},
		},

		// Kernels of Jupyter's.
		"kernels/wire": {own: []string{"kernels/zmtp"}},
		"kernels/zmtp": {},
		// What every agent of a kernel passes, those of tests too.
		"kernels/kernelstest": {own: []string{"kernels/wire"}},
		"kernels/kernelproxy": {own: []string{"hubapi", "internal/clock", "internal/backoff", "internal/errs", "kernels/wire", "kernels/zmtp"}, outside: []string{"github.com/coder/websocket"}},
		"kernels": {
			own: []string{"internal/agent/control", "internal/clock", "internal/backoff", "internal/errs", "internal/taskgroup", "kernels/wire", "spawner"}, outside: []string{"github.com/coder/websocket", "github.com/go-chi/chi", "golang.org/x/sync"},
			tests: []string{"kernels/kernelstest"},
		},

		"kernels/kernelspecs": {
			own: []string{
				"hubapi", "internal/agent/control", "internal/agent/stack", "internal/config", "internal/errs", "internal/gpu", "internal/units",
				"internal/store", "kernels", "spawner", "spawner/catalog",
			},
			tests: []string{"internal/webui"},
		},

		// The engine, and one package a backend.
		"spawner":           {own: []string{"internal/agent/control", "internal/errs", "internal/gpu"}},
		"spawner/lifecycle": {own: []string{"spawner", "internal/agent/control"}},
		"spawner/catalog":   {own: []string{"spawner", "internal/errs", "internal/gpu", "internal/units"}},
		"spawner/sched":     {own: []string{"spawner", "internal/errs", "internal/gpu", "internal/units"}},
		"spawner/jobfiles": {
			own: []string{"spawner", "internal/agent/control", "internal/clock", "internal/ctxio", "internal/errs", "internal/units"},
		},
		"spawner/culling":    {own: []string{"spawner", "internal/agent/control", "internal/clock"}},
		"spawner/disklimit":  {own: []string{"spawner", "internal/clock", "internal/errs", "internal/units"}},
		"spawner/backends":   {own: []string{"spawner", "internal/errs"}},
		"spawner/place":      {own: []string{"spawner"}},
		"spawner/accounting": {own: []string{"internal/clock", "spawner/sched"}},
		"spawner/workqueue":  {own: []string{"spawner"}},
		"spawner/diagnosis":  {own: []string{"spawner", "internal/agent/control", "internal/errs", "internal/units"}},
		"spawner/journal":    {own: []string{"spawner", "internal/units"}},
		"spawner/launch":     {own: []string{"spawner", "internal/agent/control", "internal/errs", "internal/gpu"}},
		"spawner/engine": {
			own: []string{
				"spawner", "spawner/backends", "spawner/catalog", "spawner/culling", "spawner/diagnosis", "internal/clock", "spawner/journal", "spawner/launch", "spawner/workqueue", "spawner/jobfiles", "spawner/lifecycle", "spawner/place", "spawner/sched", "spawner/accounting",
				"internal/agent/control", "internal/units", "internal/errs", "internal/gpu", "internal/secret",
			},
			outside: []string{"golang.org/x/sync"},
			tests:   []string{"spawner/spawnertest", "spawner/workloads", "internal/store"},
		},
		"spawner/inspect": {
			own: []string{"spawner", "spawner/engine", "spawner/jobfiles", "spawner/place", "internal/agent/control", "internal/gpu"},
		},
		"spawner/jobs": {
			own: []string{
				"spawner", "spawner/diagnosis", "spawner/engine", "spawner/jobfiles", "spawner/lifecycle", "spawner/sched", "internal/agent/control", "internal/clock", "internal/errs",
				"internal/gpu", "internal/units",
			},
		},
		"spawner/sessions": {
			own: []string{
				"spawner", "spawner/catalog", "spawner/culling", "spawner/diagnosis", "spawner/engine", "spawner/jobfiles", "spawner/launch", "spawner/lifecycle",
				"internal/agent/control",
				"internal/clock", "internal/errs", "internal/units",
			},
		},
		"spawner/kernelpool": {
			own: []string{
				"spawner", "spawner/diagnosis", "spawner/engine", "spawner/jobfiles", "spawner/lifecycle", "spawner/sched", "spawner/sessions", "internal/agent/control", "internal/clock",
				"internal/errs",
			},
		},
		"spawner/workloads": {
			own: []string{
				"internal/gpu", "spawner", "spawner/catalog", "spawner/engine", "spawner/inspect", "spawner/jobs",
				"spawner/kernelpool", "spawner/sessions",
			},
		},
		"spawner/spawnertest": {own: []string{"spawner", "spawner/engine", "internal/agent/control", "internal/ctxio", "internal/errs", "internal/gpu", "internal/testenv"}},
		"spawner/accounts":    {own: []string{"spawner", "internal/errs"}},
		"spawner/docker": {
			own:     []string{"spawner", "internal/agent/control", "internal/clock", "internal/units", "internal/backoff", "internal/errs", "internal/gpu", "internal/gpu/cdi", "internal/kernellog", "internal/mounts", "internal/quota", "spawner/accounts", "spawner/docker/layer", "spawner/docker/overlay", "spawner/docker/progress"},
			outside: []string{"github.com/moby/moby", "github.com/containerd/errdefs", "github.com/distribution/reference", "github.com/opencontainers", "golang.org/x/sys"},
			tests:   []string{"spawner/spawnertest", "internal/testenv/autofs", "github.com/google/go-containerregistry/pkg/registry"},
		},
		"spawner/docker/layer":    {own: []string{"internal/errs"}, outside: []string{"golang.org/x/sys"}},
		"spawner/docker/overlay":  {own: []string{"internal/errs", "internal/mounts"}},
		"spawner/docker/progress": {own: []string{"internal/units"}, outside: []string{"github.com/moby/moby"}},
		"spawner/docker/wake":     {},                                                                                                                                                                         // the program beside a service that holds a container still
		"spawner/batch":           {own: []string{"spawner", "spawner/batch/command", "internal/agent/control", "internal/clock", "internal/errs", "internal/loglimit", "internal/units", "internal/worker"}}, // what backends of batch systems share
		"spawner/batch/command":   {own: []string{"internal/errs"}},
		"spawner/htcondor": {
			own: []string{
				"spawner", "spawner/batch", "spawner/batch/command", "spawner/htcondor/classad", "spawner/htcondor/commands", "spawner/htcondor/pool", "internal/agent/control", "internal/clock", "internal/errs",
				"internal/loglimit", "internal/units", "internal/worker",
			},
			tests: []string{"internal/gpu", "spawner/spawnertest", "spawner/htcondor/condortest"},
		},
		"spawner/htcondor/commands": {own: []string{"internal/errs", "spawner/batch/command"}},
		"spawner/htcondor/pool": {
			own: []string{"spawner", "spawner/batch", "spawner/batch/command", "spawner/htcondor/classad", "internal/errs", "internal/gpu", "internal/gpu/publish"},
		},
		"spawner/slurm":               {own: []string{"spawner", "spawner/batch", "spawner/batch/command", "internal/errs", "internal/gpu"}, tests: []string{"spawner/slurm/slurmtest", "spawner/spawnertest"}},
		"spawner/slurm/slurmtest":     {own: []string{"internal/testenv"}}, // a real cluster, for tests
		"spawner/htcondor/classad":    {},
		"spawner/htcondor/condortest": {own: []string{"internal/testenv"}, tests: []string{"golang.org/x/sys"}}, // a real pool, for tests and the demo
		"deploy/dev/pool":             {own: []string{"spawner/htcondor/condortest"}},
		"deploy/dev/mutants":          {outside: []string{"golang.org/x/sync"}}, // would the tests notice a wrong decision
		"deploy/dev/verdict":          {},                                       // what failed, for the end of deploy/test
		"spawner/local": {
			own:     []string{"spawner", "internal/agent/control", "internal/apptainer", "internal/units", "internal/errs", "internal/gpu", "internal/mounts", "internal/quota", "internal/secret", "spawner/accounts", "spawner/local/cgroup"},
			outside: []string{"golang.org/x/sys"},
			tests:   []string{"spawner/spawnertest", "internal/testenv/autofs", "internal/tunnel"},
		},
		"spawner/local/cgroup": {own: []string{"internal/clock", "internal/errs", "spawner"}},

		// Environments stand alone.
		"images": {
			own: []string{
				"images/apptainer", "images/bases", "images/blob", "images/compare", "images/graft", "images/graftmemory", "images/imagefile",
				"images/pin", "images/statements", "images/trial", "images/inventory", "images/libdir", "images/manifest", "images/oci", "images/export", "images/records", "images/signing",
				"images/progress", "images/secretscan", "images/transfer", "images/sif", "images/squashfs", "images/tree", "internal/units", "internal/errs",
			},
			outside: []string{"github.com/opencontainers", "github.com/sylabs/sif", "golang.org/x/sys"}, tests: []string{"images/tree/treetest"},
		},
		"images/compare": {
			own: []string{"images/squashfs", "images/tree", "internal/errs"}, outside: []string{"golang.org/x/sys"}, tests: []string{"images/graft"},
		},
		"images/libdir": {
			own: []string{"images/blob", "internal/errs", "internal/mounts"}, outside: []string{"golang.org/x/sys"},
		},
		"images/manifest": {own: []string{"images/blob", "images/oci", "internal/errs"}, outside: []string{"github.com/opencontainers"}},
		"images/records": {
			own: []string{"images/blob", "images/inventory", "images/libdir", "images/manifest", "internal/errs", "internal/units"},
		},
		"images/pin":        {},
		"images/progress":   {},
		"images/statements": {own: []string{"images/blob", "images/libdir", "images/signing"}},
		"images/bases": {
			own: []string{"images/apptainer", "images/blob", "images/graft", "images/manifest", "images/squashfs", "images/tree"},
		},
		"images/imagefile": {
			own: []string{
				"images/blob", "images/graft", "images/libdir", "images/manifest", "images/sif", "images/squashfs", "internal/errs",
			},
			outside: []string{"golang.org/x/sys"},
		},
		"images/graftmemory": {own: []string{"images/blob", "images/graft", "images/libdir"}},
		"images/trial": {
			own: []string{"images/blob", "images/inventory", "images/libdir", "images/records", "internal/errs"},
		},
		"images/apptainer": {},
		"images/blob":      {own: []string{"internal/errs"}},
		"images/oci":       {own: []string{"images/blob", "internal/errs"}, outside: []string{"github.com/opencontainers"}},
		"images/transfer": {
			own: []string{"images/blob", "images/blobstore", "images/oci", "internal/backoff", "internal/errs", "internal/secret"}, outside: []string{"golang.org/x/sys", "oras.land/oras-go"},
			tests: []string{"images/registry/registrytest", "github.com/google/go-containerregistry", "github.com/opencontainers"},
		},
		"images/blobstore": {
			own: []string{"images/blob", "internal/ctxio", "internal/errs", "internal/secret"}, outside: []string{"github.com/minio/minio-go", "golang.org/x/sys"},
		},
		"images/replication": {own: []string{"images/blob", "images/blobstore", "internal/backoff", "internal/clock", "internal/errs"}, outside: []string{"golang.org/x/sync"}},
		"images/publish":     {own: []string{"images/blob", "images/blobstore", "internal/backoff", "internal/clock", "internal/errs"}},
		"images/registry": {
			own: []string{"images/blob", "images/oci", "internal/ctxio", "internal/errs", "internal/secret"}, outside: []string{"github.com/opencontainers"},
			tests: []string{"images/registry/registrytest"},
		},
		"images/registry/registrytest": {own: []string{"images/blob", "images/oci", "images/registry", "internal/errs", "internal/testenv"}},
		"images/squashfs":              {own: []string{"internal/errs"}, outside: []string{"github.com/klauspost/compress", "golang.org/x/sys"}, tests: []string{"images/tree/treetest"}},
		"images/secretscan": {
			own: []string{"images/squashfs", "images/tree", "internal/errs"}, outside: []string{"golang.org/x/sys"},
		},
		"images/inventory": {own: []string{"images/squashfs", "internal/errs"}},
		"images/export": {
			own:     []string{"images/blob", "images/squashfs", "images/tree", "internal/ctxio", "internal/errs", "internal/units"},
			outside: []string{"github.com/klauspost/compress", "github.com/opencontainers", "golang.org/x/sync", "golang.org/x/sys"},
			tests:   []string{"images/graft", "images/sif", "images/tree/treetest"},
		},
		"images/tree":          {own: []string{"internal/errs"}, outside: []string{"golang.org/x/sys"}},
		"images/tree/treetest": {own: []string{"images/tree"}, outside: []string{"golang.org/x/sys"}},
		"images/signing":       {own: []string{"internal/errs"}},
		"images/sif": {
			own: []string{"internal/errs"}, outside: []string{"github.com/sylabs/sif", "golang.org/x/sys"}, tests: []string{"images/signing"},
		},
		"images/changeset": {
			own: []string{"images/tree", "internal/errs"}, outside: []string{"golang.org/x/sys"}, tests: []string{"images/tree/treetest"},
		},
		"images/graft": {
			own: []string{"images/squashfs", "images/tree", "internal/clock", "internal/errs"}, outside: []string{"github.com/cespare/xxhash", "golang.org/x/sys"},
			tests: []string{"images/tree/treetest"},
		},

		// What is spoken over HTTP. hubapi itself is what others would import to speak it.
		"hubapi": {own: []string{"internal/backoff", "internal/clock", "internal/errs", "internal/loopback"}},
		"hubapi/hub": {
			own: []string{"internal/errs", "internal/secret"}, outside: []string{"github.com/hashicorp/go-retryablehttp"},
			tests: []string{"internal/hubtest"},
		},
		"hubapi/server/api": {
			own: []string{
				"hubapi", "hubapi/openapi", "hubapi/server/audit", "hubapi/server/convert", "hubapi/server/feeds",
				"hubapi/server/hubs", "hubapi/server/logins", "hubapi/server/offers", "hubapi/server/servers", "hubapi/server/web",
				"internal/agent/control", "internal/clock", "internal/credentials", "internal/errs", "internal/gpu", "internal/units",
				"internal/devicelogin", "internal/metrics", "internal/secret", "internal/sshauth", "kernels", "spawner",
				"spawner/catalog",
			},
			outside: []string{"github.com/go-chi/chi"},
		},
		"hubapi/server/audit": {
			own:     []string{"hubapi", "internal/errs", "spawner"},
			outside: []string{"github.com/go-chi/chi"},
		},
		"hubapi/server/convert": {
			own: []string{
				"hubapi", "hubapi/server/hubs", "internal/agent/control", "internal/credentials", "internal/gpu",
				"internal/units", "internal/sshauth", "spawner",
			},
		},
		"hubapi/server/feeds": {
			own:   []string{"hubapi", "hubapi/server/convert", "hubapi/server/web", "spawner"},
			tests: []string{"hubapi/server/hubs", "internal/agent/control", "internal/errs"},
		},
		"hubapi/server/hubs": {
			own: []string{
				"hubapi/hub", "internal/agent/control", "internal/errs", "internal/gpu", "internal/secret",
				"spawner",
			},
		},
		"hubapi/server/offers": {own: []string{"internal/errs", "internal/gpu", "spawner", "spawner/catalog"}},
		"hubapi/server/outpost": {
			own: []string{
				"hubapi/server/audit", "hubapi/server/convert", "hubapi/server/hubs", "hubapi/server/offers",
				"hubapi/server/web", "internal/agent/control", "internal/errs", "internal/units", "spawner",
				"spawner/catalog",
			},
		},
		"hubapi/server/pages": {
			own: []string{
				"hubapi", "hubapi/server/api", "hubapi/server/audit", "hubapi/server/convert",
				"hubapi/server/feeds", "hubapi/server/hubs", "hubapi/server/logins", "hubapi/server/offers",
				"hubapi/server/usage", "hubapi/server/web",
				"internal/accesstokens", "internal/errs", "internal/units", "internal/secret", "internal/devicelogin",
				"internal/sshauth", "internal/sshclientconfig", "internal/webui", "spawner", "spawner/catalog",
			},
			outside: []string{"github.com/go-chi/chi"},
		},
		"hubapi/server/proxy": {
			own: []string{
				"hubapi/server/audit", "hubapi/server/convert", "hubapi/server/hubs", "hubapi/server/web",
				"internal/agent/control", "internal/errs", "internal/webui", "spawner",
			},
		},
		"hubapi/server/logins": {
			own: []string{
				"hubapi", "hubapi/server/audit", "hubapi/server/hubs", "hubapi/server/web", "internal/accesstokens",
				"internal/devicelogin", "internal/errs", "spawner",
			},
			outside: []string{"github.com/go-chi/chi"},
		},
		"hubapi/server/servers": {
			own: []string{
				"hubapi", "hubapi/server/convert", "hubapi/server/feeds", "hubapi/server/hubs", "hubapi/server/web",
				"internal/clock", "internal/errs", "spawner",
			},
		},
		"hubapi/server/usage": {
			own: []string{
				"hubapi", "hubapi/server/api", "hubapi/server/convert", "hubapi/server/web", "internal/chart",
				"internal/errs", "internal/units", "spawner",
			},
			outside: []string{"github.com/go-chi/chi"},
		},
		"hubapi/server/web": {
			own: []string{
				"hubapi", "hubapi/hub", "hubapi/server/audit", "hubapi/server/hubs", "internal/accesstokens",
				"internal/errs", "internal/loglimit", "internal/metrics", "internal/taskgroup", "kernels", "spawner",
			},
			outside: []string{"github.com/go-chi/chi"},
		},
		"hubapi/server": {
			own: []string{
				"hubapi", "hubapi/server/api", "hubapi/server/audit", "hubapi/server/convert",
				"hubapi/server/feeds", "hubapi/server/hubs", "hubapi/server/logins", "hubapi/server/offers",
				"hubapi/server/outpost",
				"hubapi/server/pages", "hubapi/server/proxy", "hubapi/server/servers", "hubapi/server/usage", "hubapi/server/web", "internal/gpu",
				"internal/accesstokens", "internal/devicelogin", "internal/metrics", "internal/secret", "internal/sshauth",
				"spawner", "spawner/catalog",
			},
			outside: []string{"github.com/go-chi/chi"},
			tests: []string{
				"hubapi/hub", "internal/agent/control", "internal/credentials", "internal/errs",
				"internal/hubtest", "internal/loglimit", "internal/tunnel", "kernels", "spawner/workloads",
				"github.com/coder/websocket", "github.com/invopop/jsonschema", "golang.org/x/crypto/ssh", "golang.org/x/net/html",
			},
		},
		// The document of the API, which is generated, and its page.
		"hubapi/openapi":   {},
		"internal/hubsync": {own: []string{"hubapi/hub", "spawner", "internal/agent/control", "internal/clock", "internal/backoff", "internal/errs", "internal/secret"}},
		"internal/sshgate": {
			own:     []string{"hubapi", "internal/backoff", "internal/clock", "internal/errs", "internal/loglimit", "internal/metrics", "internal/devicelogin", "internal/sshauth", "internal/sshtunnel", "spawner", "spawner/catalog", "spawner/catalog"},
			outside: []string{"github.com/pires/go-proxyproto", "golang.org/x/crypto/ssh", "golang.org/x/sys"},
		},
		"internal/metrics": {own: []string{"internal/gpu", "spawner"}, outside: []string{"github.com/prometheus/client_golang"}},
		"internal/webui":   {own: []string{"hubapi", "spawner", "spawner/catalog", "internal/devicelogin", "internal/units", "internal/errs", "internal/gpu"}, tests: []string{"golang.org/x/net/html"}},

		// What only measures.
		"internal/bench":       {own: []string{"hubapi/hub", "internal/clock", "internal/errs", "internal/secret"}, outside: []string{"golang.org/x/sync"}},
		"deploy/bench/load":    {},
		"deploy/bench/figures": {},
		"deploy/bench/jobs":    {own: []string{"deploy/bench/figures", "hubapi"}},
		"deploy/bench/tunnel":  {own: []string{"deploy/bench/figures", "internal/agent/control", "internal/tunnel"}},
		"deploy/bench/kernels/idle": {
			own: []string{
				"hubapi/hub", "hubapi/server", "hubapi/server/hubs", "hubapi/server/web", "internal/agent/control", "internal/errs", "internal/metrics", "internal/secret", "internal/store",
				"internal/tunnel", "kernels", "kernels/wire", "spawner", "spawner/engine", "spawner/workloads", "spawner/spawnertest",
			},
			outside: []string{"github.com/coder/websocket", "golang.org/x/sync"},
		},
		"deploy/bench/freeze": {
			own: []string{
				"images", "images/apptainer", "images/blob", "images/graft", "images/manifest", "images/oci", "images/records", "images/signing", "images/transfer",
				"images/sif", "images/tree",
			},
			outside: []string{"github.com/google/go-containerregistry", "golang.org/x/sys"},
		},
		"deploy/bench/simulated": {
			own: []string{
				"hubapi", "hubapi/hub", "hubapi/server", "hubapi/server/hubs", "hubapi/server/web", "internal/agent/control", "internal/bench", "internal/hubsync", "internal/identity",
				"internal/metrics", "internal/secret", "internal/store", "spawner", "spawner/catalog", "spawner/engine", "spawner/workloads", "spawner/spawnertest",
			},
			outside: []string{"golang.org/x/sync"},
		},

		// Where the users' data is.
		"internal/xrd":                  {own: []string{"internal/errs"}, tests: []string{"internal/xrd/xrdtest"}},
		"internal/xrd/mount":            {own: []string{"internal/clock", "internal/errs", "internal/mounts", "internal/secret", "internal/taskgroup", "internal/xrd"}, outside: []string{"golang.org/x/sys"}, tests: []string{"internal/xrd/xrdtest"}},
		"internal/datacheck":            {own: []string{"hubapi", "internal/datacheck/rootclient", "internal/errs", "internal/mounts", "internal/secret"}, tests: []string{"internal/xrd/xrdtest"}},
		"internal/datacheck/rootclient": {own: []string{"internal/secret"}, tests: []string{"internal/xrd/xrdtest"}},
		"internal/xrd/xrdtest":          {own: []string{"internal/testenv"}}, // real servers, for tests and measurements

		// A real Hub, for tests alone.
		"internal/hubtest": {own: []string{"hubapi", "internal/testenv"}},

		// What is started anew with each job of this host, and the program that has nothing else.
		"internal/programs":         {own: []string{"internal/agent", "internal/errs", "internal/homes", "spawner/docker/wake", "spawner/local"}},
		"internal/programs/install": {own: []string{"internal/agent/control", "internal/errs", "internal/programs"}, tests: []string{"internal/homes", "spawner/local"}},
		"internal/runner":           {own: []string{"internal/agent", "internal/homes", "internal/programs", "spawner/local"}},

		"internal/paramgrid": {own: []string{"hubapi", "internal/errs"}},
		// What joins sessions with environments. It knows no backend.
		"internal/environments": {
			own: []string{
				"hubapi", "hubapi/server/api", "images", "images/blob", "images/blobstore", "images/changeset", "images/inventory", "images/manifest", "images/oci", "images/progress", "images/publish", "images/records", "images/registry", "images/replication", "images/signing", "images/statements", "images/transfer", "images/tree", "images/trial", "internal/agent/control", "internal/config", "internal/errs", "internal/identity", "internal/metrics", "internal/secret", "internal/taskgroup", "internal/units", "internal/version", "internal/workloadtoken", "spawner", "spawner/engine",
			},
			outside: []string{"golang.org/x/sys"},
			tests: []string{
				"images/apptainer", "images/registry/registrytest", "spawner/docker", "internal/testenv", "internal/testenv/program", "internal/tunnel",
				"github.com/google/go-cmp", "github.com/google/go-containerregistry", "golang.org/x/sync",
			},
		},
		// What commands print. It knows no command, and asks nothing.
		"internal/cli/render": {own: []string{"hubapi", "internal/clock", "internal/units"}, outside: []string{"go.yaml.in/yaml/v4", "golang.org/x/sys"}},
		// Man pages of commands, whichever they are.
		"internal/cli/manual": {outside: []string{"github.com/spf13/cobra"}},
		// Commands: they parse, call and print. Of what runs here they know the service as a whole alone, no backend.
		"internal/cli": {
			own: []string{
				"hubapi", "images/inventory", "images/signing", "images/transfer", "internal/agent",
				"internal/agent/control", "internal/agent/kernelspecs", "internal/bench", "internal/cli/manual", "internal/cli/render",
				"internal/clientlogin", "internal/clock",
				"internal/config", "internal/datacheck", "internal/datacheck/rootclient", "internal/doctor",
				"internal/environments", "internal/errs", "internal/gpu/fakegpu", "internal/gpu/mps",
				"internal/gpu/placement", "internal/gpu/placementsim", "internal/loopback", "internal/mounts", "internal/oidc",
				"internal/paramgrid", "internal/programs", "internal/secret", "internal/service", "internal/setup", "internal/sockets",
				"internal/sshclientconfig", "internal/units", "internal/version", "internal/worker",
				"internal/x509proxy", "kernels/kernelproxy", "kernels/wire",
			},
			outside: []string{"github.com/spf13/cobra", "golang.org/x/sync"},
			tests:   []string{"github.com/rogpeppe/go-internal", "golang.org/x/crypto/ssh", "internal/testenv/program", "spawner"},
		},

		// Parts of the service that its doctor makes too, from the configuration. Of these and the service alone the
		// first knows every backend.
		"internal/service/backends": {
			own: []string{
				"images/sif", "internal/config", "internal/cvmfs", "internal/version", "internal/worker", "spawner/docker",
				"spawner/batch", "spawner/htcondor", "spawner/htcondor/commands", "spawner/htcondor/pool", "spawner/local", "spawner/slurm",
			},
		},
		"internal/service/clients": {own: []string{"hubapi/hub", "internal/config", "internal/oidc", "internal/xrd"}},
		// The directories of users' workloads, for the service and its doctor.
		"internal/homes/homemounts": {
			own: []string{
				"hubapi", "internal/config", "internal/errs", "internal/homes", "internal/identity",
				"internal/metrics", "internal/programs", "internal/store", "spawner", "spawner/catalog",
				"spawner/launch",
			},
			outside: []string{"golang.org/x/sync"},
		},
		// The parts of the service, joined: the one package that knows every backend.
		"internal/service": {
			own: []string{
				"hubapi", "hubapi/hub", "hubapi/server", "hubapi/server/api", "hubapi/server/hubs", "images",
				"images/apptainer", "images/manifest", "images/records", "images/registry", "images/trial",
				"internal/agent/control", "internal/config", "internal/credentials", "internal/cvmfs",
				"internal/environments", "internal/errs", "internal/gpu", "internal/gpu/cdi",
				"internal/gpu/driverrpc", "internal/gpu/fakegpu", "internal/gpu/fleet", "internal/gpu/metering",
				"internal/gpu/mps", "internal/gpu/notify", "internal/gpu/placement", "internal/gpu/poolview",
				"internal/gpu/publish", "internal/gpu/watchdog", "internal/homes/homemounts", "internal/hubsync",
				"internal/identity", "internal/loopback", "internal/metrics", "internal/mounts",
				"internal/programs", "internal/programs/install", "internal/reserve", "internal/secret",
				"internal/accesstokens", "internal/devicelogin", "internal/service/backends", "internal/service/clients",
				"internal/sockets", "internal/sshauth",
				"internal/sshgate", "internal/store", "internal/tunnel", "internal/usage", "internal/version", "internal/webui",
				"internal/workloadtoken", "internal/x509proxy", "internal/xrd", "internal/xrd/mount", "kernels",
				"kernels/kernelspecs", "kernels/wire", "spawner", "spawner/catalog", "spawner/disklimit",
				"spawner/batch", "spawner/docker", "spawner/engine", "spawner/htcondor", "spawner/htcondor/pool", "spawner/launch",
				"spawner/local", "spawner/workloads",
			},
			outside: []string{"golang.org/x/sync"},
			tests:   []string{"spawner/spawnertest"},
		},
		// What looks at a host before the service does, with the same parts.
		// The first configuration of a site.
		"internal/setup": {own: []string{"internal/config", "internal/errs"}},
		"internal/doctor": {
			own: []string{
				"hubapi", "hubapi/hub", "images/replication", "internal/config", "internal/cvmfs",
				"internal/environments", "internal/errs", "internal/gpu", "internal/gpu/driverrpc",
				"internal/gpu/fakegpu", "internal/gpu/mps", "internal/homes", "internal/homes/homemounts",
				"internal/identity", "internal/programs", "internal/quota", "internal/service/backends",
				"internal/service/clients", "internal/units", "internal/version", "internal/x509proxy",
				"internal/xrd", "spawner/batch", "spawner/docker", "spawner/htcondor", "spawner/local",
			},
			outside: []string{"golang.org/x/crypto/ssh", "golang.org/x/sys"},
		},
		"internal/sockets": {
			own:     []string{"internal/clock", "internal/config", "internal/errs"},
			outside: []string{"golang.org/x/sys"},
		},
		"internal/cvmfs": {
			own: []string{"internal/config", "internal/errs", "internal/metrics", "internal/mounts"},
		},

		// The built program with real parts: tests alone.
		"internal/e2e": {tests: []string{
			"hubapi", "images/registry/registrytest", "internal/hubtest", "internal/store", "internal/testenv/autofs", "internal/testenv/oidcissuer",
			"internal/testenv/program", "internal/xrd/xrdtest", "spawner/htcondor/condortest", "spawner/slurm/slurmtest",
			"github.com/coder/websocket", "github.com/rogpeppe/go-internal", "golang.org/x/crypto/ssh", "golang.org/x/sys",
		}},
	}
}

// never are imports that no row may ever bring about, not even through other packages.
func never() []struct{ from, to, why string } {
	return []struct{ from, to, why string }{
		{"spawner", "images", "the engine knows environments by name alone; internal/environments joins them"},
		{"spawner/engine", "images", "the engine knows environments by name alone; internal/environments joins them"},
		{"images", "spawner", "environments know nothing of sessions; internal/environments joins them"},
		{"spawner/engine", "hubapi", "the engine knows nothing of HTTP"},
		{"spawner/engine", "spawner/docker", "the engine knows no backend"},
		{"spawner/engine", "spawner/local", "the engine knows no backend"},
		{"spawner/engine", "spawner/htcondor", "the engine knows no backend"},
		{"spawner/docker", "spawner/engine", "a backend knows the engine's words alone"},
		{"spawner/local", "spawner/engine", "a backend knows the engine's words alone"},
		{"spawner/htcondor", "spawner/engine", "a backend knows the engine's words alone"},
		{"spawner/batch", "spawner/engine", "a backend knows the engine's words alone"},
		{"spawner/batch", "spawner/htcondor", "what is a batch system's own is behind batch.System"},
		{"spawner/docker", "spawner/local", "backends do not know each other"},
		{"spawner/local", "spawner/docker", "backends do not know each other"},
		{"spawner/docker", "hubapi", "a backend knows the engine's words alone"},
		{"spawner/local", "hubapi", "a backend knows the engine's words alone"},
		{"hubapi", "spawner", "a program that speaks the API must not carry the engine"},
		{"internal/agent", "spawner", "the agent is small, and knows one app"},
		{"internal/agent", "internal/store", "the agent keeps no records"},
		{"internal/agent", "github.com/spf13/cobra", "the agent starts in milliseconds"},
		{"internal/agent", "C", "the agent is a static program"},
		{".", "C", "the program is built with CGO_ENABLED=0"},
		{".", "testing", "packages that help tests are not in the program"},
		{".", "github.com/NVIDIA/go-nvml", "NVIDIA's library is called in the helper program alone, which may crash"},
		{".", "github.com/ebitengine/purego", "purego needs a libc: it is for the helper program alone"},
		{"internal/agent", "github.com/NVIDIA/go-nvml", "the agent is a static program"},
		{"internal/agent", "github.com/ebitengine/purego", "the agent is a static program"},
	}
}

// rooms are the entries that the root may have.
func rooms() []string {
	return []string{
		".ci", ".git", ".gitignore", "LICENSE", "README.md", "go.mod", "go.sum", "main.go",
		"deploy", "hubapi", "images", "internal", "kernels", "notebooks", "spawner",
		"slipway", "slipway-gpu", "slipway-gpu-inside", // built, and ignored by git
	}
}
