package spawner

// The causes, in words for programs; hubapi has the same.
const (
	CauseExit       Cause = "exit"       // its payload says so, by its exit code
	CauseSignal     Cause = "signal"     // a signal ended it
	CauseMemory     Cause = "memory"     // it needed more than it may have
	CauseGPUMemory  Cause = "gpu-memory" // the same of its slice of a GPU
	CauseTime       Cause = "time"       // its time limit was reached
	CauseModule     Cause = "module"     // its environment lacks a module
	CauseOutput     Cause = "output"     // it ended well, and has not left what it was to leave, or not all could be kept
	CauseDisk       Cause = "disk"       // a disk was full
	CauseDependency Cause = "dependency" // what it was to wait for has failed
	CauseStart      Cause = "start"      // it could not be started
	CauseLost       Cause = "lost"       // what ran of it is gone, nobody knows why
	CauseCanceled   Cause = "canceled"   // its owner, or the administrator, ended it
)
