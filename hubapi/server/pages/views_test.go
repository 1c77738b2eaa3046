package pages

import "testing"

// TestOutputWithoutAccessLog: of Jupyter's output what is left out are requests that were answered well, and nothing
// else.
func TestOutputWithoutAccessLog(t *testing.T) {
	const output = `[I 2026-11-28 20:00:00.123 ServerApp] Serving notebooks from local directory: /home/alice
[I 2026-11-28 20:00:01.000 ServerApp] 200 GET /user/alice/api/status (alice@172.17.0.1) 1.23ms
[D 2026-11-28 20:00:01.000 LabApp] 304 GET /user/alice/lab (alice@172.17.0.1) 1.23ms
[W 2026-11-28 20:00:02.000 ServerApp] 404 GET /user/alice/nothing (alice@172.17.0.1) 2.00ms
[I 2026-11-28 20:00:03.000 ServerApp] 500 POST /user/alice/api/kernels
I printed: 200 GET /
`
	const want = `[I 2026-11-28 20:00:00.123 ServerApp] Serving notebooks from local directory: /home/alice
[W 2026-11-28 20:00:02.000 ServerApp] 404 GET /user/alice/nothing (alice@172.17.0.1) 2.00ms
[I 2026-11-28 20:00:03.000 ServerApp] 500 POST /user/alice/api/kernels
I printed: 200 GET /
`
	if got := withoutAccessLog(output); got != want {
		t.Errorf("%s", got)
	}
}
