package spawner

import "time"

// Host is in Config.Capacity what all workloads of this host may lease together, whichever its backends.
const Host = "host"

// Capacity is what workloads may lease of one backend in all. A field of zero is not limited.
type Capacity struct {
	CPUs    float64
	Memory  int64 // bytes
	Count   int   // workloads at once
	PerUser int   // jobs at once, of one user: they keep nobody from her sessions
}

// Allowance is what one user's jobs may have. A field of zero is not limited.
type Allowance struct {
	Running   int           // jobs at once that run, or that a batch system has
	Submitted int           // jobs at once that wait or run
	Storage   int64         // bytes of files that her jobs keep
	GPUHours  float64       // of GPUs of this host, of her sessions and jobs, within Window
	Window    time.Duration // required with GPUHours
}
