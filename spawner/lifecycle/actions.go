package lifecycle

// Action is what the Manager is to do next for a workload.
type Action string

// The actions.
const (
	Wait  Action = "wait"  // nothing, until something changes
	Lease Action = "lease" // take its resources: Pending to Leased
	// some of what a job was to start after is done: it does not wait for that any more
	ClearDependency Action = "clear-dependency"
	Start           Action = "start"        // have the backend start it: to Starting
	Prewarm         Action = "prewarm"      // tell the agent of a standby what it is to become
	LaunchApp       Action = "launch-app"   // give the agent the app: to Booting
	Adopt           Action = "adopt"        // the agent has the app already: to Booting
	MarkRunning     Action = "mark-running" // it answers: to Running
	Collect         Action = "collect"      // fetch log, files and outcome from the agent, then Stopping
	Fail            Action = "fail"         // it went wrong: note why, then Stopping
	Expire          Action = "expire"       // its time is up: to Stopping
	Terminate       Action = "terminate"    // its owner wants it ended: to Stopping
	Kill            Action = "kill"         // have the backend end its processes
	// its slice of a GPU is bad: have it ended, to go back in line for another
	ReplaceSlice Action = "replace-slice"
	// its slice is borrowed, and called back: have it ended, to go back in line
	Preempt Action = "preempt"
	// a batch system took its place away: have what is left cleared, to go back in line
	HandleEviction Action = "handle-eviction"
	// it has ended on another host: bring here what came back of it, a session's changes above all
	Checkpoint Action = "checkpoint"
	Requeue    Action = "requeue"     // it was seen gone, and goes back in line: to Pending
	EndBackoff Action = "end-backoff" // it has waited for long enough before its next try: it stands in line
	RetryJob   Action = "retry"       // it has failed and was seen gone, and is tried once more: to Pending
	Resume     Action = "resume"      // it was to be taken back, and has begun: back to Starting
	Release    Action = "release"     // it was seen gone: give its resources back, to Stopped
	Cleanup    Action = "cleanup"     // have the backend remove what is left
	Retire     Action = "retire"      // from Stopped or Pending to Removing
	Delete     Action = "delete"      // nothing is left: drop the record
)
